"""Home, the conversation page, and what is done to a conversation as a whole."""

from __future__ import annotations

import uuid
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from chat import access
from chat.actions import conversations as verbs
from chat.actions.errors import ActionRefused
from chat.actions.files import read_pictures, shows
from chat.models import Conversation, Upstream, User
from chat.views import room
from chat.views.forms import StartForm, TitleForm, VisibilityForm
from chat.views.gate import signed_in
from chat.views.listing import listing_context
from chat.views.previews import frames_previews
from chat.views.starters import starters_for
from chat.views.tool_choice import tools_for
from chat.views.transcript import page_before, read_path, read_turns


@signed_in
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    return _home_page(request, draft=request.GET.get("draft", "")[:10_000])


def _home_page(
    request: HttpRequest, *, draft: str = "", refusal: str = "", status: int = 200
) -> HttpResponse:
    user = request.user
    form = _start_form(user, None)
    teams = list(form.fields["team"].queryset)
    context: dict[str, Any] = {
        "form": form,
        "teams": teams,
        "tool_choice": tools_for(teams, form.upstreams),
        "key": uuid.uuid4(),
        "action": reverse("conversation_new"),
        "room": "new",
        "draft": draft,
        "refusal": refusal,
        "has_servers": bool(form.upstreams),
        "has_any_server": bool(form.upstreams) or Upstream.objects.exists(),
        "starters": starters_for(form.upstreams),
        **listing_context(user),
    }
    return render(request, "conversations/home.html", context, status=status)


def _start_form(user: User, data: Any) -> StartForm:
    return StartForm(
        data,
        upstreams=access.usable_upstreams(user),
        teams=access.writable_teams(user),
        remembered=_last_used(user),
    )


def _last_used(user: User) -> Conversation | None:
    """A new conversation offers the model of the person's last one; the rest was that one's own."""
    last = (
        Conversation.objects.visible_to(user)
        .filter(owner=user, upstream__isnull=False)
        .select_related("upstream")
        .order_by("-updated_at")
        .first()
    )
    if last is not None:
        last.system_prompt = ""
        last.parameters = {}
    return last


@signed_in
@require_POST
def new(request: HttpRequest) -> HttpResponse:
    form = _start_form(request.user, request.POST)
    if not form.is_valid():
        return _not_started(request, form.first_error(), 422)
    said = form.cleaned_data
    try:
        pictures = read_pictures(request.FILES.getlist("pictures"))
        run = verbs.start_conversation(
            request.user,
            said["team"],
            text=said["text"],
            choice=form.model_choice(),
            idempotency_key=said["key"],
            visibility=said["visibility"] or "private",
            pictures=pictures,
            tools=said["tools"],
        )
    except ActionRefused as refusal:
        return _not_started(request, str(refusal), room.status_of(refusal))
    if not (room.says(run, said["text"]) and shows(run, pictures)):
        return _not_started(request, room.SAID_OTHERWISE, 409, new_key=True)
    return _started(request, run.conversation)


def _started(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    address = reverse("conversation", args=[conversation.public_id])
    if not request.htmx:
        return redirect(address)
    return HttpResponse(headers={"HX-Redirect": address, "HX-Trigger": room.ACCEPTED})


def _not_started(
    request: HttpRequest, refusal: str, status: int, *, new_key: bool = False
) -> HttpResponse:
    if request.htmx:
        return room.refusal_patch(
            request, refusal, status=status, place="composer-note", new_key=new_key
        )
    draft = request.POST.get("text", "")
    return _home_page(request, draft=draft, refusal=refusal, status=status)


@signed_in
@require_GET
@frames_previews
def page(request: HttpRequest, public_id: UUID) -> HttpResponse:
    conversation = access.get_conversation(request.user, public_id)
    return room.room_page(request, conversation, draft=request.GET.get("draft", "")[:10_000])


@signed_in
@require_GET
def changes(request: HttpRequest, public_id: UUID) -> HttpResponse:
    return room.changes(request, access.get_conversation(request.user, public_id))


@signed_in
@require_GET
def earlier(request: HttpRequest, public_id: UUID, before: UUID) -> HttpResponse:
    """The turns above the first one on the page."""
    conversation = access.get_conversation(request.user, public_id)
    path = read_path(request.user, conversation)
    indices = page_before(path, before)
    if indices is None:
        raise Http404(access.NOT_HERE)
    context = {
        "conversation": conversation,
        "turns": read_turns(path, indices),
        "earlier": indices.start,
        "may_write": access.may_write(request.user, conversation),
    }
    if not request.htmx:
        context |= listing_context(request.user, conversation)
    return render(request, "conversations/earlier.html", context)


@signed_in
@require_GET
def listing(request: HttpRequest) -> HttpResponse:
    current = UUID(request.GET["current"]) if _is_uuid(request.GET.get("current")) else None
    shown = Conversation(public_id=current) if current else None
    context = listing_context(request.user, shown, request.GET.get("before", ""))
    context["is_inbox"] = "inbox" in request.GET
    return render(request, "conversations/_conversation_list.html", context)


def _is_uuid(text: str | None) -> bool:
    try:
        return bool(UUID(text or ""))
    except ValueError:
        return False


@signed_in
@require_POST
def rename(request: HttpRequest, public_id: UUID) -> HttpResponse:
    conversation = access.get_conversation(request.user, public_id, for_write=True)
    form = TitleForm(request.POST)
    if not form.is_valid():
        sentence = "A title needs between one and 200 letters."
        return room.refused(request, conversation, sentence, status=422, place="head-note")
    try:
        verbs.rename(conversation, form.cleaned_data["title"])
    except ActionRefused as refusal:
        return room.refused(request, conversation, str(refusal), status=409, place="head-note")
    return room.accepted(request, conversation)


@signed_in
@require_POST
def visibility(request: HttpRequest, public_id: UUID) -> HttpResponse:
    conversation = access.get_own_conversation(request.user, public_id)
    form = VisibilityForm(request.POST)
    if not form.is_valid():
        sentence = "Choose who may read it."
        return room.refused(request, conversation, sentence, status=422, place="head-note")
    if form.cleaned_data["visibility"] != conversation.visibility:
        verbs.set_visibility(request.user, conversation, form.cleaned_data["visibility"])
    return room.accepted(request, conversation)


@signed_in
@require_POST
def delete(request: HttpRequest, public_id: UUID) -> HttpResponse:
    verbs.delete(request.user, access.get_own_conversation(request.user, public_id))
    if not request.htmx:
        return redirect("home")
    return HttpResponse(headers={"HX-Redirect": reverse("home")})
