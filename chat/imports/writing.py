"""Writes the conversations of other products: messages, and runs that have already ended."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias
from uuid import uuid4

from django.utils import timezone
from django.utils.translation import gettext

from chat import events
from chat.conversations.titles import title_of
from chat.core.text import clean, without_hidden
from chat.files.actions import NewFile, attach
from chat.imports.budget import Budget
from chat.imports.conversations import Call, Reasoning, Text, Turn
from chat.imports.conversations import Conversation as Imported
from chat.imports.formats import FORMATS
from chat.models import Conversation, Import, Message, Role, Run, RunSegment, SearchKind, User
from chat.result import Fold
from chat.runs.outcomes import columns_of, prepare_outcome, record_outcome
from chat.search.sources import index

# Rows that are written, and answers that are in memory, at once.
BATCH = 400
# The most bytes of files in these answers.
BATCH_BYTES = 8 * 1024 * 1024
# {kind: {name: [keys of records]}}, as in `ImportedSource.names`.
Names: TypeAlias = dict[str, dict[str, list[int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A stored conversation. ``leaf`` is the end of the branch that the source shows,
    ``last_message`` the key of the newest message."""

    room: Conversation
    leaf: Message | None
    last_message: int
    names: Names = field(default_factory=dict)


def write(
    batch: Import,
    imported: Imported,
    files: Mapping[str, Sequence[NewFile]],
    budget: Budget,
) -> Written:
    """Stores one conversation of another product. Call this inside a transaction that has kept its
    files (`Budget.keep_files`)."""
    user, turns = batch.user, _answered(imported.turns)
    budget.spend_on_texts(turn.text for turn in turns if turn.role == "user")
    first, last = _times(imported)
    room = Conversation.objects.create(
        team=batch.team,
        owner=user,
        title=_title(imported),
        system_prompt=imported.system_prompt,
        created_at=first,
        updated_at=last,
    )
    index(SearchKind.TITLE, room)
    messages = _messages(room, user, turns, first)
    for turn in turns:
        if turn.role == "user" and turn.source_id in files:
            attach(messages[turn.source_id], user, files[turn.source_id], has_room=True)
    index(SearchKind.MESSAGE, *(each for each in messages.values() if each.role == Role.USER))
    answers = [turn for turn in turns if turn.role == "assistant"]
    for some in _batches(answers, files):
        _store_answers(batch, messages, some, files, budget)
    return Written(
        room=room,
        leaf=messages.get(f"{imported.leaf}{_ANSWER}") or messages.get(imported.leaf),
        last_message=max(message.pk for message in messages.values()),
    )


# Suffix of the id of a message that has no answer.
_ANSWER = "/answer"


def _answered(turns: Sequence[Turn]) -> list[Turn]:
    """The turns, with an empty answer below each message that has none: an answer can be tried
    again, and the next message continues from one."""
    parents = {turn.parent for turn in turns}
    return [
        *turns,
        *(
            Turn(
                source_id=f"{turn.source_id}{_ANSWER}",
                role="assistant",
                parts=(),
                parent=turn.source_id,
                created_at=turn.created_at,
            )
            for turn in turns
            if turn.role == "user" and turn.source_id not in parents
        ),
    ]


def _times(imported: Imported) -> tuple[datetime, datetime]:
    """The times when it began and when it last changed, none in the future."""
    now = timezone.now()
    known = [turn.created_at for turn in imported.turns if turn.created_at]
    first = min(imported.created_at or min(known, default=now), now)
    last = imported.updated_at or max(known, default=first)
    return first, max(first, min(last, now))


def _title(imported: Imported) -> str:
    title = without_hidden(clean(" ".join(imported.title.split())))[:200].strip()
    said = (turn.text for turn in imported.turns if turn.role == "user" and turn.text.strip())
    return title or title_of(next(said, ""))


def _messages(
    room: Conversation, user: User, turns: Sequence[Turn], first: datetime
) -> dict[str, Message]:
    """The messages by their source's ids, created in the order of the turns: siblings are shown in
    the order of their keys."""
    now = timezone.now()
    messages: dict[str, Message] = {}
    at = first
    times: dict[str, datetime] = {}
    for turn in turns:
        at = min(turn.created_at or times.get(turn.parent, first), now)
        times[turn.source_id] = at
        is_person = turn.role == "user"
        messages[turn.source_id] = Message(
            conversation=room,
            role=turn.role,
            author=user if is_person else None,
            text=clean(turn.text) if is_person else "",
            created_at=at,
        )
    Message.objects.bulk_create(messages.values())
    children = []
    for turn in turns:
        if turn.parent:
            messages[turn.source_id].parent = messages[turn.parent]
            children.append(messages[turn.source_id])
    Message.objects.bulk_update(children, ["parent"], batch_size=BATCH)
    return messages


def _batches(
    answers: Sequence[Turn], files: Mapping[str, Sequence[NewFile]]
) -> Iterator[list[Turn]]:
    """Groups of answers whose logs are in memory together: an answer's log has its files."""
    batch: list[Turn] = []
    size = 0
    for turn in answers:
        added = sum(len(each.body) for each in files.get(turn.source_id, ()))
        if batch and (len(batch) == BATCH or size + added > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(turn)
        size += added
    if batch:
        yield batch


def _store_answers(
    batch: Import,
    messages: Mapping[str, Message],
    turns: Sequence[Turn],
    files: Mapping[str, Sequence[NewFile]],
    budget: Budget,
) -> None:
    """Stores the runs, with logs and results, as if they had ended when they were written."""
    runs: list[Run] = []
    segments: list[RunSegment] = []
    with_files: list[tuple[Run, events.Result]] = []
    for turn in turns:
        message = messages[turn.source_id]
        # The product stands for an unknown model.
        model = clean(turn.model or turn.author)[:200] or FORMATS[batch.format].label
        log = _log(turn, files.get(turn.source_id, ()), model)
        end = log[-1]
        assert isinstance(end, events.ChatEnd)
        run = Run(
            conversation=message.conversation,
            message=message,
            model=model,
            requested_by=batch.user,
            idempotency_key=uuid4(),
            queued_at=message.created_at,
            **{**columns_of(end), "finished_at": message.created_at},
        )
        body = events.join_bodies(events.encode(event) for event in log)
        budget.spend(len(body) + len(run.result or ""))
        runs.append(run)
        segments.append(RunSegment(run=run, first_seq=1, last_seq=end.seq, body=body))
        if turn.source_id in files:
            with_files.append((run, end.result))
    Run.objects.bulk_create(runs)
    RunSegment.objects.bulk_create(segments)
    index(SearchKind.ANSWER, *runs)
    index(SearchKind.REASONING, *runs)
    for run, result in with_files:
        record_outcome(run.pk, result, prepare_outcome(run.pk, result))


def _log(turn: Turn, files: Sequence[NewFile], model: str) -> list[events.Event]:
    log: list[events.Event] = [events.ChatStart(model_instance_id=model, requested_model=model)]
    for item, part in enumerate(turn.parts):
        log += _EVENTS[type(part)](item, part)
    for item, file in enumerate(files, start=len(turn.parts)):
        log.append(
            events.MediaUpdate(
                item=item,
                media_id=f"picture-{item}",
                media_type=file.media_type,
                data=base64.b64encode(file.body).decode(),
            )
        )
    if turn.error:
        log.append(events.Error(error=events.ErrorInfo(message=turn.error)))
    fold = Fold()
    fold.extend(log)
    log.append(events.ChatEnd(result=fold.result(_ending(turn, files))))
    for seq, event in enumerate(log, start=1):
        event.seq = seq
    return log


def _ending(turn: Turn, files: Sequence[NewFile]) -> events.Ending:
    if turn.error:
        return events.Ending(status="failed", stop=events.Stop(reason="error"))
    if not turn.parts and not files:
        return events.Ending(status="stopped", stop=events.Stop(reason="stopped"))
    return events.Ending(status="completed", stop=events.Stop(reason="stop"))


def _text(item: int, part: Text) -> list[events.Event]:
    return [
        events.MessageStart(item=item),
        events.MessageDelta(item=item, content=part.text),
        events.MessageEnd(item=item),
    ]


def _reasoning(item: int, part: Reasoning) -> list[events.Event]:
    return [
        events.ReasoningStart(item=item),
        events.ReasoningDelta(item=item, content=part.text),
        events.ReasoningEnd(item=item),
    ]


def _call(item: int, part: Call) -> list[events.Event]:
    """A call that the product has executed. Other servers require an id."""
    call_id = part.call_id or f"call_{item}"
    start = events.ToolCallStart(
        item=item,
        tool=part.tool,
        call_id=call_id,
        executes="upstream",
        id_synthesised=not part.call_id,
    )
    arguments = events.ToolCallArguments(
        item=item,
        tool=part.tool,
        arguments=part.arguments,
        call_id=call_id,
        id_synthesised=not part.call_id,
    )
    end: events.Event = events.ToolCallSuccess(
        item=item,
        tool=part.tool,
        arguments=part.arguments,
        output=part.output or "",
        call_id=call_id,
    )
    if part.has_failed:
        end = events.ToolCallFailure(
            item=item,
            reason=part.output or gettext("The tool failed."),
            metadata=events.FailureMetadata(
                type="execution_failed", tool_name=part.tool, arguments=part.arguments
            ),
            call_id=call_id,
        )
    return [start, arguments, end]


_EVENTS: dict[type, Callable[..., list[events.Event]]] = {
    Text: _text,
    Reasoning: _reasoning,
    Call: _call,
}
