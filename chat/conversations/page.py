"""Responses of the conversation page: the whole page, patches, or a refusal."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext_lazy

from chat import access
from chat.conversations.actions import messages as message_actions
from chat.conversations.composer import composer_context
from chat.conversations.listing import listing_context
from chat.conversations.page_diff import PageDifference, changed_turns, difference
from chat.conversations.page_parts import PageAmendment
from chat.conversations.page_state import PageState, page_state_of
from chat.conversations.project_lines import folds_of
from chat.conversations.transcript import (
    Path,
    Turn,
    is_waiting,
    last_page,
    last_run,
    maker_of,
    read_path,
    read_turns,
    turns_below,
    turns_of,
)
from chat.core.database_identity import page_database_identity
from chat.core.deadline import is_over
from chat.core.errors import ActionRefused, KeyReused
from chat.files.file_counts import count_files, has_no_files, once
from chat.live.snapshot import render_answer
from chat.models import Conversation, Message, Project, Question, Run, RunStatus, User
from chat.runs.queue import read_queue
from chat.web.decorators import Refuse
from chat.web.responses import refusal_patch
from chat.web.views import unavailable

# The header of a response that accepted a message.
ACCEPTED = "room:accepted"
CHANGED = "room:changed"
# The element of the composer with its idempotency key.
COMPOSER_KEY = "composer-key"
SAID_OTHERWISE = gettext_lazy(
    "An earlier version of this message was already sent. Your text is still here: send it again to "
    "add it as a new message."
)


def says(run: Run, text: str, *, within: Conversation | None = None) -> bool:
    """Whether the run answers this text in this conversation: a repeated key may come with another text or
    from another page."""
    question = run.message.parent
    if question is None or (within is not None and run.conversation_id != within.pk):
        return False
    return question.text == text


def room_page(
    request: HttpRequest,
    conversation: Conversation,
    *,
    draft: str = "",
    refusal: str = "",
    status: int = 200,
    amend: PageAmendment | None = None,
    since: UUID | None = None,
) -> HttpResponse:
    """The whole page. Without scripts, a refused form is shown again with its text. ``since``: as in
    `last_page`."""
    path = read_path(request.user, conversation)
    shown = last_page(path, since)
    turns = read_turns(path, shown)
    if amend is not None:
        amend.put_into(card for turn in turns for run in turn.runs for card in run.asked)
    context = _room_context(request.user, conversation, path, turns) | {
        "turns": turns,
        "earlier": shown.start,
        "epoch": page_database_identity(),
        "draft": draft,
        "refusal": refusal,
    }
    return render(request, "conversations/conversation.html", context, status=status)


def changes(
    request: HttpRequest,
    conversation: Conversation,
    *,
    is_accepted: bool = False,
    asked: Question | None = None,
) -> HttpResponse:
    """The patches that bring a browser's page up to date. ``asked`` is the question that this person has just
    answered or claimed, whose notice is removed."""
    position = page_state_of(request)
    path = _kept_path(request.user, conversation, position)
    change = difference(path, position, may_write=access.may_write(request.user, conversation))
    context = changes_context(request.user, path, position, change) | {
        # Most answers begin at once. For a queued one the live connection sends the position, which would
        # cost a query of the whole queue here.
        **({"place": ""} if is_accepted else {}),
        "settled_now": asked,
        "is_accepted": is_accepted,
        **listing_context(
            request.user,
            conversation,
            count=position.lines if position else 0,
            folds=folds_of(request.COOKIES),
        ),
    }
    response = render(request, "conversations/changes.html", context)
    response["X-Room-Revision"] = str(conversation.revision)
    return response


def changes_context(
    user: User, path: Path, position: PageState | None, change: PageDifference
) -> dict[str, Any]:
    """What the patches of a page are rendered from, without the list beside it."""
    may_write = access.may_write(user, path.conversation)
    appended = read_turns(path, range(change.start, len(path.places)))
    changed = changed_turns(path, change.changed, position, may_write=may_write)
    turns = [*appended, *(each.turn for each in changed)]
    return _room_context(user, path.conversation, path, turns) | {
        "position": position,
        "change": change,
        "earlier": change.start if change.is_whole else 0,
        "appended": appended,
        "changed": changed,
    }


def _kept_path(user: User, conversation: Conversation, position: PageState | None) -> Path:
    """The branch that the reader sees stays, even if a colleague has created a newer version; a notice offers
    that version."""
    path = read_path(user, conversation)
    overtaken = path.overtaken(position.tail) if position is not None else None
    if overtaken is None:
        return path
    tail, newest = overtaken
    if maker_of(newest) == user:
        return path
    message_actions.choose_path(user, tail, is_kept=True)
    return read_path(user, conversation)


def accepted(
    request: HttpRequest,
    conversation: Conversation,
    *,
    asked: Question | None = None,
) -> HttpResponse:
    """The response after an action: a redirect to the page, or patches for the page that sent the request."""
    if not request.htmx:
        return redirect("conversation", public_id=conversation.public_id)
    conversation = access.get_conversation(request.user, conversation.public_id)
    response = changes(request, conversation, is_accepted=True, asked=asked)
    response["HX-Trigger"] = ACCEPTED
    return response


def sent(
    request: HttpRequest, conversation: Conversation, run: Run, *, has_pictures: bool
) -> HttpResponse:
    """The response after a message: patches with the message and the element of its answer.

    People wait for this answer, and many send at once. So where nothing but this message has
    changed since the page was made, which the revision tells, nothing else is read again. The line in
    the list beside it comes over the live connection.
    """
    position = page_state_of(request) if request.htmx else None
    if (
        position is None
        or position.revision + 1 != conversation.revision
        or not (position.is_quiet and run.is_queued)
        or has_pictures
    ):
        return accepted(request, conversation)
    turns = turns_below(position.tail, position.number, run) if position.number else []
    turns = turns or _appended(request.user, conversation, position, run)
    if not turns:
        return accepted(request, conversation)
    has_no_files(conversation)
    context = {
        "conversation": conversation,
        "may_write": True,
        "position": position,
        "change": PageDifference(is_whole=False, gone=(), start=turns[0].number - 1),
        "appended": turns,
        "head_mark": position.head,
        "tool_choice": {"mark": position.tools},
        "running": run,
        "strip_mark": strip_mark(run, None),
        "strip_html": partial(_phase_of, run, turns),
        "action_mark": action_mark(run),
        "key": uuid.uuid4(),
        "parent": run.message.public_id.hex,
        "is_accepted": True,
        "days": None,
    }
    response = render(request, "conversations/changes.html", context)
    response["X-Room-Revision"] = str(conversation.revision)
    response["HX-Trigger"] = ACCEPTED
    return response


def _appended(
    user: User, conversation: Conversation, position: PageState, run: Run
) -> Sequence[Turn]:
    """The turns of this run, where they are all that the page lacks."""
    path = read_path(user, conversation)
    change, turns = difference(path, position), turns_of(path, run)
    lacks_more = change.is_whole or change.gone or change.changed
    return [] if lacks_more or change.start != len(path.places) - len(turns) else turns


def refused(
    request: HttpRequest,
    conversation: Conversation,
    refusal: str,
    *,
    status: int,
    place: str = "composer-note",
    new_key: bool = False,
) -> HttpResponse:
    """The response to a refused action: a message beside the form, whose text stays."""
    if not request.htmx:
        if is_over():
            # Rendering the page would wait for the database once more.
            return unavailable(request)
        draft = request.POST.get("text", "")
        return room_page(request, conversation, draft=draft, refusal=refusal, status=status)
    key_place = COMPOSER_KEY if new_key else ""
    return refusal_patch(request, refusal, status=status, place=place, key_place=key_place)


def refuse_beside(place: str = "composer-note") -> Refuse[Conversation | Message | Run]:
    """For `post_action`: shows the refusal at ``place`` on the page of the record's conversation."""

    def refuse(
        request: HttpRequest, record: Conversation | Message | Run, refusal: ActionRefused
    ) -> HttpResponse:
        conversation = record if isinstance(record, Conversation) else record.conversation
        return refused(
            request,
            conversation,
            str(refusal),
            status=refusal.status,
            place=place,
            new_key=isinstance(refusal, KeyReused),
        )

    return refuse


def _room_context(
    user: User, conversation: Conversation, path: Path, turns: Sequence[Turn]
) -> dict[str, Any]:
    may_write = access.may_write(user, conversation)
    last = last_run(path, turns)
    running = last if last and last.is_live else None
    waiting = last if is_waiting(last) else None
    return {
        "conversation": conversation,
        "may_write": may_write,
        "is_owner": conversation.owner_id == user.pk,
        "is_shared": conversation.is_shared,
        "project": SimpleLazyObject(partial(project_shown, user, conversation)),
        "head_mark": head_mark(conversation, may_write),
        "running": running,
        "strip_mark": strip_mark(running, waiting),
        "waiting": waiting,
        "strip_html": partial(_phase_of, running, turns),
        "place": partial(_place_of, running),
        "action_mark": action_mark(running),
        # A browser that has lost the answer to this person's message sees by it that it was sent.
        "sent_key": last.idempotency_key if last and last.requested_by_id == user.pk else None,
        **(composer_context(user, conversation, path) if may_write else {}),
    }


def project_shown(user: User, conversation: Conversation) -> Project | None:
    """The conversation's project, where its reader sees that. Who has left it does not."""
    if conversation.project is None or not access.may_read_project(user, conversation.project):
        return None
    return conversation.project


def _phase_of(running: Run | None, turns: Sequence[Turn]) -> str:
    """The phase of the answer that was rendered for the page, if it is visible."""
    for turn in reversed(turns):
        for shown in turn.runs:
            if running and shown.answer and shown.run.pk == running.pk:
                return shown.answer.phase_html
    return render_answer(running).phase_html if running else ""


def _place_of(running: Run | None) -> str:
    if running is None or running.status != RunStatus.QUEUED:
        return ""
    return read_queue().places.get(running.public_id, "")


def head_mark(conversation: Conversation, may_write: bool) -> str:
    """A hash of the heading, to detect changes."""
    files = once(conversation, count_files)
    project = conversation.project
    states = (
        conversation.archived_at,
        conversation.expires_at,
        conversation.is_pinned,
        (project.pk, project.name, project.color) if project else None,
    )
    shown = f"{conversation.title}\n{conversation.visibility}\n{may_write}\n{files}\n{states}"
    return f"{zlib.crc32(shown.encode()):08x}"


def strip_mark(running: Run | None, waiting: Run | None) -> str:
    if running is not None:
        return running.public_id.hex
    return f"waits-{waiting.public_id.hex}" if waiting else ""


def action_mark(running: Run | None) -> str:
    """A hash of the composer's button (send, stop, stopping), to detect changes."""
    if running is None:
        return ""
    return f"{running.public_id.hex}{'-stopping' if running.stop_requested_at else ''}"
