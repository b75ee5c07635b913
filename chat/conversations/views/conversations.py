"""The home page, the conversation page, and changes of a whole conversation."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_GET, require_POST, require_safe

from chat import access
from chat.conversations import page as page_responses
from chat.conversations.actions import conversation as actions
from chat.conversations.actions import messages as message_actions
from chat.conversations.choice_form import ChoiceForm, offered_in
from chat.conversations.composer import files_offered, tools_for
from chat.conversations.forms import StartForm, SwitchForm, TitleForm, VisibilityForm
from chat.conversations.listing import listing_context
from chat.conversations.project_lines import folds_of
from chat.conversations.transcript import page_after, page_before, read_path, read_turns
from chat.core.errors import ActionRefused, InvalidForm
from chat.files.actions import read_attachments, shows
from chat.models import Conversation, Project, Upstream, User
from chat.web import responses
from chat.web.decorators import frames_previews, login_required, post_action
from chat.web.responses import beside_room

# Readers shown by name; of a larger team the rest is counted.
PEOPLE_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    person: User
    role: str
    may_write: bool
    is_me: bool
    is_owner: bool


@login_required
@require_safe
def people(request: HttpRequest, public_id: UUID) -> HttpResponse:
    conversation = access.get_conversation(request.user, public_id)
    context = _sharing_context(request.user, conversation)
    return beside_room(request, "conversations/visibility.html", conversation, context)


def _sharing_context(user: User, conversation: Conversation) -> dict[str, Any]:
    readers = access.readers_of(conversation)
    writers = set(access.writers_of(conversation).values_list("pk", flat=True))
    shown = sorted(
        (
            Reader(
                person=membership.user,
                role=membership.get_role_display(),
                may_write=membership.pk in writers,
                is_me=membership.user_id == user.pk,
                is_owner=membership.user_id == conversation.owner_id,
            )
            for membership in readers.order_by("user__name", "pk")[:PEOPLE_SHOWN]
        ),
        key=lambda reader: not reader.is_owner,
    )
    return {
        "people": shown,
        "more": readers.count() - len(shown),
        "conversation": conversation,
        "is_shared": conversation.is_shared,
        "is_owner": conversation.owner_id == user.pk,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    icon: str
    title: str | Promise
    text: str | Promise


# First messages for the demo servers, which choose a scene by an English word in the text: so the
# texts are not translated.
DEMO_STARTERS = (
    Starter(
        icon="brain",
        title=gettext_lazy("Solve a puzzle"),
        text="Think it through: three people need eight days. One leaves after two. When are they done?",
    ),
    Starter(
        icon="wrench",
        title=gettext_lazy("Use a tool"),
        text="Use a tool to find the unpaid invoices for October.",
    ),
    Starter(
        icon="code",
        title=gettext_lazy("Read code"),
        text="Show me the code that finds overdue invoices.",
    ),
    Starter(
        icon="table",
        title=gettext_lazy("Make a table"),
        text="Put the plan for the team day into a table.",
    ),
)
# For every other model.
STARTERS = (
    Starter(
        icon="book-open",
        title=gettext_lazy("Explain something"),
        text=gettext_lazy("Explain how TLS certificates work, for a developer who is new to them."),
    ),
    Starter(
        icon="pen-line",
        title=gettext_lazy("Write a draft"),
        text=gettext_lazy("Draft a short email that moves Thursday’s meeting to next week."),
    ),
    Starter(
        icon="code",
        title=gettext_lazy("Write code"),
        text=gettext_lazy("Write a Python function that removes duplicate lines from a file."),
    ),
    Starter(
        icon="list-checks",
        title=gettext_lazy("Make a plan"),
        text=gettext_lazy("Make a checklist for releasing a new version of an internal tool."),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StarterList:
    """Suggestions for some models; the page shows the list that fits the chosen one."""

    kind: str
    starters: tuple[Starter, ...]
    is_shown: bool


def starter_lists(form: StartForm) -> list[StarterList]:
    is_demo = bool(form.chosen and form.chosen.is_demo)
    return [
        StarterList(kind="demo", starters=DEMO_STARTERS, is_shown=is_demo),
        StarterList(kind="any", starters=STARTERS, is_shown=not is_demo),
    ]


@login_required
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    project = _project_in(request.user, request.GET)
    return _home_page(request, project, draft=request.GET.get("draft", "")[:10_000])


def _project_in(user: User, data: QueryDict) -> Project | None:
    """The project in which a conversation is to be started. Raises ``Http404`` and
    ``PermissionDenied``."""
    if not data.get("project"):
        return None
    public_id = _as_uuid(data["project"])
    if public_id is None:
        raise Http404(access.NOT_HERE)
    return access.get_project(user, public_id, for_write=True)


def _home_page(
    request: HttpRequest,
    project: Project | None,
    *,
    draft: str = "",
    refusal: str = "",
    status: int = 200,
) -> HttpResponse:
    user = request.user
    form = _start_form(user, None, project)
    teams = list(form.fields["team"].queryset)
    context: dict[str, Any] = {
        "form": form,
        "teams": teams,
        "project": project,
        "instructing": project if project and project.instructions else None,
        "project_files": files_offered(user, project.pk) if project else None,
        "tool_choice": tools_for(teams, form.upstreams, project),
        "key": uuid.uuid4(),
        "action": reverse("conversation_new"),
        "room": f"new-{project.public_id.hex}" if project else "new",
        "draft": draft,
        "refusal": refusal,
        # Asked only by a page without models, which says why.
        "has_any_server": Upstream.objects.exists,
        "has_enabled_server": Upstream.objects.filter(is_enabled=True).exists,
        "has_only_demos": all(upstream.is_demo for upstream in form.upstreams),
        "starter_lists": starter_lists(form),
    }
    return render(request, "conversations/home.html", context, status=status)


def _start_form(user: User, data: Any, project: Project | None) -> StartForm:
    teams = access.writable_teams(user)
    has_default = project is not None and project.upstream is not None
    return StartForm(
        data,
        upstreams=access.usable_upstreams(user),
        teams=teams.filter(pk=project.team_id) if project else teams,
        remembered=offered_in(project) if project and has_default else _last_used(user),
        project=project,
        shared=files_offered(user, project.pk) if project else None,
    )


@login_required
@require_GET
def parameters(request: HttpRequest) -> HttpResponse:
    """The parameters of a server's API type, which a page fetches when a model of it is chosen."""
    server, shown = _as_uuid(request.GET.get("server")), _as_uuid(request.GET.get("conversation"))
    if server is None:
        raise Http404(access.NOT_HERE)
    upstream = access.get_usable_upstream(request.user, server)
    conversation = access.get_conversation(request.user, shown) if shown else None
    form = ChoiceForm(upstreams=[upstream], remembered=conversation, chosen=upstream)
    return render(request, "conversations/_parameter_fields.html", {"form": form})


def _last_used(user: User) -> Conversation | None:
    """A new conversation offers the model of the person's last one, without its parameters."""
    last = (
        Conversation.objects.visible_to(user)
        .filter(owner=user, upstream__is_enabled=True)
        .select_related("upstream")
        .order_by("-updated_at")
        .first()
    )
    if last is not None:
        last.system_prompt = ""
        last.parameters = {}
    return last


@login_required
@require_POST
def new(request: HttpRequest) -> HttpResponse:
    try:
        project = _project_in(request.user, request.POST)
    except (Http404, PermissionDenied) as error:
        # Deleted while the message was written, or the right to write in it has ended.
        sentence = gettext(
            "This project was deleted, or you can’t write in it anymore. Your text is kept. Start the "
            "conversation elsewhere."
        )
        status = 404 if isinstance(error, Http404) else 403
        return _not_started(request, None, sentence, status)
    form = _start_form(request.user, request.POST, project)
    if not form.is_valid():
        return _not_started(request, project, form.first_error(), 422)
    said = form.cleaned_data
    try:
        pictures = read_attachments(said["project_files"], request.FILES.getlist("pictures"))
        run = message_actions.start_conversation(
            request.user,
            project or said["team"],
            text=said["text"],
            choice=form.model_choice(),
            idempotency_key=said["key"],
            visibility=said["visibility"] or form.fields["visibility"].initial,
            expires_in=said["expires"],
            pictures=pictures,
            tools=said["tools"],
        )
    except ActionRefused as refusal:
        return _not_started(request, project, str(refusal), refusal.status)
    if not (page_responses.says(run, said["text"]) and shows(run, pictures)):
        refusal_text = str(page_responses.SAID_OTHERWISE)
        return _not_started(request, project, refusal_text, 409, new_key=True)
    return _started(request, run.conversation)


def _started(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    address = reverse("conversation", args=[conversation.public_id])
    if not request.htmx:
        return redirect(address)
    return HttpResponse(headers={"HX-Redirect": address, "HX-Trigger": page_responses.ACCEPTED})


def _not_started(
    request: HttpRequest,
    project: Project | None,
    refusal: str,
    status: int,
    *,
    new_key: bool = False,
) -> HttpResponse:
    if request.htmx:
        key_place = page_responses.COMPOSER_KEY if new_key else ""
        return responses.refusal_patch(
            request, refusal, status=status, place="composer-note", key_place=key_place
        )
    draft = request.POST.get("text", "")
    return _home_page(request, project, draft=draft, refusal=refusal, status=status)


@login_required
@require_GET
@frames_previews
def page(request: HttpRequest, public_id: UUID) -> HttpResponse:
    conversation = access.get_conversation(request.user, public_id)
    return page_responses.room_page(
        request,
        conversation,
        draft=request.GET.get("draft", "")[:10_000],
        since=_as_uuid(request.GET.get("since")),
    )


@login_required
@require_GET
def changes(request: HttpRequest, public_id: UUID) -> HttpResponse:
    return page_responses.changes(request, access.get_conversation(request.user, public_id))


@login_required
@require_GET
@frames_previews
def earlier(request: HttpRequest, public_id: UUID, before: UUID) -> HttpResponse:
    """Loads the turns above the first one on the page; those ``after`` its last one, if it shows
    turns in the middle."""
    conversation = access.get_conversation(request.user, public_id)
    path = read_path(request.user, conversation)
    after = _as_uuid(request.GET.get("after"))
    indices = page_before(path, before, after)
    if indices is None:
        raise Http404(access.NOT_HERE)
    context = {
        "conversation": conversation,
        "turns": read_turns(path, indices),
        "earlier": indices.start,
        "later": page_after(path, indices),
        "is_later": after is not None,
        "may_write": access.may_write(request.user, conversation),
    }
    return render(request, "conversations/earlier.html", context)


@login_required
@require_GET
def listing(request: HttpRequest) -> HttpResponse:
    current = _as_uuid(request.GET.get("current"))
    shown = Conversation(public_id=current) if current else None
    lines = request.GET.get("lines", "")
    context = listing_context(
        request.user,
        shown,
        request.GET.get("before", ""),
        int(lines) if lines.isdecimal() and len(lines) < 5 else 0,
        folds_of(request.COOKIES),
    )
    context["sidebar_page"] = request.GET.get("page", "")
    return render(request, "conversations/_conversation_list.html", context)


def _as_uuid(text: str | None) -> UUID | None:
    try:
        return UUID(text or "")
    except ValueError:
        return None


@post_action(
    partial(access.get_conversation, for_write=True), page_responses.refuse_beside("head-note")
)
def rename(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    form = TitleForm(request.POST)
    if not form.is_valid():
        raise InvalidForm(gettext("Enter a title of up to 200 characters."))
    actions.rename(conversation, form.cleaned_data["title"])
    return page_responses.accepted(request, conversation)


@post_action(access.get_own_conversation, page_responses.refuse_beside("sharing-note"))
def visibility(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    """Shares the conversation or makes it private. The panel from which that is asked is patched as well."""
    form = VisibilityForm(request.POST, conversation=conversation)
    if not form.is_valid():
        raise InvalidForm(gettext("Choose who can read this conversation."))
    if form.cleaned_data["visibility"] != conversation.visibility:
        actions.set_visibility(request.user, conversation, form.cleaned_data["visibility"])
    response = page_responses.accepted(request, conversation)
    if request.htmx:
        context = {**_sharing_context(request.user, conversation), "in_panel": True}
        response.content += render(request, "conversations/sharing_patch.html", context).content
    return response


@post_action(
    partial(access.get_conversation, for_write=True), page_responses.refuse_beside("tools-note")
)
def switch(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    """Sets the tools of the conversation."""
    form = SwitchForm(request.POST, tools=conversation.team.tools.all())
    if not form.is_valid():
        raise InvalidForm(form.first_error())
    actions.switch_tools(request.user, conversation, form.cleaned_data["tools"])
    return page_responses.accepted(request, conversation)
