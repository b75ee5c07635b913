"""Moments and figures of a run, for its details and the administration."""

from __future__ import annotations

from datetime import datetime

import msgspec

from chat import events
from chat.models import Run, RunStatus
from chat.rendering.figures import duration, milliseconds_of


def moments_of(run: Run) -> list[tuple[str, datetime]]:
    """The steps of a run that have a time, in order: label and time."""
    steps = (
        ("Sent", run.queued_at),
        ("Taken from the line", run.claimed_at),
        ("Request sent to the server", run.request_sent_at),
        ("First event", run.first_event_at),
        ("First token", run.first_token_at),
        ("Stop asked for", run.stop_requested_at),
        ("Ended", run.finished_at),
    )
    return sorted(((label, at) for label, at in steps if at), key=lambda step: step[1])


def figures_of(run: Run) -> list[tuple[str, str]]:
    """Label and value of each figure that was reported or measured.

    Reasoning tokens are left out if they are 0, and so is the time of a run that failed before the request.
    """
    figures: list[tuple[str, str]] = []
    counts = (
        ("Tokens read", run.input_tokens),
        ("Tokens written", run.output_tokens),
        ("of these for thinking", run.reasoning_tokens or None),
    )
    figures += [(label, f"{count:,}") for label, count in counts if count is not None]
    stats = _stats_of(run)
    if stats is not None:
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


def _stats_of(run: Run) -> events.Stats | None:
    """``None`` without a result, or with one that cannot be parsed: administrators still see the
    rest."""
    if not run.result:
        return None
    try:
        return events.decode_result(run.result).stats
    except msgspec.MsgspecError:
        return None
