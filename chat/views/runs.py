"""One run: stop it, and everything that is known about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from chat import access, events
from chat.actions import conversations as verbs
from chat.actions.errors import ActionRefused, storage_errors
from chat.dialects import DIALECTS
from chat.models import Attempt, Run, RunStatus
from chat.rendering.figures import duration, milliseconds_of
from chat.rendering.wording import EVENTS, error_title
from chat.runs.segments import read_events, read_raw
from chat.views import room
from chat.views.gate import signed_in
from chat.views.listing import listing_context
from chat.views.transcript import model_label

# What a page shows of a log; the rest is counted, and the programs' interface has it all.
EVENTS_SHOWN = 500
RAW_BYTES_SHOWN = 64 * 1024
EVENT_LETTERS_SHOWN = 400
OUTCOMES = {
    "": "under way",
    "eof": "answered to the end",
    "stopped": "stopped by a person",
    "refused": "refused",
    "failed": "failed",
    "interrupted": "interrupted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A step in a run's life, and the seconds since the one before it."""

    label: str
    at: datetime
    since: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine:
    seq: int
    milliseconds: int
    type: str
    text: str


@signed_in
@require_POST
def stop(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The page that asked shows the button as pressed by itself, and hears of the end by its live
    connection, as everybody's: nothing is made for it here, so that many can stop at once."""
    run = access.get_run(request.user, public_id, for_write=True)
    try:
        with storage_errors():
            was_live = verbs.stop_run(request.user, run)
    except ActionRefused as refusal:
        status = room.status_of(refusal)
        return room.refused(request, run.conversation, str(refusal), status=status)
    if not request.htmx:
        return redirect("conversation", public_id=run.conversation.public_id)
    # Over already: the page does not know that yet, and fetches what it lacks.
    return HttpResponse(status=204, headers={} if was_live else {"HX-Trigger": room.CHANGED})


@signed_in
@require_GET
def details(request: HttpRequest, public_id: UUID) -> HttpResponse:
    run = access.get_run(request.user, public_id)
    log = read_events(run)
    # One byte more than is shown tells that there is more.
    raw = read_raw(run, limit_bytes=RAW_BYTES_SHOWN + 1)
    context: dict[str, Any] = {
        "run": run,
        "conversation": run.conversation,
        "model_label": model_label(run),
        "parts": list(Run.objects.filter(message=run.message_id).order_by("position")),
        "moments": moments_of(run),
        "figures": figures_of(run),
        "attempts": attempts_of(run),
        "error_title": error_title(run.error_kind) if run.error_kind or run.error_message else "",
        "parameters": parameters_of(run),
        "counts": counts_of(log),
        "lines": [line_of(event) for event in log[:EVENTS_SHOWN]],
        "lines_left_out": max(0, len(log) - EVENTS_SHOWN),
        "raw": raw[:RAW_BYTES_SHOWN].decode("utf-8", "replace"),
        "has_more_raw": len(raw) > RAW_BYTES_SHOWN,
    }
    context |= listing_context(request.user, run.conversation)
    return render(request, "chat/details.html", context)


def moments_of(run: Run) -> list[Moment]:
    steps = (
        ("Sent", run.queued_at),
        ("Taken from the line", run.claimed_at),
        ("Request sent to the server", run.request_sent_at),
        ("First event", run.first_event_at),
        ("First token", run.first_token_at),
        ("Stop asked for", run.stop_requested_at),
        ("Ended", run.finished_at),
    )
    known = sorted(((label, at) for label, at in steps if at), key=lambda step: step[1])
    moments: list[Moment] = []
    for label, at in known:
        since = (at - moments[-1].at).total_seconds() if moments else None
        moments.append(Moment(label=label, at=at, since=since))
    return moments


def attempts_of(run: Run) -> list[Attempt]:
    attempts = list(Attempt.objects.filter(run=run).order_by("number"))
    for attempt in attempts:
        attempt.outcome_label = OUTCOMES.get(attempt.outcome, attempt.outcome)
        attempt.error_title = error_title(attempt.error_kind) if attempt.error_kind else ""
        attempt.asked_to_wait = _asked_to_wait(attempt)
    return attempts


def _asked_to_wait(attempt: Attempt) -> str:
    """How long the server asked us to wait, in words; nothing where it did not."""
    seconds = attempt.retry_after_seconds
    if not seconds:
        return ""
    return f"{seconds:g} s" if seconds < 1 else duration(milliseconds_of(seconds))


def figures_of(run: Run) -> list[tuple[str, str]]:
    """Label and value. A figure that nobody reported or measured is left out; so is a 0 of
    thinking, and the time of a run that failed before a server was asked."""
    figures: list[tuple[str, str]] = []
    counts = (
        ("Tokens read", run.input_tokens),
        ("Tokens written", run.output_tokens),
        ("of these for thinking", run.reasoning_tokens or None),
    )
    figures += [(label, f"{count:,}") for label, count in counts if count is not None]
    if run.result:
        stats = events.decode_result(run.result).stats
        measured = (
            ("Tokens per second", stats.tokens_per_second, "{:.1f}"),
            ("Time to first token", stats.time_to_first_token_seconds, "{:.2f} s"),
            ("Model load", stats.model_load_time_seconds, "{:.1f} s"),
        )
        figures += [
            (label, form.format(value)) for label, value, form in measured if value is not None
        ]
    if run.finished_at and (run.request_sent_at or run.status != RunStatus.FAILED):
        total = (run.finished_at - run.queued_at).total_seconds()
        figures.append(("Total", duration(milliseconds_of(total))))
    return figures


def parameters_of(run: Run) -> list[tuple[str, object]]:
    """What was set for this run, under the names that the form has for it."""
    dialect = DIALECTS.get(run.upstream.dialect) if run.upstream else None
    labels = {each.name: each.label for each in dialect.parameters} if dialect else {}
    return [(labels.get(name, name), value) for name, value in run.parameters.items()]


def counts_of(log: Iterable[events.Event]) -> list[tuple[str, str, int]]:
    """Words, type and number of the events of each type, in the order of their first one."""
    counts = Counter(type_of(event) for event in log)
    return [(EVENTS.get(kind, kind), kind, count) for kind, count in counts.items()]


def type_of(event: events.Event) -> str:
    return str(event.__struct_config__.tag)


# Members that are not for browsers: replay material, and the upstream's own turn.
_WITHHELD: dict[str, str] = {
    "replay.data": "(material for the next request; not shown)",
    "chat.end": "(the result; its figures are above)",
}


def line_of(event: events.Event) -> EventLine:
    kind = type_of(event)
    members = msgspec.to_builtins(event)
    text = _WITHHELD.get(kind) or _short(
        {name: value for name, value in members.items() if name not in ("type", "seq", "t")}
    )
    return EventLine(seq=event.seq, milliseconds=event.t, type=kind, text=text)


def _short(members: dict[str, object]) -> str:
    text = msgspec.json.encode(members).decode() if members else ""
    if len(text) <= EVENT_LETTERS_SHOWN:
        return text
    return f"{text[:EVENT_LETTERS_SHOWN]}… ({len(text):,} letters)"
