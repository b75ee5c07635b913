"""The text of an answer, for copies and exports of it."""

from __future__ import annotations

from chat import events
from chat.events import Result
from chat.models import Message, Run
from chat.rendering.copied_text import divided
from chat.result import fold, plain_text
from chat.result.merge import merge
from chat.runs.segments import read_events


def source_of(answer: Message) -> str:
    """The text of an answer from all its runs; for a live answer, so far."""
    runs = Run.objects.filter(message=answer).order_by("position")
    results = [_result_of(run) for run in runs]
    return plain_text(merge(results)) if results else ""


def _result_of(run: Run) -> Result:
    result = events.decode_result(run.result) if run.result else None
    # The boundaries between texts above and below cards are in the log alone.
    if result is None or result.ext.artifacts or result.ext.mockups:
        return fold(divided(read_events(run)))
    return result
