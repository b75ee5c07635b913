"""The runs of one answer as one stream: their items are numbered through. Pure.

As `chat.result.merge` joins their results: a call that a server runs itself may be asked for before
a pause and have its outcome after it, and that is one item.
"""

from __future__ import annotations

from chat import events as canonical
from chat.result.merge import is_run_by_client

_OUTCOMES = (canonical.ToolCallSuccess, canonical.ToolCallFailure)


class Joiner:
    """``ended`` after each run with its result; ``join`` for the events of each run but the first."""

    def __init__(self) -> None:
        self._count = 0
        # Of the run that is being read: its numbers, to those of the answer.
        self._numbers: dict[int, int] = {}
        # Calls without an outcome yet, by their ids, and those whose outcome comes now.
        self._open_calls: dict[str, tuple[int, canonical.ToolCallItem]] = {}
        self._late: dict[int, canonical.ToolCallItem] = {}

    def ended(self, result: canonical.Result) -> None:
        """The next run's events come now."""
        for position, item in enumerate(result.output):
            number = self._number(position)
            if isinstance(item, canonical.ToolCallItem) and _waits_at_its_server(item):
                self._open_calls[item.call_id or ""] = (number, item)
        self._numbers, self._late = {}, {}

    def join(self, event: canonical.Event) -> canonical.Event | None:
        """The event with its number in the answer; ``None`` for what the answer has said already."""
        if isinstance(event, canonical.ChatStart):
            return None
        if not isinstance(event, canonical.ItemEvent | canonical.ReplayData):
            return event
        if event.item is None or event.choice != 0:
            return event
        if event.item not in self._numbers:
            self._find(event, getattr(event, "call_id", None))
        asked = self._late.get(event.item)
        if asked is not None and not isinstance(event, _OUTCOMES):
            return None
        if asked is not None and isinstance(event, canonical.ToolCallSuccess):
            # Only the run that asked knows what with.
            event.tool, event.arguments = asked.tool, asked.arguments
        event.item = self._number(event.item)
        return event

    def _find(self, event: canonical.ItemEvent | canonical.ReplayData, call_id: str | None) -> None:
        """Whether this is the rest of an earlier call."""
        if call_id in self._open_calls and event.item is not None and call_id is not None:
            self._numbers[event.item], self._late[event.item] = self._open_calls.pop(call_id)

    def _number(self, item: int) -> int:
        if item not in self._numbers:
            self._numbers[item] = self._count
            self._count += 1
        return self._numbers[item]


def _waits_at_its_server(call: canonical.ToolCallItem) -> bool:
    """Whether its outcome may come with the next run."""
    return bool(call.call_id) and call.status == "pending" and not is_run_by_client(call)
