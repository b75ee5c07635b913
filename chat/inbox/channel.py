"""Live channel of the inbox: how much waits for the tab's person, and what has just come."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from uuid import UUID

import msgspec

from chat.inbox.entries import Entry, read_entries
from chat.live.access_monitor import Room
from chat.live.channels import Channel, Tab

# The rights of each person are checked for each entry, so a look reads half of all tabs. One that lists the
# entries asks in each look.
READ_EVERY_SECONDS = 2.0
# Notifications that one message may ask for.
MOST_NEWS = 5


class InboxLook:
    def read(self, asked: Sequence[int]) -> Mapping[int, tuple[Entry, ...]]:
        return read_entries(set(asked))


class _Shown(msgspec.Struct):
    """``version`` is that of the list on the page, if it has one."""

    version: str = ""


_decoder = msgspec.json.Decoder(_Shown)


class InboxChannel(Channel):
    name = "inbox"
    look = InboxLook

    def __init__(self, tab: Tab) -> None:
        super().__init__(tab)
        self._lists = False
        self._told: str | None = None
        # The entries that were there when the connection began, or were told of since.
        self._known: frozenset[tuple[str, UUID]] | None = None
        self._read_at = 0.0

    def start(self, said: msgspec.Raw) -> None:
        self._lists = bool(_decoder.decode(said).version)
        self._told = None
        self.asks = self.tab.reader.person

    def check(self, rooms: Sequence[Room], found: tuple[Entry, ...] | None) -> None:
        now = asyncio.get_running_loop().time()
        if found is None:
            if now - self._read_at >= READ_EVERY_SECONDS:
                self.asks = self.tab.reader.person
            return
        self._read_at = now
        if not self._lists:
            self.asks = None
        version = version_of(found)
        if version == self._told:
            return
        self._told = version
        news = self._news(found)
        self.send({"count": len(found), "version": version, "news": news}, is_news=bool(news))

    def _news(self, found: Sequence[Entry]) -> list[Mapping[str, str]]:
        known = self._known
        keys = frozenset((each.kind, each.key) for each in found)
        self._known = keys if known is None else known | keys
        if known is None:
            return []
        fresh = [each for each in found if (each.kind, each.key) not in known]
        return [_notice(each) for each in fresh if each.source.notice][:MOST_NEWS]


def _notice(entry: Entry) -> Mapping[str, str]:
    """The text of a notification: its kind and the conversation's title, which the person may read."""
    return {
        "id": f"{entry.kind}-{entry.key.hex}",
        "kind": entry.kind,
        "text": str(entry.source.notice),
        "title": entry.title,
        "address": entry.address,
    }


def version_of(entries: Sequence[Entry]) -> str:
    """Changes with what the list of the inbox shows of the entries."""
    digest = blake2b(digest_size=8)
    for each in entries:
        digest.update(f"{each.kind}{each.key.hex}{each.title}{each.actor}\0".encode())
    return digest.hexdigest()
