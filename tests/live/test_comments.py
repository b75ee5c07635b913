"""Tabs are told of comments: each change of them, and nothing else."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.test import Client

from chat.comments import actions
from chat.models import Comment, User
from tests.live.conftest import OpenStream, OpenTab, OpenTabs, threads
from tests.live.connection import LivePage
from tests.support.rooms import Room, url_of

pytestmark = pytest.mark.databases(slow=True)


def told(tab: LivePage) -> list[dict[str, Any]]:
    return tab.said_on("comments")


async def test_all_tabs_are_told_of_each_change(
    open_tabs: OpenTabs, as_bob: Client, room: Room, bob: User
) -> None:
    answer = await threads.call(room.turn, "First")
    tabs = await open_tabs(comments={})
    before = [told(tab) for tab in tabs]

    form = {"text": "Which one?", "key": str(uuid.uuid4())}
    await threads.call(as_bob.post, url_of("message_comments", answer), form)
    for tab in tabs:
        await tab.until(lambda tab: told(tab))
    thread = await threads.call(Comment.objects.get)
    await threads.call(actions.resolve, bob, thread)
    for tab in tabs:
        await tab.until(lambda tab: told(tab)[-1]["threads"][0]["isResolved"])
    await threads.call(actions.delete, thread)
    for tab in tabs:
        await tab.until(lambda tab: told(tab)[-1]["threads"] == [])

    assert before == [[], []]
    (first,) = told(tabs[0])[0]["threads"]
    assert (first["turn"], first["comments"][0]["by"]) == (answer.public_id.hex, "Bob")
    assert [each["version"] for each in told(tabs[0])] == [1, 2, 3]


async def test_tab_that_has_them_is_told_nothing(open_tab: OpenTab, room: Room, bob: User) -> None:
    answer = await threads.call(room.turn, "First")
    begin = lambda text: actions.begin_thread(bob, answer, text=text, key=uuid.uuid4())  # noqa: E731
    await threads.call(begin, "One")
    tab = open_tab()

    tab.hello(room.conversation.public_id, 1, comments={"version": 1})
    await tab.until(lambda tab: tab.heartbeats)
    await threads.call(begin, "Two")
    await tab.until(told)

    (message,) = told(tab)
    assert (message["version"], len(message["threads"])) == (2, 2)


async def test_page_without_a_websocket_is_told(
    open_stream: OpenStream, room: Room, bob: User
) -> None:
    answer = await threads.call(room.turn, "First")
    tab = open_stream(room=room.conversation.public_id, channels={"comments": {}})
    await tab.until_answered()

    await threads.call(lambda: actions.begin_thread(bob, answer, text="One", key=uuid.uuid4()))

    await tab.until(told)
