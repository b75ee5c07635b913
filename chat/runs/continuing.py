"""Runs that go on with an answer: how their log is begun, and how their stream joins it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from chat import events as canonical
from chat.actions.continuing import Settled, opening
from chat.dialects.base import Cause, Parser, Reply
from chat.models import Run
from chat.runs.segments import read_events
from chat.wire.sse import Frame

_OUTCOMES = (canonical.ToolCallSuccess, canonical.ToolCallFailure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """How the log of a follow-up run begins: what an earlier try has committed, or else what is
    to be."""

    committed: tuple[canonical.Event, ...]
    opening: tuple[canonical.Event, ...]

    @property
    def item_count(self) -> int:
        """Items that the log has before the upstream's first."""
        return sum(isinstance(event, _OUTCOMES) for event in (*self.committed, *self.opening))


def read_beginning(run: Run) -> Beginning:
    """A run that was put back in line before its request has its beginning already: what was
    committed stays, and is not said twice."""
    committed = tuple(read_events(run))
    return Beginning(committed=committed, opening=() if committed else tuple(opening(run)))


class ContinuingParser(Parser):
    """A dialect's parser whose events carry on a log that has begun.

    ``first_item`` is the number of the first item of the upstream's answer; further choices
    have nothing before them, and keep their numbers. A ``chat.start`` of its own is left out,
    but a model other than ``model`` is told.
    """

    def __init__(self, parser: Parser, *, first_item: int, model: str) -> None:
        self._parser = parser
        self._first_item = first_item
        self._model = model

    def feed(self, frame: Frame) -> list[canonical.Event]:
        return self._joined(self._parser.feed(frame))

    def feed_body(self, body: bytes) -> list[canonical.Event]:
        return self._joined(self._parser.feed_body(body))

    def close(
        self, cause: Cause = "eof", *, error: canonical.ErrorInfo | None = None
    ) -> list[canonical.Event]:
        return self._joined(self._parser.close(cause, error=error))

    def _joined(self, events: list[canonical.Event]) -> list[canonical.Event]:
        self.is_done = self._parser.is_done
        self.ending = self._parser.ending
        return [joined for event in events if (joined := self._join(event)) is not None]

    def _join(self, event: canonical.Event) -> canonical.Event | None:
        if isinstance(event, canonical.ChatStart):
            if event.model_instance_id in ("", self._model):
                return None
            return canonical.MetaUpdate(values={"model": event.model_instance_id})
        if isinstance(event, canonical.ItemEvent) and event.choice == 0:
            event.item += self._first_item
        elif isinstance(event, canonical.ReplayData) and event.choice == 0:
            event.item = None if event.item is None else event.item + self._first_item
        return event


# --- what was given, in the next prompt ----------------------------------------------------


def filled_output(result: canonical.Result, given: Iterable[Settled]) -> list[canonical.OutputItem]:
    """The output of a run with the calls that were answered since."""
    output: list[canonical.OutputItem] = list(result.output)
    for settled in given:
        call = output[settled.position] if settled.position < len(output) else None
        if settled.kind == "tool" and isinstance(call, canonical.ToolCallItem):
            output[settled.position] = msgspec.structs.replace(
                call, output=settled.output, status="failed" if settled.is_error else "done"
            )
    return output


def replies_in(result: canonical.Result, given: Iterable[Settled]) -> Iterator[Reply]:
    """The replies to a run's questions."""
    asks = result.ext.asks
    for settled in given:
        if settled.kind != "tool" and settled.position < len(asks):
            ask = asks[settled.position]
            yield Reply(
                ask_id=str(ask.get("ask_id", "")),
                call_id=ask.get("call_id"),
                style=ask.get("style"),
                text=settled.text,
                selected=settled.selected,
                fields=settled.fields,
                is_declined=settled.outcome != "answered",
            )
