"""Pages of all, archived and deleted conversations, and changes of one or several of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_GET, require_POST

from chat import access
from chat.conversations.actions import conversation as conversation_actions
from chat.core.errors import ActionRefused
from chat.models import Conversation, User
from chat.organization import actions
from chat.organization.change_responses import changed, refused, still_there
from chat.organization.forms import ChangeForm
from chat.organization.lines import page_of_lines
from chat.organization.undo import Undo
from chat.web.decorators import login_required

# --- pages --------------------------------------------------------------------------------------


@login_required
@require_GET
def everything(request: HttpRequest) -> HttpResponse:
    rows = access.visible_conversations(request.user).filter(archived_at__isnull=True)
    return _page(request, "all", rows, by="updated_at")


@login_required
@require_GET
def archived(request: HttpRequest) -> HttpResponse:
    rows = access.visible_conversations(request.user).filter(archived_at__isnull=False)
    return _page(request, "archived", rows, by="archived_at")


@login_required
@require_GET
def trash(request: HttpRequest) -> HttpResponse:
    rows = access.trashed_conversations(request.user)
    return _page(request, "trash", rows, by="deleted_at")


def _page(
    request: HttpRequest, name: str, rows: QuerySet[Conversation], *, by: str
) -> HttpResponse:
    page, lines = page_of_lines(request, rows, by=by)
    context = {
        "tab": name,
        "page": page,
        "lines": lines,
        # Only the owner deletes a conversation for ever; its managers restore it.
        "has_own": any(line.is_own for line in lines),
        "trash_days": settings.TRASH_DAYS,
        "sidebar_page": "conversations",
    }
    return render(request, "organization/conversations.html", context)


@login_required
@require_GET
def options(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The actions for a conversation of the sidebar: in a menu, without scripts on a page."""
    conversation = access.get_conversation(request.user, public_id)
    pins = [each.conversation_id for each in actions.shown_pins(request.user)]
    place = pins.index(conversation.pk) if conversation.pk in pins else None
    context = {
        "conversation": conversation,
        "may_change": access.may_manage(request.user, conversation),
        "is_shared": access.is_seen_by_others(conversation),
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
    # True if nobody sees the conversation's page any more.
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
        get=access.get_managed_conversation,
        act=lambda user, one, values: conversation_actions.rename(one, values["title"], by=user),
        say=lambda count: gettext("Renamed"),
    ),
    "keep": Change(
        get=access.get_managed_conversation,
        act=lambda user, one, values: actions.keep(user, one),
        say=lambda count: gettext("This conversation doesn’t expire anymore"),
    ),
    "archive": Change(
        get=access.get_managed_conversation,
        act=lambda user, one, values: actions.archive(user, one),
        say=lambda count: _counted(
            ngettext("Conversation archived", "%(count)d conversations archived", count), count
        ),
        undo="unarchive",
    ),
    "unarchive": Change(
        get=access.get_managed_conversation,
        act=lambda user, one, values: actions.unarchive(user, one),
        say=lambda count: _counted(
            ngettext(
                "Conversation unarchived",
                "%(count)d conversations unarchived",
                count,
            ),
            count,
        ),
    ),
    "delete": Change(
        get=access.get_managed_conversation,
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
        get=access.get_own_trashed_conversation,
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
        return refused(request, gettext("Select conversations first."), 422)
    chosen = still_there(known.get, request.user, values["conversation"])
    try:
        for conversation in chosen:
            known.act(request.user, conversation, values)
    except ActionRefused as refusal:
        return refused(request, str(refusal), refusal.status)
    undo = None
    if known.undo:
        undo = Undo(verb=known.undo, conversations=[each.public_id.hex for each in chosen])
    return changed(request, known.say(len(chosen)), chosen, undo=undo, is_removal=known.is_removal)


@login_required
@require_POST
def empty_trash(request: HttpRequest) -> HttpResponse:
    """Deletes the person's own conversations; those of others stay for their owners."""
    rows = list(access.own_trashed_conversations(request.user).select_related("owner"))
    for conversation in rows:
        actions.erase(request.user, conversation)
    messages.success(request, gettext("Trash emptied"))
    return redirect("conversations_trash")
