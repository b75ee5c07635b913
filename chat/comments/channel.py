"""Live channel of comments: what a page marks, whenever that has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec

from chat import access
from chat.comments.threads import Marks, read_marks, read_versions
from chat.live.access_monitor import Room
from chat.live.channels import Channel, Tab
from chat.live.updates import Updates


def render_marks(room: UUID, readers: Sequence[int]) -> dict[int, Marks | None]:
    """The marks for those who may still read the conversation."""
    allowed = access.readers_among(readers, room)
    marks = read_marks(room) if allowed else None
    return {person: marks for person in readers if person in allowed and marks is not None}


updates: Updates[UUID, int, Marks] = Updates("comments", render_marks)


class VersionLook:
    """How often the comments of the open conversations have changed, for all tabs together."""

    def read(self, asked: Sequence[UUID]) -> Mapping[UUID, int]:
        return read_versions(asked)


class _Shown(msgspec.Struct):
    version: int = 0


_decoder = msgspec.json.Decoder(_Shown)


class CommentsChannel(Channel):
    """The comments that a tab marks, by the number of their changes."""

    name = "comments"
    look = VersionLook
    is_prompt = True

    def __init__(self, tab: Tab) -> None:
        super().__init__(tab)
        self._version = 0
        self._is_waiting = False

    def start(self, said: msgspec.Raw) -> None:
        self._version = _decoder.decode(said).version
        self.asks = self.tab.room

    def check(self, rooms: Sequence[Room], found: int | None) -> None:
        if found in (None, self._version) or self._is_waiting or self.tab.room is None:
            return
        self._is_waiting = True
        updates.want(self.tab.room, self)

    # --- while it waits for an update --------------------------------------------------------

    def reader(self) -> int | None:
        self._is_waiting = False
        return self.tab.reader.person

    def tell(self, update: Marks | None) -> None:
        # After an error the next look tries again.
        if update is not None and update.version != self._version:
            self._version = update.version
            self.send({"version": update.version, "threads": update.threads}, is_news=False)
