"""Drafts that follow their author to other tabs and devices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chat.drafts.records import MOST_CHARACTERS, DraftAsked, WrittenDraft, read_drafts, store_drafts
from chat.files import unsent
from chat.files.actions import new_file
from chat.models import Conversation, Draft, Membership, UnsentFile, User
from tests.live.conftest import OpenTab, threads
from tests.live.connection import SOON_SECONDS, Tab

# --- the rows -------------------------------------------------------------------------------------


@pytest.fixture
def write(bob: User, conversation: Conversation) -> Callable[..., bool]:
    """Writes a draft of Bob's, and returns whether it was stored."""

    def write(text: str, *, base: int, version: int) -> bool:
        draft = WrittenDraft(bob.pk, conversation.public_id, text, base, version)
        return draft in store_drafts([draft])

    return write


def draft_of(person: User) -> tuple[int, str]:
    return next(iter(Draft.objects.filter(user=person).values_list("version", "text")), (0, ""))


@pytest.mark.databases
def test_only_who_knows_a_draft_replaces_it(write: Callable[..., bool], bob: User) -> None:
    assert write("One", base=0, version=10)
    assert write("Two", base=10, version=20)

    assert not write("From another device", base=10, version=30)
    assert not write("From one that knows of none", base=0, version=40)
    assert not write("", base=10, version=50)
    assert draft_of(bob) == (20, "Two")

    assert write("", base=20, version=60)
    assert draft_of(bob) == (0, "")
    # A device that has not heard of that yet goes on with its own text.
    assert write("Three", base=20, version=70)
    assert draft_of(bob) == (70, "Three")


@pytest.mark.databases
def test_drafts_of_all_tabs_are_two_statements(
    alice: User, bob: User, conversation: Conversation
) -> None:
    rooms = conversation.public_id, None
    texts = [
        WrittenDraft(one.pk, room, "x\x00\n'\"", 0, 5) for one in (alice, bob) for room in rooms
    ]
    gone = WrittenDraft(10**9, None, "nobody's", 0, 5)

    with CaptureQueriesContext(connection) as queries:
        stored = store_drafts([*texts, gone, texts[-1]._replace(version=6)])

    assert len(queries) == 1
    assert set(stored) == {*texts[:-1], texts[-1]._replace(version=6)}
    found = read_drafts([DraftAsked(bob.pk, "new", 0), DraftAsked(bob.pk, "new", 6)])
    assert [draft.text for draft in found.values()].count("") == 1
    assert {draft.text for draft in found.values()} == {"", "x\u2400\n'\""}
    with CaptureQueriesContext(connection) as queries:
        store_drafts([WrittenDraft(one.pk, None, "", 5, 7) for one in (alice, bob)])
    assert len(queries) == 1


@pytest.mark.databases
def test_drafts_go_with_their_conversation_and_their_author(
    write: Callable[..., bool], alice: User, bob: User, conversation: Conversation
) -> None:
    write("One", base=0, version=10)
    store_drafts([WrittenDraft(one.pk, None, "New", 0, 10) for one in (alice, bob)])

    conversation.delete()
    assert draft_of(bob) == (10, "New")
    bob.delete()

    assert [draft.user for draft in Draft.objects.all()] == [alice]


@pytest.mark.databases
def test_page_without_websocket_posts_its_draft(
    as_bob: Client, bob: User, conversation: Conversation
) -> None:
    address = reverse("draft_save", args=[conversation.public_id])

    as_bob.post(address, {"text": "One", "version": "0"})
    version, _ = draft_of(bob)
    as_bob.post(address, {"text": "Two", "version": str(version)})
    as_bob.post(address, {"text": "Not this", "version": "7e7"})
    as_bob.post(address, {"text": "x" * (MOST_CHARACTERS + 1), "version": str(draft_of(bob)[0])})
    assert draft_of(bob)[1] == "Two"

    as_bob.post(reverse("draft_save_new"), {"text": "New"})
    assert set(Draft.objects.values_list("place", "text")) == {
        (conversation.public_id.hex, "Two"),
        ("new", "New"),
    }


@pytest.mark.databases
def test_files_of_a_draft_are_read_with_it(
    bob: User, alice: User, conversation: Conversation
) -> None:
    place = conversation.public_id.hex
    asked = DraftAsked(bob.pk, place, 0)
    assert read_drafts([asked])[asked].files == ""
    rows = [unsent.upload(bob, place, new_file(f"{name}.txt", b"x")) for name in "ab"]
    unsent.upload(alice, place, new_file("of-alice.txt", b"x"))
    unsent.upload(bob, "new", new_file("elsewhere.txt", b"x"))

    with CaptureQueriesContext(connection) as queries:
        before = read_drafts([asked])[asked]
    UnsentFile.objects.filter(pk=rows[1].pk).update(pages="1-3, 7", use="tools")
    after = read_drafts([asked])[asked]

    assert len(queries) == 1
    assert before == (0, "", ";".join(f"{row.file.public_id.hex}:content:" for row in rows))
    assert after.files.endswith(f"{rows[1].file.public_id.hex}:tools:1-3, 7")


# --- the channel ----------------------------------------------------------------------------------


def told(tab: Tab) -> list[dict[str, Any]]:
    return tab.said_on("draft")


async def until_text(tab: Tab, text: str) -> int:
    """The version of this text that another tab has written."""
    await tab.until(lambda tab: told(tab) and told(tab)[-1].get("text") == text)
    return int(told(tab)[-1]["version"])


async def until_saved(tab: Tab, number: int) -> int:
    await tab.until(lambda tab: told(tab) and told(tab)[-1].get("saved") == number)
    return int(told(tab)[-1]["version"])


async def until_stored(text: str) -> None:
    async with asyncio.timeout(SOON_SECONDS):
        while not await threads.call(Draft.objects.filter(text=text).exists):
            await asyncio.sleep(0.005)


@pytest.mark.usefixtures("lost_notifications")
async def test_draft_follows_its_author_and_nobody_else(
    open_tab: OpenTab, conversation: Conversation, alices_session: str
) -> None:
    desk, alices = open_tab(), open_tab(session=alices_session)
    for tab in (desk, alices):
        tab.hello(conversation.public_id, draft={})
    desk.say_to(draft={"text": "Hel", "number": 1})
    desk.say_to(draft={"text": "Hello", "number": 2})
    version = await until_saved(desk, 2)

    phone = open_tab()
    phone.hello(conversation.public_id, draft={})
    assert await until_text(phone, "Hello") == version
    phone.say_to(draft={"version": version, "text": "Hello there", "number": 1})
    await until_text(desk, "Hello there")

    # Sent on one device, it goes on the other.
    phone.say_to(draft={"text": "", "number": 2})
    await until_text(desk, "")
    assert told(alices) == []
    assert not await threads.call(Draft.objects.exists)


@pytest.mark.usefixtures("lost_notifications")
async def test_text_that_met_another_one_is_not_stored_but_told_of_it(
    open_tab: OpenTab, conversation: Conversation, bob: User
) -> None:
    desk = open_tab()
    desk.hello(conversation.public_id, draft={})
    await threads.call(
        store_drafts, [WrittenDraft(bob.pk, conversation.public_id, "Elsewhere", 0, 10)]
    )
    await until_text(desk, "Elsewhere")

    desk.say_to(draft={"version": 10, "text": "Mine is newer", "number": 1})
    await until_saved(desk, 1)

    assert (await threads.call(draft_of, bob))[1] == "Mine is newer"


@pytest.mark.usefixtures("lost_notifications")
async def test_draft_of_a_lost_conversation_is_not_told(
    open_tab: OpenTab, conversation: Conversation, bob: User
) -> None:
    desk, home = open_tab(), open_tab()
    desk.hello(conversation.public_id, draft={})
    home.hello(draft={})
    home.say_to(draft={"text": "A new one", "number": 1})
    await until_saved(home, 1)

    await threads.call(lambda: Membership.objects.filter(user=bob).delete())
    await desk.until_closed()
    await threads.call(store_drafts, [WrittenDraft(bob.pk, conversation.public_id, "Lost", 0, 10)])
    phone = open_tab()
    phone.hello(conversation.public_id, draft={})
    await phone.until_closed()

    assert (told(desk), told(phone)) == ([], [])


async def until_files(tab: Tab, *states: str) -> None:
    await tab.until(lambda tab: told(tab) and told(tab)[-1].get("files") == list(states))


@pytest.mark.usefixtures("lost_notifications")
async def test_files_follow_their_author_and_nobody_else(
    open_tab: OpenTab, conversation: Conversation, bob: User, alices_session: str
) -> None:
    desk, alices = open_tab(), open_tab(session=alices_session)
    for tab in (desk, alices):
        tab.hello(conversation.public_id, draft={})
    place, new = conversation.public_id.hex, new_file("a.txt", b"x")

    row = await threads.call(unsent.upload, bob, place, new)
    name = row.file.public_id.hex
    await until_files(desk, f"{name}:content:")
    await threads.call(lambda: unsent.choose(row, pages="", use="tools"))
    await until_files(desk, f"{name}:tools:")
    phone = open_tab()
    phone.hello(conversation.public_id, draft={})
    await until_files(phone, f"{name}:tools:")
    await threads.call(unsent.remove, row)
    await until_files(desk)
    await until_files(phone)

    # A page that was restored still shows them.
    late = open_tab()
    late.hello(conversation.public_id, draft={"has_files": True})
    await until_files(late)
    assert told(alices) == []
