"""The end of a run: its result, and what features store in the same transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat import events as canonical
from chat.core import notify
from chat.core.errors import ActionRefused, is_database_unavailable
from chat.core.prepared import PreparedUpdate
from chat.events import Result
from chat.models import Conversation, Message, Run, RunSegment, RunStatus
from chat.result import Fold, close_open
from chat.runs.admission import Trigger
from chat.runs.resume import opening, queue_follow_up

logger = logging.getLogger(__name__)

# An upstream that pauses its own tools continues by itself; one that never ends is stopped here.
MOST_PAUSES = 8

TOO_MANY_PAUSES = gettext_lazy("The server paused too often, so the answer wasn’t continued.")
SERVER_IS_GONE = gettext_lazy(
    "The answer wasn’t continued after a pause, because its server was deleted or disabled."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeStep:
    """A feature's step in the transaction that ends a run.

    ``applies(result, prepared)`` says whether there is something to store: most answers are text
    only, and each step is a savepoint. ``store(run, result, prepared)`` stores it.
    ``prepare(run_pk, result, closing)`` is called before the transaction, wherever possible, for
    what takes time, such as decoding and hashing megabytes; its value is passed on as ``prepared``.
    ``closing`` are the encoded events that are not in the run's log yet.
    """

    name: str
    applies: Callable[[Result, object], bool]
    store: Callable[[Run, Result, object], None]
    prepare: Callable[[int, Result, Sequence[bytes]], object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingRows:
    """Rows that endings add to a table of a feature. They follow from the result and the run
    alone, so on PostgreSQL they are part of the one statement that ends a run.

    ``clause`` is an ``INSERT`` that selects from ``ended (id, conversation_id, message_id,
    upstream_id, model, queued_at)``, and ``values`` are its values for what ``prepare`` has made of
    the result; ``None`` means that it needs no rows. ``store(run_pk, prepared)`` inserts the same
    rows on SQLite, and where no runner ends the run. None of them may fail. ``topic`` is that of the
    runners' periodic task for which the rows are work.
    """

    name: str
    prepare: Callable[[Result], object | None]
    clause: str
    values: Callable[[object], list[object]]
    store: Callable[[int, object], None]
    topic: str = ""


# The value that each step has prepared, by its name.
PreparedOutcome = Mapping[str, object]

_steps: tuple[OutcomeStep, ...] = ()
_rows: tuple[EndingRows, ...] = ()


def use_ending_rows(*rows: EndingRows) -> None:
    """Sets the rows of this process. `chat.apps` calls it once."""
    global _rows
    _rows = rows


def ending_rows(prepared: PreparedOutcome) -> list[tuple[EndingRows, object]]:
    """The rows that an ending needs, with what was prepared for them."""
    found = ((rows, prepared.get(rows.name)) for rows in _rows)
    return [(rows, value) for rows, value in found if value is not None]


def topics_of(prepared: PreparedOutcome) -> tuple[str, ...]:
    """The topics of the periodic tasks that the rows of an ending are for."""
    return tuple(rows.topic for rows, _ in ending_rows(prepared) if rows.topic)


def use_steps(*steps: OutcomeStep) -> None:
    """Sets the steps of this process, in their order. `chat.apps` calls it once."""
    global _steps
    _steps = steps


def steps() -> tuple[OutcomeStep, ...]:
    return _steps


def record_outcome(run_pk: int, result: Result, prepared: PreparedOutcome) -> None:
    """Writes the rows that follow from a result, no matter which process ended the run. ``prepared`` is the value
    of `prepare_outcome` for it.

    The run's row already has its terminal status. Everything here is a function of the result,
    and a run ends once, so nothing is written twice. A step that fails loses its own rows, not
    those of other steps nor the end of the run. Errors of an unavailable database are raised.
    """
    due = _due_steps(result, prepared)
    if not due:
        return
    run = Run.objects.defer("result").get(pk=run_pk)
    for step in due:
        with _isolated(run.public_id, step.name), transaction.atomic():
            step.store(run, result, prepared.get(step.name))


def has_consequences(result: Result, prepared: PreparedOutcome) -> bool:
    return bool(_due_steps(result, prepared))


def _due_steps(result: Result, prepared: PreparedOutcome) -> list[OutcomeStep]:
    return [step for step in _steps if step.applies(result, prepared.get(step.name))]


# Up to here the text of an answer is prepared on the event loop. A hand-over to a thread costs about as
# much there.
SHORT_CHARACTERS = 4000
_TEXT_ITEMS = (canonical.MessageItem, canonical.ReasoningItem)


def is_short(result: Result) -> bool:
    """Returns whether an answer is nothing but a short text, so that `prepare_outcome` takes no time and no
    statement."""
    room = SHORT_CHARACTERS
    for item in result.output:
        if not isinstance(item, _TEXT_ITEMS):
            return False
        room -= len(item.content)
    return room >= 0 and not (
        result.ext.alternatives or result.ext.artifacts or result.ext.mockups or result.ext.asks
    )


def prepare_outcome(run_pk: int, result: Result, closing: Sequence[bytes] = ()) -> PreparedOutcome:
    """The values that the steps prepare before the transaction that ends the run."""
    prepared: dict[str, object] = {}
    for step in _steps:
        if step.prepare is not None:
            with _isolated(run_pk, step.name):
                prepared[step.name] = step.prepare(run_pk, result, closing)
    for rows in _rows:
        with _isolated(run_pk, rows.name):
            prepared[rows.name] = rows.prepare(result)
    return prepared


@contextmanager
def _isolated(run: object, step: str) -> Iterator[None]:
    """Logs a failed step. Errors of an unavailable database are raised."""
    try:
        yield
    except Exception as error:
        if is_database_unavailable(error):
            raise
        # The log names only the kind of error, because a database's message may quote the value.
        logger.error("run.outcome_lost run=%s step=%s error=%s", run, step, type(error).__name__)


def _continue_paused(run: Run, result: Result, prepared: object) -> None:
    """Queues the follow-up of a run that the upstream has paused, unless somebody stopped it."""
    if run.status != RunStatus.INCOMPLETE or result.ext.stop.reason != "pause":
        return
    if run.stop_requested_at is not None or run.conversation.deleted_at is not None:
        return
    upstream = run.upstream
    if upstream is None or not upstream.is_enabled:
        _note(run, str(SERVER_IS_GONE))
    elif _pauses(run) > MOST_PAUSES:
        _note(run, str(TOO_MANY_PAUSES))
    else:
        try:
            queue_follow_up(run, [], Trigger.CONTINUATION, requested_by=run.requested_by)
        except ActionRefused as refusal:
            _note(run, str(refusal))
    show_change(run)


def _pauses(run: Run) -> int:
    """How often this answer has paused: this time, and once for each run that was given nothing."""
    later = Run.objects.filter(message_id=run.message_id, position__gt=0)
    return 1 + sum(not inputs for inputs in later.values_list("inputs", flat=True))


def _note(run: Run, text: str) -> None:
    Run.objects.filter(pk=run.pk).update(notes=[*run.notes, text])


def show_change(run: Run) -> None:
    """Makes open pages fetch the answer again, because it differs from what they show."""
    conversation = Conversation.objects.only("public_id", "revision").get(pk=run.conversation_id)
    Message.objects.filter(pk=run.message_id).update(revision=conversation.revision)
    notify.publish_after_commit(notify.room_topic(conversation.public_id))


CONTINUE_PAUSED = OutcomeStep(
    name="continue_paused",
    applies=lambda result, prepared: result.ext.stop.reason == "pause",
    store=_continue_paused,
)


# --- runs that no runner owns: stopped before they were claimed, or left by a lost runner --------

LARGEST_FIGURE = 2**63 - 1


def end_unstarted(run: Run) -> bool:
    """Stops a queued run. Its log is written here, or its viewers would wait for ever. Returns
    whether this call ended it. Call inside a transaction."""
    stopped = Run.objects.filter(pk=run.pk, status=RunStatus.QUEUED).update(
        status=RunStatus.STOPPED, stop_requested_at=timezone.now()
    )
    if not stopped:
        return False
    committed = _committed(run)
    start = canonical.ChatStart(model_instance_id=run.model, requested_model=run.model)
    beginning = [] if committed else opening(run) or [start]
    fold = Fold()
    fold.extend([*committed, *beginning])
    after = committed[-1].seq if committed else 0
    closing = close_open(fold, "stopped", by=stopper_of(run.pk))
    write_ending(run, [*beginning, *closing], after=after)
    return True


def stopper_of(run_pk: int) -> str | None:
    """The name of the person who stopped a run; ``None`` if nobody did, or they have left."""
    names = Run.objects.filter(pk=run_pk).values_list("stop_requested_by__name", flat=True)
    return names.first()


def _committed(run: Run) -> list[canonical.Event]:
    """The log of a queued run: empty, or the beginning of a follow-up run that was claimed once and
    requeued."""
    bodies = RunSegment.objects.filter(run=run).order_by("first_seq").values_list("body", flat=True)
    return [canonical.decode(one) for body in bodies for one in canonical.split_bodies(bytes(body))]


def write_ending(run: Run, closing: Iterable[canonical.Event], *, after: int) -> None:
    """Appends the closing events after ``after`` and stores the result in the run's row.

    The caller has already won the conditional update of the status, in this transaction. A segment
    that another process wrote meanwhile raises ``IntegrityError``.
    """
    numbered = list(closing)
    for seq, event in enumerate(numbered, start=after + 1):
        event.seq = seq
    RunSegment.objects.create(
        run=run,
        first_seq=after + 1,
        last_seq=numbered[-1].seq,
        body=canonical.join_bodies(canonical.encode(event) for event in numbered),
    )
    end = numbered[-1]
    Run.objects.filter(pk=run.pk).update(**columns_of(end))
    touch_room(run.conversation_id)
    if isinstance(end, canonical.ChatEnd):
        prepared = prepare_outcome(run.pk, end.result)
        for rows, value in ending_rows(prepared):
            rows.store(run.pk, value)
        record_outcome(run.pk, end.result, prepared)


def columns_of(end: canonical.Event) -> dict[str, object]:
    """The columns of a run's row that its ``chat.end`` decides."""
    assert isinstance(end, canonical.ChatEnd)
    result = end.result
    error = result.ext.error
    return {
        "status": result.ext.status,
        "last_seq": end.seq,
        "finished_at": timezone.now(),
        "result": canonical.encode(result).decode(),
        "response_id": (result.response_id or "")[:200],
        **tokens_of(result),
        "error_kind": error.kind if error else "",
        "error_message": error.message[:2000] if error else "",
    }


def tokens_of(result: Result) -> dict[str, int | None]:
    """The columns with the token counts that the server reported."""
    stats, usage = result.stats, result.ext.usage or canonical.Usage()
    return {
        "input_tokens": _first(stats.input_tokens, usage.input_tokens),
        "output_tokens": _first(stats.total_output_tokens, usage.output_tokens),
        "reasoning_tokens": _first(stats.reasoning_output_tokens, usage.reasoning_tokens),
    }


def _first(*figures: int | None) -> int | None:
    """The first figure that is known and fits its column: servers report any numbers."""
    return next(
        (figure for figure in figures if figure is not None and 0 <= figure <= LARGEST_FIGURE),
        None,
    )


_touched = PreparedUpdate(
    lambda room, now: (
        Conversation.objects.filter(pk=room),
        {"revision": F("revision") + 1, "updated_at": now},
    )
)


def touch_room(conversation_pk: int) -> None:
    """Records a change of the room: raises its revision, and the answer's with it."""
    _touched(room=conversation_pk, now=timezone.now())
