"""What the conversation page is made of, and how it answers: whole, in part, or with a refusal."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from chat import access
from chat.actions import conversations as verbs
from chat.actions.errors import ActionRefused, StorageBusy, StorageFull
from chat.live.cursor import render_answer
from chat.live.epoch import page_epoch
from chat.models import Conversation, Question, Role, Run, RunStatus, User, Visibility
from chat.models.kept import count_kept, keeps_nothing, once
from chat.runs.line import read_line
from chat.views.changed import changed_turns
from chat.views.errors import away
from chat.views.forms import ChoiceForm, SendForm
from chat.views.listing import listing_context
from chat.views.position import Position, position_of
from chat.views.question_forms import FORMS, ReplyForm
from chat.views.tool_choice import tools_of
from chat.views.transcript import (
    Path,
    Turn,
    difference,
    is_waiting,
    last_page,
    last_run,
    maker_of,
    read_path,
    read_turns,
    turns_of,
)
from project.deadline import is_over

# What a form learns when the server has accepted its words.
ACCEPTED = "room:accepted"
CHANGED = "room:changed"
SAID_OTHERWISE = (
    "An earlier version of this message had already been sent. Yours is still here: "
    "send it again if it should follow."
)
STATUS_OF_REFUSAL = {StorageFull: 507, StorageBusy: 503}


def status_of(refusal: ActionRefused) -> int:
    return STATUS_OF_REFUSAL.get(type(refusal), 409)


def says(run: Run, text: str, *, within: Conversation | None = None) -> bool:
    """Whether the run answers these very words (in this conversation): a repeated key may come
    with newer ones, or from another page."""
    question = run.message.parent
    if question is None or (within is not None and run.conversation_id != within.pk):
        return False
    return question.text == text


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedForm:
    """A reply that was not taken, for a page without scripts. ``form`` is what was typed."""

    question: Question
    refusal: str
    form: ReplyForm | None = None

    def put_into(self, turns: Iterable[Turn]) -> None:
        for asked in (one for turn in turns for run in turn.runs for one in run.asked):
            if asked.question.pk != self.question.pk:
                continue
            asked.refusal = self.refusal
            if isinstance(self.form, FORMS[asked.question.kind]) and asked.is_open:
                asked.form = self.form


def room_page(
    request: HttpRequest,
    conversation: Conversation,
    *,
    draft: str = "",
    refusal: str = "",
    status: int = 200,
    refused_form: RefusedForm | None = None,
) -> HttpResponse:
    """The whole page. A refused form without scripts comes back with its words."""
    path = read_path(request.user, conversation)
    shown = last_page(path)
    turns = read_turns(path, shown)
    if refused_form is not None:
        refused_form.put_into(turns)
    context = _room_context(request.user, conversation, path, turns) | {
        "turns": turns,
        "earlier": shown.start,
        "epoch": page_epoch(),
        "draft": draft,
        "refusal": refusal,
        **listing_context(request.user, conversation),
    }
    return render(request, "conversations/conversation.html", context, status=status)


def changes(
    request: HttpRequest,
    conversation: Conversation,
    *,
    is_accepted: bool = False,
    asked: Question | None = None,
) -> HttpResponse:
    """Patches from what the browser shows to what there is. ``asked`` is what this person has just
    settled or claimed: a sentence that stood there is taken away."""
    position = position_of(request)
    path = _kept_path(request.user, conversation, position)
    may_write = access.may_write(request.user, conversation)
    change = difference(path, position, may_write=may_write)
    appended = read_turns(path, range(change.start, len(path.places)))
    changed = changed_turns(path, change.changed, position, may_write=may_write)
    turns = [*appended, *(each.turn for each in changed)]
    context = _room_context(request.user, conversation, path, turns) | {
        # Most answers begin at once. Whoever waits is told their place by the live connection, and
        # does not have to read the whole line, as everybody else would who writes at this moment.
        **({"place": ""} if is_accepted else {}),
        "position": position,
        "change": change,
        "earlier": change.start if change.is_whole else 0,
        "appended": appended,
        "changed": changed,
        "settled_now": asked,
        "is_accepted": is_accepted,
        **listing_context(request.user, conversation),
    }
    response = render(request, "conversations/changes.html", context)
    response["X-Room-Revision"] = str(conversation.revision)
    return response


def _kept_path(user: User, conversation: Conversation, position: Position | None) -> Path:
    """Nobody's page is replaced by what a colleague wrote: readers keep the branch that they read,
    and are told that there is another version."""
    path = read_path(user, conversation)
    overtaken = path.overtaken(position.tail) if position is not None else None
    if overtaken is None:
        return path
    tail, newest = overtaken
    if maker_of(newest) == user:
        return path
    verbs.choose_path(user, tail, is_kept=True)
    return read_path(user, conversation)


def accepted(
    request: HttpRequest,
    conversation: Conversation,
    *,
    asked: Question | None = None,
) -> HttpResponse:
    """After a verb that changed the room: its page, or the patches for the page that asked."""
    if not request.htmx:
        return redirect("conversation", public_id=conversation.public_id)
    conversation = access.get_conversation(request.user, conversation.public_id)
    response = changes(request, conversation, is_accepted=True, asked=asked)
    response["HX-Trigger"] = ACCEPTED
    return response


def sent(
    request: HttpRequest, conversation: Conversation, run: Run, *, has_pictures: bool
) -> HttpResponse:
    """After a message: the patches with it and with the place of its answer.

    People wait for this answer, and many send at once. So where nothing but this message has
    changed since the page was made, which the revision tells, nothing else is read again, and the
    page fetches the list beside it later.
    """
    position = position_of(request) if request.htmx else None
    if (
        position is None
        or position.revision + 1 != conversation.revision
        or not (position.is_quiet and run.is_in_line)
        or has_pictures
    ):
        return accepted(request, conversation)
    path = read_path(request.user, conversation)
    change, turns = difference(path, position), turns_of(path, run)
    lacks_more = change.is_whole or change.gone or change.changed
    if not turns or lacks_more or change.start != len(path.places) - len(turns):
        return accepted(request, conversation)
    keeps_nothing(conversation)
    context = {
        "conversation": conversation,
        "may_write": True,
        "position": position,
        "change": change,
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
    response["X-Room-List"] = "later"
    response["HX-Trigger"] = ACCEPTED
    return response


def refused(
    request: HttpRequest,
    conversation: Conversation,
    refusal: str,
    *,
    status: int,
    place: str = "composer-note",
    new_key: bool = False,
) -> HttpResponse:
    """Nothing was changed, or not what was asked for: a sentence beside the words, which stay."""
    if not request.htmx:
        if is_over():
            # The page would wait for the database once more.
            return away(request)
        draft = request.POST.get("text", "")
        return room_page(request, conversation, draft=draft, refusal=refusal, status=status)
    return refusal_patch(request, refusal, status=status, place=place, new_key=new_key)


def refusal_patch(
    request: HttpRequest, refusal: str, *, status: int, place: str, new_key: bool = False
) -> HttpResponse:
    context = {"refusal": refusal, "place": place, "key": uuid.uuid4() if new_key else None}
    return render(request, "base/refused.html", context, status=status)


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
        "is_shared": conversation.visibility == Visibility.TEAM,
        "head_mark": head_mark(conversation, may_write),
        "running": running,
        "strip_mark": strip_mark(running, waiting),
        "waiting": waiting,
        "strip_html": partial(_phase_of, running, turns),
        "place": partial(_place_of, running),
        "action_mark": action_mark(running),
        **(composer_context(user, conversation, path) if may_write else {}),
    }


def _phase_of(running: Run | None, turns: Sequence[Turn]) -> str:
    """From the answer that was rendered for the page, if it is there; only if it is shown."""
    for turn in reversed(turns):
        for shown in turn.runs:
            if running and shown.answer and shown.run.pk == running.pk:
                return shown.answer.phase_html
    return render_answer(running).phase_html if running else ""


def _place_of(running: Run | None) -> str:
    if running is None or running.status != RunStatus.QUEUED:
        return ""
    return read_line().places.get(running.public_id, "")


def composer_context(user: User, conversation: Conversation, path: Path) -> dict[str, Any]:
    tail = path.tail
    # Neither is read for the patches of a page that has its composer already.
    upstreams = access.usable_upstreams(user)
    form = SimpleLazyObject(lambda: SendForm(upstreams=upstreams, remembered=conversation))
    return {
        "form": form,
        "tool_choice": tools_of(conversation, upstreams),
        "key": uuid.uuid4(),
        "parent": tail.public_id.hex if tail and tail.role == Role.ASSISTANT else "",
        "action": reverse("conversation_send", args=[conversation.public_id]),
        "room": conversation.public_id.hex,
    }


def head_mark(conversation: Conversation, may_write: bool) -> str:
    """Changes with everything that the heading shows."""
    files = once(conversation, count_kept)
    shown = f"{conversation.title}\n{conversation.visibility}\n{may_write}\n{files}"
    return f"{zlib.crc32(shown.encode()):08x}"


def strip_mark(running: Run | None, waiting: Run | None) -> str:
    if running is not None:
        return running.public_id.hex
    return f"waits-{waiting.public_id.hex}" if waiting else ""


def action_mark(running: Run | None) -> str:
    """Changes with the composer's button: send, stop, stopping."""
    if running is None:
        return ""
    return f"{running.public_id.hex}{'-stopping' if running.stop_requested_at else ''}"


def remembered_choice(
    user: User, conversation: Conversation, data: Mapping[str, Any]
) -> ChoiceForm:
    """The choice that came with a form, else the one that the conversation remembers."""
    upstreams = access.usable_upstreams(user)
    if data.get("choice"):
        return ChoiceForm(data, upstreams=upstreams)
    kept = ChoiceForm(upstreams=upstreams, remembered=conversation)
    return ChoiceForm(kept.initial, upstreams=upstreams)
