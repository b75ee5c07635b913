"""Live channel of presence: the people who have the tab's conversation open, and who of them is writing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from uuid import UUID

import msgspec
from django.template.loader import render_to_string
from django.utils.translation import get_language, gettext

from chat.live.access_monitor import Room
from chat.live.channels import Channel, Tab
from chat.live.writes import tab_writes
from chat.presence.records import PresentPerson, Sign, read_people, store_signs

# How often an open tab renews its person's row: three times before it would be invalid. The connection itself
# is checked by the server's pings.
RENEW_SECONDS = 20.0
# Avatars in the heading; of more people the rest is counted.
MOST_AVATARS = 4


class _Said(msgspec.Struct):
    """``is_active``: the person has done something on the page. ``is_typing`` only if that has changed, or
    is still so."""

    is_active: bool = False
    is_typing: bool | None = None


_decoder = msgspec.json.Decoder(_Said)


class PresenceLook:
    def read(self, asked: Sequence[UUID]) -> Mapping[UUID, tuple[PresentPerson, ...]]:
        return read_people(asked)


class PresenceChannel(Channel):
    """The channel of one tab. Its connection is the heartbeat: as long as it is open, the row is renewed."""

    name = "presence"
    look = PresenceLook
    is_prompt = True

    def __init__(self, tab: Tab) -> None:
        super().__init__(tab)
        self._others: tuple[PresentPerson, ...] | None = None
        self._renewed_at = -RENEW_SECONDS
        self._unsaid = _Said()
        self._taken = self._unsaid

    def start(self, said: msgspec.Raw) -> None:
        self.asks = self.tab.room
        words = _decoder.decode(said)
        self._unsaid = _Said(
            is_active=self._unsaid.is_active or words.is_active,
            is_typing=self._unsaid.is_typing if words.is_typing is None else words.is_typing,
        )
        self._renew()

    def check(self, rooms: Sequence[Room], found: tuple[PresentPerson, ...] | None) -> None:
        if asyncio.get_running_loop().time() - self._renewed_at >= RENEW_SECONDS:
            self._renew()
        if found is None:
            return
        others = tuple(each for each in found if each.pk != self.tab.reader.person)
        if others != (self._others or ()):
            self._others = others
            language = get_language()
            writers = tuple(each.name for each in others if each.is_typing)
            shown = {"html": _rendered(others, language), "typing": _typing_line(writers)}
            self.send({**shown, "writers": writers}, is_news=False)

    def _renew(self) -> None:
        if self.tab.room is not None:
            self._renewed_at = asyncio.get_running_loop().time()
            tab_writes.want(store_signs, self)

    # --- while it waits for the write --------------------------------------------------------

    def value(self) -> Sign | None:
        if self.tab.room is None:
            return None
        self._taken = taken = self._unsaid
        return Sign(self.tab.reader.person, self.tab.room, taken.is_active, taken.is_typing)

    def note_written(self, *, is_stored: bool) -> None:
        if self._unsaid is self._taken:
            self._unsaid = _Said()


@lru_cache(maxsize=1024)
def _rendered(people: tuple[PresentPerson, ...], language: str | None) -> str:
    shown = people if len(people) <= MOST_AVATARS else people[: MOST_AVATARS - 1]
    context = {"people": people, "shown": shown, "more": len(people) - len(shown)}
    return render_to_string("presence/_people.html", context).strip() if people else ""


def _typing_line(names: Sequence[str]) -> str:
    if not names:
        return ""
    if len(names) == 1:
        return gettext("%(name)s is writing…") % {"name": names[0]}
    if len(names) == 2:
        return gettext("%(first)s and %(second)s are writing…") % {
            "first": names[0],
            "second": names[1],
        }
    return gettext("Several people are writing…")
