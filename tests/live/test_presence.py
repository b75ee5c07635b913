"""Presence: who is here, idle, gone or writing, and who is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from chat.drafts.channel import DraftLook
from chat.drafts.records import DraftAsked
from chat.live.viewer import CLOSE_ACCESS
from chat.live.writes import tab_writes
from chat.models import Conversation, Membership, Presence, User
from chat.presence import list_channel, records
from chat.presence.channel import PresenceLook
from chat.presence.list_channel import ListPresenceLook
from chat.presence.records import Sign, delete_old, read_lists, read_people, store_signs
from chat.unread.channel import UnreadLook
from chat.unread.marks import MarksAsked
from tests.live.conftest import OpenStream, OpenTab, threads
from tests.live.connection import SOON_SECONDS, StreamTab, Tab

NOON = datetime(2026, 3, 18, 12, tzinfo=timezone.get_default_timezone())


class Clock:
    """The clock of the rows of presence."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = NOON
        monkeypatch.setattr(records, "timezone", self)
        monkeypatch.setattr(list_channel, "READ_EVERY_SECONDS", 0.01)

    def now(self) -> datetime:
        return self.time

    def pass_seconds(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


# --- the rows -------------------------------------------------------------------------------------


def states(room: Conversation) -> list[str]:
    found = read_people([room.public_id])[room.public_id]
    return [
        f"{person}{', idle' * person.is_idle}{', writing' * person.is_typing}" for person in found
    ]


# The seconds after which a tab says something, and what others see then and after 59 seconds more without
# a word from it.
LIVES: list[tuple[str, list[tuple[float, Sign | None]], str]] = [
    ("comes", [], "Bob"),
    ("59 seconds without a tab", [(59, None)], "Bob"),
    ("60 seconds without a tab", [(60, None)], ""),
    ("299 seconds without a sign", [(50, "open")] * 5 + [(49, "open")], "Bob"),
    ("300 seconds without a sign", [(50, "open")] * 6, "Bob, idle"),
    ("a sign after idleness", [(50, "open")] * 6 + [(1, "active")], "Bob"),
    ("writes", [(1, "typing")], "Bob, writing"),
    ("wrote six seconds ago", [(1, "typing"), (6, None)], "Bob, writing"),
    ("wrote seven seconds ago", [(1, "typing"), (7, None)], "Bob"),
    ("has sent it", [(1, "typing"), (1, "sent")], "Bob"),
    ("another tab of the one who writes", [(1, "typing"), (1, "open")], "Bob, writing"),
]


@pytest.mark.databases
def test_idle_and_gone_by_the_clock(
    conversation: Conversation, bob: User, clock: Clock, subtests: pytest.Subtests
) -> None:
    signs = {
        "open": Sign(bob.pk, conversation.public_id),
        "active": Sign(bob.pk, conversation.public_id, is_active=True),
        "typing": Sign(bob.pk, conversation.public_id, is_active=True, is_typing=True),
        "sent": Sign(bob.pk, conversation.public_id, is_typing=False),
    }
    for label, steps, expected in LIVES:
        Presence.objects.all().delete()
        store_signs([signs["active"]])
        for seconds, sign in steps:
            clock.pass_seconds(seconds)
            if sign is not None:
                store_signs([signs[sign]])

        with subtests.test(label):
            assert ", ".join(states(conversation)) == expected


@pytest.mark.databases
def test_signs_of_all_tabs_are_one_statement_and_one_row_for_each_person(
    conversation: Conversation, private_conversation: Conversation, alice: User, bob: User
) -> None:
    rooms = conversation.public_id, private_conversation.public_id
    signs = [Sign(person.pk, room) for person in (alice, bob) for room in rooms for _ in range(5)]
    gone = [Sign(10**9, rooms[0]), Sign(alice.pk, UUID(int=1))]

    with CaptureQueriesContext(
        connection,
    ) as queries:
        store_signs([*signs, signs[0]._replace(is_typing=True), *gone])

    assert len(queries) == 1
    assert Presence.objects.count() == 4
    assert states(conversation) == ["Alice, writing", "Bob, idle"]


@pytest.mark.databases
def test_looks_are_one_statement_each_for_any_number_of_tabs(
    conversation: Conversation, alice: User, bob: User
) -> None:
    room = conversation.public_id
    people = [alice.pk, bob.pk, *range(1000, 1050)]
    looks: list[tuple[Any, Callable[[int], list[Any]]]] = [
        (ListPresenceLook(), lambda count: people[:count]),
        (PresenceLook(), lambda count: [room, *map(UUID, map(hex_of, range(count)))]),
        (DraftLook(), lambda count: [DraftAsked(one, room.hex, 0) for one in people[:count]]),
        (UnreadLook(), lambda count: [MarksAsked(one, NOON) for one in people[:count]]),
    ]
    for look, ask in looks:
        for count in (1, 50):
            asked = ask(count)
            with CaptureQueriesContext(connection) as queries:
                found = look.read(asked)

            assert len(queries) == 1
            assert set(found) == set(asked)


def hex_of(number: int) -> str:
    return f"{number:032x}"


@pytest.mark.databases
def test_old_rows_are_deleted(conversation: Conversation, bob: User, clock: Clock) -> None:
    store_signs([Sign(bob.pk, conversation.public_id)])
    clock.pass_seconds(599)
    delete_old()
    assert Presence.objects.exists()

    clock.pass_seconds(2)
    delete_old()

    assert not Presence.objects.exists()


@pytest.mark.databases
def test_invisible_and_disabled_people_are_not_shown(
    conversation: Conversation, alice: User, bob: User, as_bob: Client
) -> None:
    store_signs([Sign(person.pk, conversation.public_id, True, True) for person in (alice, bob)])

    as_bob.post(reverse("invisible"), {"is_invisible": "on"})
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert states(conversation) == []

    as_bob.post(reverse("invisible"))
    assert states(conversation) == ["Bob, writing"]


@pytest.mark.databases
def test_page_without_websocket_posts_its_signs(conversation: Conversation, as_bob: Client) -> None:
    address = reverse("presence_sign", args=[conversation.public_id])

    as_bob.post(address, {"typing": "1"})
    assert states(conversation) == ["Bob, writing"]

    as_bob.post(address, {"typing": "0"})
    assert states(conversation) == ["Bob"]


# --- the channel ----------------------------------------------------------------------------------


def shown(tab: Tab | StreamTab) -> tuple[list[str], str]:
    """The names in the list, and the line above the composer."""
    told = tab.said_on("presence")
    if not told:
        return [], ""
    names = [name for name in ("Alice", "Bob") if f">{name}</span>" in told[-1]["html"]]
    return names, told[-1]["typing"]


async def until_shown(tab: Tab | StreamTab, *names: str, typing: str = "") -> None:
    await tab.until(lambda tab: shown(tab) == ([*names], typing))


async def until_rows(**rows: object) -> None:
    async with asyncio.timeout(SOON_SECONDS):
        while not await threads.call(Presence.objects.filter(**rows).exists):
            await asyncio.sleep(0.005)


async def until_written() -> None:
    """Waits for the writes of all tabs: each gets the time of the clock at which it is made."""
    async with asyncio.timeout(SOON_SECONDS):
        while not tab_writes.is_idle:
            await asyncio.sleep(0.005)


@pytest.mark.usefixtures("lost_notifications")
async def test_tabs_show_the_others_over_websocket_and_event_stream(
    open_tab: OpenTab,
    open_stream: OpenStream,
    conversation: Conversation,
    alices_session: str,
) -> None:
    bobs = open_stream(room=conversation.public_id, channels={"presence": {"is_active": True}})
    alices = open_tab(session=alices_session)
    alices.hello(conversation.public_id, presence={"is_active": True})

    await until_shown(alices, "Bob")
    await until_shown(bobs, "Alice")


@pytest.mark.usefixtures("lost_notifications")
async def test_writing_is_shown_to_others_until_it_ends(
    open_tab: OpenTab, conversation: Conversation, alices_session: str
) -> None:
    bobs, alices = open_tab(), open_tab(session=alices_session)
    for tab in (bobs, alices):
        tab.hello(conversation.public_id, presence={"is_active": True})
    await until_shown(alices, "Bob")

    bobs.say_to(presence={"is_active": True, "is_typing": True})
    await until_shown(alices, "Bob", typing="Bob is writing…")
    assert shown(bobs) == (["Alice"], "")

    bobs.say_to(presence={"is_typing": False})
    await until_shown(alices, "Bob")


@pytest.mark.usefixtures("lost_notifications")
async def test_person_is_gone_a_minute_after_their_last_tab(
    open_tab: OpenTab,
    conversation: Conversation,
    bob: User,
    alices_session: str,
    clock: Clock,
) -> None:
    bobs, another, alices = open_tab(), open_tab(), open_tab(session=alices_session)
    for tab in (bobs, another, alices):
        tab.hello(conversation.public_id, presence={"is_active": True})
    await until_shown(alices, "Bob")
    await until_shown(another, "Alice")
    await until_written()

    await bobs.close()
    clock.pass_seconds(59)
    another.say_to(presence={})
    await until_rows(seen_at=clock.time, user=bob)
    await until_written()
    # The other tab is killed, which no message tells.
    another.task.cancel()
    clock.pass_seconds(59)
    alices.say_to(presence={})
    await until_rows(seen_at=clock.time)
    assert shown(alices) == (["Bob"], "")
    clock.pass_seconds(1)

    await until_shown(alices)


@pytest.mark.databases
def test_list_shows_where_others_are_to_those_who_may_read(
    conversation: Conversation,
    private_conversation: Conversation,
    alice: User,
    bob: User,
    charlie: User,
) -> None:
    rooms = conversation, private_conversation
    store_signs([Sign(alice.pk, room.public_id) for room in rooms])
    people = [alice.pk, bob.pk, charlie.pk]
    shared = conversation.public_id.hex

    assert read_lists(people) == {alice.pk: {}, bob.pk: {shared: 1}, charlie.pk: {}}

    store_signs([Sign(bob.pk, conversation.public_id)])
    assert read_lists(people)[alice.pk] == {shared: 1}


@pytest.mark.usefixtures("lost_notifications")
async def test_list_of_a_tab_follows_who_comes_and_goes(
    open_tab: OpenTab, conversation: Conversation, alices_session: str, clock: Clock
) -> None:
    home = open_tab()
    home.hello(**{"list-presence": {}})
    alices = open_tab(session=alices_session)
    alices.hello(conversation.public_id, presence={})
    await home.until(lambda tab: here(tab) == [{conversation.public_id.hex: 1}])

    clock.pass_seconds(60)

    await home.until(lambda tab: here(tab)[1:] == [{}])


def here(tab: Tab) -> list[dict[str, int]]:
    return [one["here"] for one in tab.said_on("list-presence")]


@pytest.mark.usefixtures("lost_notifications")
async def test_nothing_is_told_or_stored_without_access(
    open_tab: OpenTab,
    conversation: Conversation,
    bob: User,
    alices_session: str,
    charlies_session: str,
) -> None:
    alices, bobs, charlies = (
        open_tab(session=alices_session),
        open_tab(),
        open_tab(session=charlies_session),
    )
    for tab in (alices, bobs, charlies):
        tab.hello(conversation.public_id, presence={"is_active": True})
    await until_shown(bobs, "Alice")
    await charlies.until_closed()
    assert (charlies.close_code, shown(charlies)) == (CLOSE_ACCESS, ([], ""))

    await threads.call(lambda: Membership.objects.filter(user=bob).delete())
    await bobs.until_closed()
    heard = len(bobs.said)
    bobs.say_to(presence={"is_typing": True})
    alices.say_to(presence={"is_typing": True})
    await until_rows(typed_at__isnull=False)

    assert len(bobs.said) == heard
    assert not await threads.call(Presence.objects.filter(user=bob, typed_at__isnull=False).exists)
