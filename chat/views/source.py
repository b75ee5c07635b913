"""An answer as the Markdown that it was written in."""

from __future__ import annotations

from chat import events
from chat.events import Result
from chat.models import Message, Run
from chat.result import fold, plain_text
from chat.result.merge import merge
from chat.runs.segments import read_events


def source_of(answer: Message) -> str:
    """The text of all its runs as one answer; of a live one what is there so far."""
    runs = Run.objects.filter(message=answer).order_by("position")
    results = [_result_of(run) for run in runs]
    return plain_text(merge(results)) if results else ""


def _result_of(run: Run) -> Result:
    return events.decode_result(run.result) if run.result else fold(read_events(run))
