"""What a person has read, on all of their devices."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from lxml import html

from chat.models import Conversation, ReadMark, User
from chat.unread.marks import ShownRevision, store_read
from tests.live.conftest import OpenStream, OpenTab, threads
from tests.live.connection import SOON_SECONDS, StreamTab, Tab
from tests.support.rooms import Room, end_run


def unread(client: Client) -> list[str]:
    body = client.get(reverse("conversation_list")).content.decode()
    links = html.fragment_fromstring(body, create_parent=True).xpath("//a[@data-unread]")
    return [link.get("title") for link in links]


def read_now(person: User, room: Conversation, revision: int | None = None) -> None:
    room.refresh_from_db()
    store_read([ShownRevision(person.pk, room.public_id, revision or room.revision)])


@pytest.mark.databases
def test_news_are_unread_for_each_person_until_a_page_showed_them(
    as_alice: Client, as_bob: Client, alice: User, bob: User, conversation: Conversation
) -> None:
    # Also one that is as old as the account.
    User.objects.update(unread_since=conversation.updated_at)
    assert unread(as_bob) == []

    conversation.touch()
    assert (unread(as_alice), unread(as_bob)) == (["Shared"], ["Shared"])

    read_now(bob, conversation)
    assert (unread(as_alice), unread(as_bob)) == (["Shared"], [])

    # The archive, and what else is no news, is not unread.
    conversation.touch_quietly()
    assert unread(as_bob) == []

    conversation.touch()
    assert unread(as_bob) == ["Shared"]


@pytest.mark.databases
def test_mark_never_goes_back_nor_ahead(
    as_bob: Client, bob: User, conversation: Conversation
) -> None:
    old = conversation.touch()
    new = conversation.touch()

    # A page that shows the older revision, and one that claims what nobody has written yet.
    read_now(bob, conversation, old)
    read_now(bob, conversation, new + 1)
    assert unread(as_bob) == ["Shared"]

    read_now(bob, conversation, new)
    read_now(bob, conversation, old)
    assert unread(as_bob) == []
    assert ReadMark.objects.get().revision == new

    # Another tab shows it still after a change that is no news.
    conversation.touch_quietly()
    read_now(bob, conversation, new)
    assert unread(as_bob) == []


@pytest.mark.databases
def test_marks_of_all_tabs_are_one_statement(
    alice: User, bob: User, conversation: Conversation, private_conversation: Conversation
) -> None:
    shown = [
        ShownRevision(person.pk, room.public_id, revision)
        for person in (alice, bob)
        for room in (conversation, private_conversation)
        for revision in (1, 1, 0)
    ]

    with CaptureQueriesContext(connection) as queries:
        store_read([*shown, ShownRevision(10**9, conversation.public_id, 1)])

    assert len(queries) == 1
    assert ReadMark.objects.filter(revision=1).count() == 4


def new_from(client: Client, room: Room) -> str:
    body = client.get(reverse("conversation", args=[room.conversation.public_id])).content.decode()
    return html.fromstring(body).get_element_by_id("room").get("data-new-from", "")


def test_line_is_above_the_first_turn_of_others_that_is_new(
    as_alice: Client, as_bob: Client, bob: User, alice: User, room: Room
) -> None:
    run = room.ask("First")
    end_run(run)
    assert new_from(as_bob, room) == ""
    for person in (alice, bob):
        read_now(person, room.conversation)
    assert new_from(as_bob, room) == ""

    later = room.ask("Second")

    assert new_from(as_bob, room) == later.message.parent.public_id.hex
    assert new_from(as_alice, room) == later.message.public_id.hex


# --- the channel ----------------------------------------------------------------------------------


def told(tab: Tab | StreamTab) -> list[str]:
    return [room for message in tab.said_on("unread") for room in message["read"]]


async def until_true(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(SOON_SECONDS):
        while not await threads.call(holds):
            await asyncio.sleep(0.005)


Marked = Callable[[int], Awaitable[None]]


@pytest.fixture
def until_marked(bob: User, conversation: Conversation) -> Marked:
    async def until_marked(revision: int) -> None:
        rows = ReadMark.objects.filter(user=bob, conversation=conversation, revision=revision)
        await until_true(rows.exists)

    return until_marked


@pytest.mark.usefixtures("lost_notifications")
async def test_visible_page_marks_what_it_shows_and_other_devices_learn_of_it(
    open_tab: OpenTab,
    conversation: Conversation,
    alices_session: str,
    until_marked: Marked,
) -> None:
    first = await threads.call(conversation.touch)
    home, here, alices = open_tab(), open_tab(), open_tab(session=alices_session)
    for tab in (home, alices):
        tab.hello(unread={"age": 60_000})
    here.hello(conversation.public_id, unread={"revision": 0})

    here.say_to(unread={"revision": 10**30})
    here.say_to(unread={"revision": first})
    await until_marked(first)
    await home.until(lambda tab: told(tab) == [conversation.public_id.hex])

    # What comes while the page is hidden is not read.
    here.say_to(unread={"revision": 0})
    second = await threads.call(conversation.touch)
    third = await threads.call(conversation.touch)
    here.say_to(unread={"revision": third})
    await until_marked(third)
    await home.until(lambda tab: len(told(tab)) == 2)
    assert told(alices) == []
    assert not await threads.call(ReadMark.objects.filter(revision=second).exists)


@pytest.mark.usefixtures("lost_notifications")
async def test_page_over_an_event_stream_shows_what_there_is(
    open_stream: OpenStream, conversation: Conversation, until_marked: Marked
) -> None:
    open_stream(room=conversation.public_id, channels={"unread": {"revision": 1}})
    await until_marked(1)

    revision = await threads.call(conversation.touch)

    await until_marked(revision)
