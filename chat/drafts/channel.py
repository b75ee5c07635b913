"""Live channel of drafts: the tab says what is in its composer, and gets what was written in others.

Only the person's own tabs are told, and only while they may read the conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from django.utils import timezone

from chat.drafts.records import (
    MOST_CHARACTERS,
    DraftAsked,
    StoredDraft,
    WrittenDraft,
    next_version,
    place_of,
    read_drafts,
    store_drafts,
)
from chat.live.access_monitor import Room
from chat.live.channels import Channel, Tab
from chat.live.writes import tab_writes

# A number that the database can store, whatever a tab says.
_Version = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Said(msgspec.Struct):
    """``version``: that of the draft from which the page's text derives (0: none). ``text`` is there if it has
    changed, with a ``number`` that the answer repeats. ``has_files``: files are attached on the page."""

    version: _Version = 0
    has_files: bool = False
    text: str | None = None
    number: int = 0


_decoder = msgspec.json.Decoder(_Said)


class DraftLook:
    def read(self, asked: Sequence[DraftAsked]) -> Mapping[DraftAsked, StoredDraft]:
        return read_drafts(asked)


class DraftChannel(Channel):
    name = "draft"
    look = DraftLook
    # A page that opens has its draft before its reader begins to type.
    is_prompt = True

    def __init__(self, tab: Tab) -> None:
        super().__init__(tab)
        self._known = 0
        # The attached files that the tab was told of; nothing if it must be told of them.
        self._files: str | None = ""
        # The text that is to be written, and the one that is being written.
        self._unsaved: _Said | None = None
        self._writing: WrittenDraft | None = None

    def start(self, said: msgspec.Raw) -> None:
        words = _decoder.decode(said)
        self._files = None if words.has_files else ""
        self._know(words.version)

    def receive(self, said: msgspec.Raw) -> None:
        words = _decoder.decode(said)
        if words.text is not None and len(words.text) <= MOST_CHARACTERS:
            self._unsaved = words
            tab_writes.want(store_drafts, self)

    def _know(self, version: int) -> None:
        self._known = version
        self.asks = DraftAsked(self.tab.reader.person, place_of(self.tab.room), version)

    def check(self, rooms: Sequence[Room], found: StoredDraft | None) -> None:
        # A draft that is being written may be found before its tab is told that it is stored.
        if found is not None and found.files != self._files:
            self._files = found.files
            self.send({"files": found.files.split(";") if found.files else []})
        if found is None or self._writing is not None or found.version == self._known:
            return
        self._know(found.version)
        age = max(0, int(timezone.now().timestamp() * 1000) - found.version)
        self.send({"version": found.version, "text": found.text, "age": age})

    # --- while it waits for the write --------------------------------------------------------

    def value(self) -> WrittenDraft | None:
        words = self._unsaved
        if words is None or words.text is None:
            return None
        version = next_version(self._known)
        person, room = self.tab.reader.person, self.tab.room
        self._writing = WrittenDraft(person, room, words.text, self._known, version)
        return self._writing

    def note_written(self, *, is_stored: bool) -> None:
        """A text that was not stored met another one, which the next look finds."""
        written, self._writing = self._writing, None
        words = self._unsaved
        if written is None or words is None:
            return
        if words.text == written.text:
            self._unsaved = None
        if is_stored:
            self._know(written.version if written.text else 0)
            saved = words.number if words.text == written.text else 0
            self.send({"version": self._known, "saved": saved}, is_news=False)
