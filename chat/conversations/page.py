"""Responses of the conversation page: the whole page, patches, or a refusal."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext_lazy

from chat import access
from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.messages import Parent
from chat.conversations.compared_strip import compared_strip
from chat.conversations.composer import composer_context
from chat.conversations.context_start import used_context
from chat.conversations.listing import listing_context
from chat.conversations.page_diff import ChangedTurn, PageDifference, changed_turns, difference
from chat.conversations.page_parts import PageAmendment, PageCard
from chat.conversations.page_state import PageState, page_state_of
from chat.conversations.paths import Path, read_path
from chat.conversations.project_lines import folds_of
from chat.conversations.starters import demo_starters, has_own_beside_demos
from chat.conversations.transcript import (
    Turn,
    WaitsFor,
    compared_runs,
    last_page,
    last_run,
    maker_of,
    read_turns,
    turns_below,
    turns_of,
    waits_for,
)
from chat.core.database_identity import page_database_identity
from chat.core.deadline import is_over
from chat.core.errors import ActionRefused, KeyReused
from chat.files.file_counts import count_files, has_no_files, once
from chat.live.snapshot import render_answer
from chat.models import (
    Conversation,
    ConversationContext,
    Message,
    Participant,
    Project,
    Question,
    QueuedMessage,
    Run,
    RunStatus,
    User,
)
from chat.runs.queue import read_queue
from chat.unread.marks import revision_read
from chat.web.decorators import Refuse
from chat.web.responses import refusal_patch
from chat.web.views import unavailable

# A conversation, or what is in it.
OfConversation: TypeAlias = Conversation | Message | Run | Participant | QueuedMessage
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
    """Returns whether the run answers this text in this conversation: a repeated key may have another text
    or page."""
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
        amend.put_into(cards_in(turns))
    last = last_run(path, turns)
    room = _room_context(
        *(request.user, conversation, turns),
        last=last,
        tail=path.tail,
        compared=compared_runs(path, columns_in(turns)),
    )
    context = room | {
        "turns": turns,
        "place": partial(_place_of, last),
        "earlier": shown.start,
        "new_from": _first_new(request.user, conversation, turns),
        "used": used_context(path.places, path.context, last),
        "epoch": page_database_identity(),
        "draft": draft,
        "refusal": refusal,
    }
    # Suggestions after the first answer of a demo model (which says that it can't answer questions), or
    # of the installation's first own model.
    if len(path.places) <= 2 and context["may_write"]:
        context["demo_starters"] = demo_starters(context["form"])
        context["may_hide_demos"] = request.user.is_staff and has_own_beside_demos(context["form"])
    return render(request, "conversations/conversation.html", context, status=status)


def _first_new(user: User, conversation: Conversation, turns: Sequence[Turn]) -> str:
    """The id of the first turn that has changed since this person's last visit, and is not their own."""
    seen = revision_read(user, conversation.pk)
    if seen is None or seen >= conversation.revision:
        return ""
    for turn in turns:
        is_own = turn.is_person and turn.message.author_id == user.pk
        if turn.message.revision > seen and not is_own:
            return turn.message.public_id.hex
    return ""


def changes(
    request: HttpRequest,
    conversation: Conversation,
    *,
    is_accepted: bool = False,
    asked: Question | None = None,
) -> HttpResponse:
    """The patches that update a browser's page. ``asked`` is the question that this person has just
    answered or claimed, whose notice is removed."""
    position = page_state_of(request)
    path = _kept_path(request.user, conversation, position)
    change = difference(path, position, may_write=access.may_write(request.user, conversation))
    context = changes_context(request.user, path, position, change)
    if not is_accepted:
        context["place"] = partial(_place_of, context["running"])
    context |= {
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
    """The context of a page's patches, without the list beside it."""
    may_write = access.may_write(user, path.conversation)
    appended = read_turns(path, range(change.start, len(path.places)))
    changed = changed_turns(path, change.changed, position, may_write=may_write)
    turns = [*appended, *(each.turn for each in changed)]
    last = last_run(path, turns)
    room = _room_context(
        *(user, path.conversation, turns),
        last=last,
        tail=path.tail,
        compared=compared_runs(path, columns_in(turns)),
    )
    if may_write and not (last and last.is_live):
        room["used"] = used_context(path.places, path.context, last)
    return room | _patch_context(position, change, appended, changed)


def _patch_context(
    position: PageState | None,
    change: PageDifference,
    appended: Sequence[Turn],
    changed: Sequence[ChangedTurn] = (),
) -> dict[str, Any]:
    """The context that ``changes.html`` needs besides `_room_context`."""
    return {
        "position": position,
        "change": change,
        "earlier": change.start if change.is_whole else 0,
        "appended": appended,
        "changed": changed,
        # Most answers begin at once. For a queued one the live connection sends the position, which would
        # cost a query of the whole queue here.
        "place": "",
        "settled_now": None,
        "is_accepted": False,
        # The list beside the page is not updated here.
        "days": None,
    }


def _kept_path(user: User, conversation: Conversation, position: PageState | None) -> Path:
    """The reader's branch, even if a colleague has created a newer version or continued another one,
    which a notice offers."""
    path = read_path(user, conversation)
    overtaken = path.overtaken(position.tail) if position is not None else None
    if overtaken is None:
        return path
    is_own = overtaken.is_newer and maker_of(overtaken.version) == user
    if is_own or maker_of(overtaken.newest) == user:
        return path
    message_actions.choose_path(user, overtaken.tail, is_kept=True)
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
    request: HttpRequest,
    conversation: Conversation,
    run: Run,
    *,
    parent: Parent | None,
    has_attachments: bool,
) -> HttpResponse:
    """The response after a message below ``parent``: patches with it and the element of its answer.

    People wait for this response, and many send at once. So if the revision tells that only this
    message has changed since the page was rendered, nothing else is read. The live connection
    updates the line in the list.
    """
    position = page_state_of(request) if request.htmx else None
    if (
        position is None
        or position.revision + 1 != conversation.revision
        or not (position.is_quiet and run.is_queued)
        or has_attachments
        # The message has taken it out of the archive, which the heading says.
        or conversation.archived_at is not None
    ):
        return accepted(request, conversation)
    if not run.is_repeated and position.number and _is_end(parent, position):
        turns: Sequence[Turn] = turns_below(run, position.number)
    else:
        turns = _appended(request.user, conversation, position, run)
    if not turns:
        return accepted(request, conversation)
    has_no_files(conversation)
    change = PageDifference(is_whole=False, gone=(), start=turns[0].number - 1)
    room = _room_context(
        request.user, conversation, turns, last=run, tail=run.message, known=position
    )
    context = room | _patch_context(position, change, turns) | {"is_accepted": True}
    response = render(request, "conversations/changes.html", context)
    response["X-Room-Revision"] = str(conversation.revision)
    response["HX-Trigger"] = ACCEPTED
    return response


def _is_end(parent: Parent | None, position: PageState) -> bool:
    """Returns whether the page ends with this message, which had no other below it."""
    return parent is not None and parent.is_last and parent.message.public_id.hex == position.tail


def _appended(
    user: User, conversation: Conversation, position: PageState, run: Run
) -> Sequence[Turn]:
    """The turns of this run, if the page lacks nothing else."""
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


def refuse_beside(place: str = "composer-note") -> Refuse[OfConversation]:
    """For `post_action`: shows the refusal at ``place`` on the page of the record's conversation."""

    def refuse(
        request: HttpRequest, record: OfConversation, refusal: ActionRefused
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
    user: User,
    conversation: Conversation,
    turns: Sequence[Turn],
    *,
    last: Run | None,
    tail: Message | None,
    known: PageState | None = None,
    compared: Sequence[Run] = (),
) -> dict[str, Any]:
    """The context of a page around its turns. ``last``: the newest run of the last answer, ``tail``.
    ``known``: the state of a page whose heading and tools are as they were. ``compared``: as in `compared_runs`."""
    context = access.context_of(user, conversation)
    may_write = context.may_write
    side_by_side = compared_strip(tail, compared)
    if side_by_side is not None:
        last = compared[0]
        at_work, waits, waiting = side_by_side.working, None, None
        running = at_work
    else:
        running = last if last and last.is_live else None
        waits = None if running else waits_for(last)
        waiting = last if waits else None
        at_work = waiting if waits and not waits.people else running
    return {
        "conversation": conversation,
        "may_write": may_write,
        "is_owner": conversation.owner_id == user.pk,
        "may_manage": context.may_manage,
        "may_fork": context.may_fork,
        "is_shared": conversation.is_shared,
        "has_participants": context.has_participants,
        "project": SimpleLazyObject(partial(project_shown, user, conversation)),
        "named_project": SimpleLazyObject(partial(_project_named, user, conversation)),
        "head_mark": known.head if known else head_mark(conversation, context),
        "running": running,
        "side_by_side": side_by_side,
        "strip_mark": side_by_side.mark if side_by_side else strip_mark(running, waiting, waits),
        "waiting": waiting,
        "waits": waits,
        "at_work": at_work,
        "strip_html": partial(_phase_of, running, turns),
        # With columns it offers no queue.
        "action_mark": f"{'compared-' if side_by_side and at_work else ''}{action_mark(at_work)}",
        # It tells a browser that has lost the response to a message that it was sent.
        "sent_key": last.idempotency_key if last and last.requested_by_id == user.pk else None,
        **(
            composer_context(user, conversation, tail, tools_mark=known.tools if known else None)
            if may_write
            else {}
        ),
    }


def cards_in(turns: Sequence[Turn]) -> Iterator[PageCard]:
    """The cards below the runs of these turns, and of their columns."""
    for turn in turns:
        for each in turn.columns or (turn,):
            for run in each.runs:
                yield from run.asked


def columns_in(turns: Sequence[Turn]) -> list[Turn]:
    """The columns of a comparison among these turns, or in one of them."""
    return [each for turn in turns for each in (turn.columns or (turn,)) if each.is_column]


def project_shown(user: User, conversation: Conversation) -> Project | None:
    """The conversation's project; ``None`` if the reader can't see it, such as after leaving it."""
    if conversation.project is None or not access.may_read_project(user, conversation.project):
        return None
    return conversation.project


def _project_named(user: User, conversation: Conversation) -> Project | None:
    """The conversation's project, for people who may know its name: its readers, and the owner, who knows
    where it is shared."""
    if conversation.owner_id == user.pk:
        return conversation.project
    return project_shown(user, conversation)


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


def head_mark(conversation: Conversation, context: ConversationContext) -> str:
    """A hash of the heading, to detect changes."""
    files = once(conversation, count_files)
    project = conversation.project
    states = (
        conversation.archived_at,
        conversation.expires_at,
        context.is_pinned,
        (project.pk, project.name, project.color) if project else None,
    )
    rights = (
        *(context.may_write, context.may_manage, context.has_participants),
        context.may_fork,
    )
    shown = f"{conversation.title}\n{conversation.visibility}\n{rights}\n{files}\n{states}"
    return f"{zlib.crc32(shown.encode()):08x}"


def strip_mark(running: Run | None, waiting: Run | None, waits: WaitsFor | None = None) -> str:
    if running is not None:
        return running.public_id.hex
    if waiting is None:
        return ""
    kind = "waits" if waits is None or waits.people else "runs"
    return f"{kind}-{waiting.public_id.hex}-{zlib.crc32(repr(waits).encode()):08x}"


def action_mark(at_work: Run | None) -> str:
    """A hash of the composer's button (send, stop, stopping), to detect changes. ``at_work``: the run that is
    live, or whose calls run."""
    if at_work is None:
        return ""
    return f"{at_work.public_id.hex}{'-stopping' if at_work.stop_requested_at else ''}"
