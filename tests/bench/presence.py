"""What presence, drafts and read marks cost 500 people in 100 conversations, on both databases.

``make bench BENCH=presence``. Cores of a web process with all their tabs, and of PostgreSQL: the looks that are
made once a second, what the channels of each tab do with them, and a write every two seconds. The same tabs cost
nothing of this without the three channels. Time is simulated, so that a busy machine does not change the figures.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()

import msgspec
from django.core.management import call_command
from django.db import connection

from chat.core.threads import DatabaseThreads
from chat.drafts.channel import DraftChannel
from chat.live import channels, writes
from chat.live.access_monitor import Room
from chat.live.channels import FollowedRun, Reader, Subscriptions, asked_of
from chat.live.writes import TabWrites
from chat.models import Conversation, Membership, Team, User, Visibility
from chat.presence import channel as presence_channel
from chat.presence.channel import PresenceChannel
from chat.presence.list_channel import ListPresenceChannel
from chat.unread.channel import UnreadChannel
from tests.bench.both_databases import measured_on_both

PEOPLE, ROOMS, TEAMS = 500, 100, 10
SECONDS = int(os.environ.get("PRESENCE_SECONDS", "40"))
MOST_WEB_CORES, MOST_POSTGRES_CORES = 0.03, 0.02
CHANNELS = (PresenceChannel, ListPresenceChannel, UnreadChannel, DraftChannel)
# How many people do something each second.
HABITS = {
    "all read": {"active": 8, "typing": 0},
    "a fifth writes": {"active": 8, "typing": 33},
}


def report() -> str:
    lines = [
        f"Presence: {PEOPLE} people in {ROOMS} conversations; bars: {MOST_WEB_CORES} cores of a web process, "
        f"{MOST_POSTGRES_CORES} of PostgreSQL"
    ]
    for name, found in measured_on_both("tests.bench.presence"):
        lines += [
            "",
            f"{name:<18}{'web':>8}{'database':>10}{'looks/s':>9}{'writes/s':>10}{'KB sent/s':>11}",
        ]
        for habit, figures in found.items():
            web, database, looks, written, sent = figures
            lines.append(
                f"  {habit:<16}{web:>8.4f}{database:>10.4f}{looks:>9.1f}{written:>10.2f}{sent:>11.1f}"
            )
    return "\n".join(lines)


# --- in the process of one database -------------------------------------------------------------


@dataclass
class BenchTab:
    """A tab of one person, with its channels."""

    reader: Reader
    room: UUID | None
    viewer_id: str = "bench"
    is_two_way: bool = True
    followed: Mapping[UUID, FollowedRun] = field(default_factory=dict)
    channels: Subscriptions = field(default_factory=Subscriptions)
    sent: int = 0

    def send_text(self, message: str, *, is_news: bool = True) -> None:
        self.sent += len(message)

    def say(self, **said: object) -> None:
        words = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in said.items()}
        self.channels.receive(self, words)


class Site:
    """The tabs of one web process, whose seconds pass as fast as they can."""

    def __init__(self, people: list[int], rooms: list[UUID]) -> None:
        self.threads = DatabaseThreads("bench", size=1)
        self.writes = TabWrites()
        self.writes._threads = self.threads
        self.tabs = [
            BenchTab(Reader(person=person), rooms[number % len(rooms)])
            for number, person in enumerate(people)
        ]
        self.looks = {channel.name: channels.make_look(channel.name) for channel in CHANNELS}
        self.made = self.written = 0
        self._second = 0
        self._chance = random.Random(7)

    def want(self, store: Any, writer: Any) -> None:
        self.writes._wanted.setdefault(store, {})[writer] = None

    async def pass_second(self, *, active: int, typing: int) -> None:
        self._second += 1
        # A tab renews its row every 20 seconds.
        for tab in self.tabs[self._second % 20 :: 20]:
            tab.channels.all[0]._renew()  # type: ignore[attr-defined]
        for tab in self._chance.sample(self.tabs, active):
            tab.say(presence={"is_active": True})
        # People who write say so every three seconds, and their draft every second.
        for tab in self.tabs[: 3 * typing]:
            tab.say(draft={"text": f"A draft {self._second} " * 10, "number": self._second})
        for tab in self.tabs[self._second % 3 : 3 * typing : 3]:
            tab.say(presence={"is_active": True, "is_typing": True})
        # In each conversation something new comes every minute.
        for tab in self._chance.sample(self.tabs, PEOPLE // 60):
            tab.say(unread={"revision": 1})
        for tab in self.tabs[self._second % 10 :: 10]:
            tab.channels.all[1].asks = tab.reader.person
        await self.look()
        if self._second % 2 == 0:
            batches = self.writes._take()
            self.written += bool(batches)
            await self.writes._write(batches)

    async def look(self) -> None:
        asked = asked_of([tab.channels for tab in self.tabs], is_everything=True)
        found = await self.threads.call(self._read, asked)
        for tab in self.tabs:
            assert tab.room is not None
            tab.channels.check([Room(tab.room, 1, may_write=True)], found)

    def _read(self, asked: Mapping[str, list[Any]]) -> dict[str, Mapping[Any, Any]]:
        self.made += len(asked)
        return {name: self.looks[name].read(asks) for name, asks in asked.items()}  # type: ignore[union-attr]


async def _measure(people: list[int], rooms: list[UUID]) -> dict[str, list[float]]:
    site = Site(people, rooms)
    writes.tab_writes.want = site.want  # type: ignore[method-assign]
    presence_channel.RENEW_SECONDS = 1e9
    for tab in site.tabs:
        said = {"presence": {"is_active": True}, "list-presence": {}, "unread": {"revision": 1}}
        tab.say(**said, draft={})
    found = {}
    for habit, doing in HABITS.items():
        for _ in range(4):
            await site.pass_second(**doing)
        site.made = site.written = 0
        sent = sum(tab.sent for tab in site.tabs)
        web, database = time.process_time(), await site.threads.call(_database_seconds)
        for _ in range(SECONDS):
            await site.pass_second(**doing)
        web = time.process_time() - web
        database = await site.threads.call(_database_seconds) - database
        kilobytes = (sum(tab.sent for tab in site.tabs) - sent) / 1000
        totals = (web, database, site.made, site.written, kilobytes)
        found[habit] = [total / SECONDS for total in totals]
    await site.threads.close()
    return found


def _database_seconds() -> float:
    """CPU of the thread's backend; SQLite runs in the process."""
    connection.ensure_connection()
    if connection.vendor != "postgresql":
        return 0.0
    backend: Any = connection.connection
    figures = Path(f"/proc/{backend.info.backend_pid}/schedstat").read_text()
    return int(figures.split()[0]) / 1e9


def measure() -> dict[str, list[float]]:
    call_command("migrate", verbosity=0)
    people = User.objects.bulk_create(
        User(email=f"p{number}@example.org", name=f"Person {number}") for number in range(PEOPLE)
    )
    teams = Team.objects.bulk_create(Team(name=f"Team {number}") for number in range(TEAMS))
    Membership.objects.bulk_create(
        Membership(team=teams[number % TEAMS], user=user) for number, user in enumerate(people)
    )
    rooms = Conversation.objects.bulk_create(
        Conversation(
            team=teams[number % TEAMS],
            owner=people[number],
            title=f"Conversation {number}",
            visibility=Visibility.TEAM,
        )
        for number in range(ROOMS)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return asyncio.run(_measure([user.pk for user in people], [room.public_id for room in rooms]))


if __name__ == "__main__":
    print(json.dumps(measure()))
