"""Live channel of what is unread: the tab says what it shows, and gets what its person has
read in others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated

import msgspec
from django.utils import timezone

from chat.live.access_monitor import Room
from chat.live.channels import Channel, Tab
from chat.live.writes import tab_writes
from chat.unread.marks import MarksAsked, ShownRevision, read_marks, store_read

# Marks are written some time before they can be read: the transaction takes its time, and clocks differ.
OVERLAP_SECONDS = 10.0
# A page that was asleep for longer shows older lines as unread until it gets a new list.
LONGEST_SECONDS = 86_400.0


# A number that the database can store, whatever a tab says.
_Revision = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Shown(msgspec.Struct):
    """``revision``: that of the conversation on a visible page, else 0. ``age``: milliseconds since the page was
    requested. ``again``: the page shows something new that is no news of the conversation, such as a comment."""

    revision: _Revision = 0
    age: float = 0
    again: bool = False


_decoder = msgspec.json.Decoder(_Shown)


class UnreadLook:
    def read(self, asked: Sequence[MarksAsked]) -> Mapping[MarksAsked, Mapping[str, int]]:
        return read_marks(asked)


class UnreadChannel(Channel):
    name = "unread"
    look = UnreadLook

    def __init__(self, tab: Tab) -> None:
        super().__init__(tab)
        self._is_visible = False
        # The revision that the page shows, and the one that was written last.
        self._revision = 0
        self._written = 0
        # The marks that the page was told of, of those that the look still reads.
        self._told: Mapping[str, int] = {}

    def start(self, said: msgspec.Raw) -> None:
        shown = _decoder.decode(said)
        self._show(shown.revision)
        self._ask(min(max(shown.age, 0.0) / 1000, LONGEST_SECONDS))

    def receive(self, said: msgspec.Raw) -> None:
        shown = _decoder.decode(said)
        if shown.again:
            self._written = 0
        self._show(shown.revision)

    def _show(self, revision: int) -> None:
        self._is_visible = revision > 0
        self._revision = max(self._revision, revision)
        self._write()

    def _write(self) -> None:
        if self._is_visible and self._revision > self._written and self.tab.room is not None:
            self._written = self._revision
            tab_writes.want(store_read, self)

    def _ask(self, age_seconds: float) -> None:
        since = timezone.now() - timedelta(seconds=age_seconds + OVERLAP_SECONDS)
        # Tabs whose questions are alike share them.
        self.asks = MarksAsked(self.tab.reader.person, since.replace(microsecond=0))

    def check(self, rooms: Sequence[Room], found: Mapping[str, int] | None) -> None:
        if not self.tab.is_two_way:
            self._show_all(rooms)
        if found is None:
            return
        news = {room: at for room, at in found.items() if self._told.get(room) != at}
        self._told = found
        self._ask(0.0)
        if news:
            self.send({"read": news}, is_news=False)

    def _show_all(self, rooms: Sequence[Room]) -> None:
        """A page over an event stream can't say what it shows; it closes the stream while it is hidden."""
        for room in rooms:
            if room.conversation_id == self.tab.room and self._is_visible:
                self._show(room.revision)

    # --- while it waits for the write --------------------------------------------------------

    def value(self) -> ShownRevision | None:
        if self.tab.room is None:
            return None
        return ShownRevision(self.tab.reader.person, self.tab.room, self._written)

    def note_written(self, *, is_stored: bool) -> None:
        """A mark for an older revision than the conversation's is followed by another one."""
