"""Live channel of presence in the list of conversations: in which of them others are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from chat.live.access_monitor import Room
from chat.live.channels import Channel, Tab
from chat.presence.records import read_lists

# The list is a hint. Each person's rights are checked for each conversation in which somebody is, so a look
# reads a tenth of all tabs.
READ_EVERY_SECONDS = 10.0


class ListPresenceLook:
    def read(self, asked: Sequence[int]) -> Mapping[int, Mapping[str, int]]:
        return read_lists(asked)


class ListPresenceChannel(Channel):
    name = "list-presence"
    look = ListPresenceLook

    def __init__(self, tab: Tab) -> None:
        super().__init__(tab)
        self._told: Mapping[str, int] = {}
        self._read_at: float | None = None

    def start(self, said: msgspec.Raw) -> None:
        self._told = {}
        self.asks = self.tab.reader.person

    def check(self, rooms: Sequence[Room], found: Mapping[str, int] | None) -> None:
        now = asyncio.get_running_loop().time()
        if found is None:
            if self._read_at is not None and now - self._read_at >= READ_EVERY_SECONDS:
                self.asks = self.tab.reader.person
            return
        # Tabs that have connected together, as after a restart, are read at different times from now on.
        spread = self.tab.reader.person % READ_EVERY_SECONDS if self._read_at is None else 0.0
        self.asks, self._read_at = None, now - spread
        if found != self._told:
            self._told = found
            self.send({"here": found}, is_news=False)
