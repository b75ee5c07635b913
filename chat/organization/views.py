"""Pages of all, archived and deleted conversations, and changes of one or several of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import F, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import Resolver404, resolve, reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_GET, require_POST

from chat import access
from chat.conversations.actions import conversation as conversation_actions
from chat.core.errors import ActionRefused
from chat.models import Conversation, User
from chat.models.team import WRITING_ROLES
from chat.organization import actions
from chat.organization.forms import ChangeForm
from chat.organization.tags import Undo, undo_mark
from chat.web.decorators import login_required, path_in_browser

PAGE_LINES = 50


# --- pages --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A conversation on one of the pages. ``at`` is the time that its page is about."""

    conversation: Conversation
    at: datetime
    may_change: bool
    # When it is removed from the trash.
    ends_at: datetime | None = None


@login_required
@require_GET
def everything(request: HttpRequest) -> HttpResponse:
    rows = Conversation.objects.visible_to(request.user).filter(archived_at__isnull=True)
    return _page(request, "all", rows, by="updated_at")


@login_required
@require_GET
def archived(request: HttpRequest) -> HttpResponse:
    rows = Conversation.objects.visible_to(request.user).filter(archived_at__isnull=False)
    return _page(request, "archived", rows, by="archived_at")


@login_required
@require_GET
def trash(request: HttpRequest) -> HttpResponse:
    rows = Conversation.objects.in_trash_of(request.user)
    return _page(request, "trash", rows, by="deleted_at")


def _page(
    request: HttpRequest, name: str, rows: QuerySet[Conversation], *, by: str
) -> HttpResponse:
    rows = rows.annotate(role=F("team__memberships__role")).select_related(
        "team", "owner", "project"
    )
    rows = rows.order_by(f"-{by}", "-pk").defer("system_prompt", "parameters")
    page = Paginator(rows, PAGE_LINES).get_page(request.GET.get("page"))
    context = {
        "tab": name,
        "page": page,
        "lines": [_line(request.user, row, by) for row in page],
        "trash_days": settings.TRASH_DAYS,
        "sidebar_page": "conversations",
    }
    return render(request, "organization/conversations.html", context)


def _line(user: User, row: Any, by: str) -> Line:
    ends = [row.expires_at] if row.expires_at else []
    if row.deleted_at is not None:
        ends.append(row.deleted_at + timedelta(days=settings.TRASH_DAYS))
    return Line(
        conversation=row,
        at=getattr(row, by),
        may_change=row.owner_id == user.pk and row.role in WRITING_ROLES,
        ends_at=min(ends, default=None),
    )


@login_required
@require_GET
def options(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """What can be done with a conversation of the sidebar: in a menu, without scripts on a page."""
    conversation = access.get_conversation(request.user, public_id)
    pins = [each.conversation_id for each in actions.shown_pins(request.user)]
    place = pins.index(conversation.pk) if conversation.pk in pins else None
    may_write = access.may_write(request.user, conversation)
    context = {
        "conversation": conversation,
        "may_write": may_write,
        "may_change": may_write and conversation.owner_id == request.user.pk,
        "is_shared": conversation.is_shared,
        "above": place - 1 if place else None,
        "below": place + 1 if place is not None and place + 1 < len(pins) else None,
    }
    template = "organization/_options.html" if request.htmx else "organization/options.html"
    return render(request, template, context)


# --- changes ------------------------------------------------------------------------------------

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """``get``: the function of `chat.access` by which a person may do it. ``say`` says in one
    sentence what was done with so many conversations; ``undo`` names the change that takes it
    back."""

    get: Callable[[User, UUID], Conversation]
    act: Callable[[User, Conversation, Values], None]
    say: Callable[[int], str]
    undo: str = ""
    # Whether nobody sees the conversation's page any more.
    is_removal: bool = False


CHANGES: dict[str, Change] = {
    "pin": Change(
        get=access.get_conversation,
        act=lambda user, one, values: actions.pin(user, one, values["place"]),
        say=lambda count: gettext("Pinned"),
    ),
    "unpin": Change(
        get=access.get_conversation,
        act=lambda user, one, values: actions.unpin(user, one),
        say=lambda count: gettext("Unpinned"),
    ),
    "rename": Change(
        get=partial(access.get_conversation, for_write=True),
        act=lambda user, one, values: conversation_actions.rename(one, values["title"]),
        say=lambda count: gettext("Renamed"),
    ),
    "keep": Change(
        get=access.get_own_conversation,
        act=lambda user, one, values: actions.keep(user, one),
        say=lambda count: gettext("This conversation doesn’t expire anymore"),
    ),
    "archive": Change(
        get=access.get_own_conversation,
        act=lambda user, one, values: actions.archive(user, one),
        say=lambda count: _counted(
            ngettext("Conversation archived", "%(count)d conversations archived", count), count
        ),
        undo="unarchive",
    ),
    "unarchive": Change(
        get=access.get_own_conversation,
        act=lambda user, one, values: actions.unarchive(user, one),
        say=lambda count: _counted(
            ngettext(
                "Conversation moved out of the archive",
                "%(count)d conversations moved out of the archive",
                count,
            ),
            count,
        ),
    ),
    "delete": Change(
        get=access.get_own_conversation,
        act=lambda user, one, values: conversation_actions.delete(user, one),
        say=lambda count: _counted(
            ngettext(
                "Conversation moved to the trash",
                "%(count)d conversations moved to the trash",
                count,
            ),
            count,
        ),
        undo="restore",
        is_removal=True,
    ),
    "restore": Change(
        get=access.get_trashed_conversation,
        act=lambda user, one, values: actions.restore(user, one),
        say=lambda count: _counted(
            ngettext("Conversation restored", "%(count)d conversations restored", count), count
        ),
    ),
    "erase": Change(
        get=access.get_trashed_conversation,
        act=lambda user, one, values: actions.erase(user, one),
        say=lambda count: _counted(
            ngettext(
                "Conversation deleted forever", "%(count)d conversations deleted forever", count
            ),
            count,
        ),
        is_removal=True,
    ),
}
# Where forms without scripts lead back to.
PAGES = {
    "all": "conversations",
    "archived": "conversations_archived",
    "trash": "conversations_trash",
}


def _counted(text: str, count: int) -> str:
    return text % {"count": count}


@login_required
@require_POST
def change(request: HttpRequest, verb: str) -> HttpResponse:
    """Changes all conversations whose ids are sent, as far as they are still there."""
    form = ChangeForm({**request.POST.dict(), "conversation": request.POST.getlist("conversation")})
    if verb not in CHANGES or not form.is_valid():
        raise Http404(access.NOT_HERE)
    values, known = form.cleaned_data, CHANGES[verb]
    if not values["conversation"]:
        return _refuse(request, gettext("Select conversations first."), 422)
    chosen = _chosen(request.user, values["conversation"], known)
    try:
        for conversation in chosen:
            known.act(request.user, conversation, values)
    except ActionRefused as refusal:
        return _refuse(request, str(refusal), refusal.status)
    return _changed(request, known, chosen)


def _chosen(user: User, ids: Sequence[UUID], known: Change) -> list[Conversation]:
    """Raises as ``known.get`` does where that gives none of them."""
    found, problem = [], None
    for public_id in ids:
        try:
            found.append(known.get(user, public_id))
        except (Http404, PermissionDenied) as error:
            problem = error
    if not found and problem is not None:
        raise problem
    return found


@login_required
@require_POST
def empty_trash(request: HttpRequest) -> HttpResponse:
    rows = list(Conversation.objects.in_trash_of(request.user).select_related("owner"))
    for conversation in rows:
        actions.erase(request.user, conversation)
    messages.success(request, gettext("Trash emptied"))
    return redirect("conversations_trash")


def _changed(request: HttpRequest, known: Change, chosen: Sequence[Conversation]) -> HttpResponse:
    text = known.say(len(chosen))
    ids = [each.public_id for each in chosen]
    undo = Undo(verb=known.undo, conversations=[each.hex for each in ids]) if known.undo else None
    address = _address_after(request, known, chosen)
    if address is None:
        # The page stays; it fetches its list.
        context = {"text": text, "undo": undo}
        response = render(request, "organization/changed.html", context)
        response["HX-Trigger"] = json.dumps({"list:stale": {"text": text}})
        return response
    messages.success(request, text, extra_tags=undo_mark(known.undo, ids) if undo else "")
    return HttpResponse(headers={"HX-Redirect": address}) if request.htmx else redirect(address)


def _address_after(
    request: HttpRequest, known: Change, chosen: Sequence[Conversation]
) -> str | None:
    """The page that shows the outcome; ``None`` for the one that asked, which a script patches."""
    if not request.htmx:
        return _address_of(request, chosen, known)
    shown = path_in_browser(request)
    if shown.startswith(reverse("conversations")):
        return shown
    try:
        room = resolve(shown.partition("?")[0]).kwargs.get("public_id")
    except Resolver404:
        room = None
    if known.is_removal and room in [each.public_id for each in chosen]:
        return reverse("home")
    return None


def _address_of(request: HttpRequest, chosen: Sequence[Conversation], known: Change) -> str:
    back = PAGES.get(request.POST.get("back", ""))
    if back is not None:
        return reverse(back)
    if len(chosen) == 1 and not known.is_removal:
        return reverse("conversation", args=[chosen[0].public_id])
    return reverse("home")


def _refuse(request: HttpRequest, sentence: str, status: int) -> HttpResponse:
    if request.htmx:
        context = {"reason": sentence}
        return render(request, "organization/refused.html", context, status=status)
    messages.error(request, sentence)
    return redirect(PAGES.get(request.POST.get("back", ""), "home"))
