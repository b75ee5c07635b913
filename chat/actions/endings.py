"""Ends runs that no runner owns: stopped before they were claimed, or left by a lost runner."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import F
from django.utils import timezone

from chat import events as canonical
from chat.actions.continuing import opening
from chat.actions.outcomes import brought_by, record_outcome
from chat.models import Conversation, Run, RunSegment, RunStatus
from chat.models.prepared import PreparedUpdate
from chat.result import Fold, close_open

LARGEST_FIGURE = 2**63 - 1


def end_unstarted(run: Run) -> bool:
    """Stops a queued run: its log is written here, or its viewers would wait for ever.

    Returns whether this call ended it. Call inside a transaction.
    """
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
    """The name of the person who stopped a run; ``None`` where nobody did, or who has left."""
    names = Run.objects.filter(pk=run_pk).values_list("stop_requested_by__name", flat=True)
    return names.first()


def _committed(run: Run) -> list[canonical.Event]:
    """What the log of a queued run holds: nothing, or the beginning of a follow-up run that was
    claimed once and put back in line."""
    bodies = RunSegment.objects.filter(run=run).order_by("first_seq").values_list("body", flat=True)
    return [canonical.decode(one) for body in bodies for one in canonical.split_bodies(bytes(body))]


def write_ending(run: Run, closing: Iterable[canonical.Event], *, after: int) -> None:
    """Appends the closing events behind seq ``after`` and the fold to the run's row.

    The caller has already won the conditional update of the status, in this transaction.
    A segment that somebody else wrote meanwhile raises ``IntegrityError``.
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
        record_outcome(run.pk, end.result, brought_by(run.pk, end.result))


def columns_of(end: canonical.Event) -> dict[str, object]:
    """The columns of a run's row that its ``chat.end`` decides."""
    assert isinstance(end, canonical.ChatEnd)
    result = end.result
    usage = result.ext.usage or canonical.Usage()
    error = result.ext.error
    return {
        "status": result.ext.status,
        "last_seq": end.seq,
        "finished_at": timezone.now(),
        "result": canonical.encode(result).decode(),
        "response_id": (result.response_id or "")[:200],
        "input_tokens": _first(result.stats.input_tokens, usage.input_tokens),
        "output_tokens": _first(result.stats.total_output_tokens, usage.output_tokens),
        "reasoning_tokens": _first(result.stats.reasoning_output_tokens, usage.reasoning_tokens),
        "error_kind": error.kind if error else "",
        "error_message": error.message[:2000] if error else "",
    }


def _first(*figures: int | None) -> int | None:
    """The first figure that is known and that a column can hold: servers report what they like."""
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
    """The room changed: its revision rises, and the answer's with it."""
    _touched(room=conversation_pk, now=timezone.now())
