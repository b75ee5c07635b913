"""Merges adjacent deltas of an answer before they get their numbers. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from chat import events as canonical

# Largest merged delta, so that no single event contains a whole long answer.
MERGED_CHARACTERS = 64 * 1024
# Bytes of an event in memory beside its text.
EVENT_BYTES = 64

# Types whose text is merged with that of an adjacent event of the same item, and the field with it.
TEXT_MEMBERS: dict[type[canonical.Event], str] = {
    canonical.MessageDelta: "content",
    canonical.ReasoningDelta: "content",
    canonical.RefusalDelta: "content",
    canonical.ToolCallDelta: "fragment",
}
# The key by which adjacent events belong to the same item.
_ITEM_OF: dict[type[canonical.Event], Callable[[Any], tuple[object, ...]]] = {
    canonical.MessageDelta: attrgetter("item", "choice"),
    canonical.ReasoningDelta: attrgetter("item", "choice"),
    canonical.RefusalDelta: attrgetter("item", "choice", "category"),
    canonical.ToolCallDelta: attrgetter("item", "choice", "call_id"),
}
# Only the latest of adjacent events of these types is kept.
_LATEST = (canonical.ModelLoadProgress, canonical.PromptProcessingProgress)


@dataclass(slots=True)
class _Merged:
    """An event, with the pieces of text that were merged into it, and the key of its item."""

    event: canonical.Event
    pieces: list[str]
    size: int
    item: tuple[object, ...] | None

    def joined(self) -> canonical.Event:
        if len(self.pieces) > 1:
            setattr(self.event, TEXT_MEMBERS[type(self.event)], "".join(self.pieces))
        return self.event


class DeltaMerger:
    """Events that have no number yet, in order. It keeps and changes the events it is given."""

    def __init__(self) -> None:
        # Counts of what was added since the last `pop_events`, and the memory it takes.
        self.event_count = 0
        self.delta_count = 0
        self.size_bytes = 0
        self._merged: list[_Merged] = []

    @property
    def has_only_start(self) -> bool:
        return len(self._merged) == 1 and isinstance(self._merged[0].event, canonical.ChatStart)

    def add(self, events: Iterable[canonical.Event]) -> None:
        for event in events:
            self.event_count += 1
            last = self._merged[-1] if self._merged else None
            if last is not None and type(last.event) is not type(event):
                last = None
            member = TEXT_MEMBERS.get(type(event))
            if member is not None:
                self.delta_count += 1
                self._add_delta(last, event, getattr(event, member))
            elif last is not None and isinstance(event, _LATEST):
                last.event = event
            else:
                self._append(_Merged(event, [], 0, None))

    def _add_delta(self, last: _Merged | None, event: canonical.Event, text: str) -> None:
        size = len(text)
        item = _ITEM_OF[type(event)](event)
        if last is not None and last.item == item and last.size <= MERGED_CHARACTERS:
            last.pieces.append(text)
            last.size += size
            self.size_bytes += size
        else:
            self._append(_Merged(event, [text], size, item))

    def _append(self, merged: _Merged) -> None:
        self._merged.append(merged)
        self.size_bytes += merged.size + EVENT_BYTES

    def pop_events(self) -> list[canonical.Event]:
        """The merged events, which are not kept any longer."""
        merged, self._merged = self._merged, []
        self.event_count = self.delta_count = self.size_bytes = 0
        return [one.joined() for one in merged]
