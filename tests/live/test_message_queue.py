"""Tabs are told of the queue of messages: each of its changes, with the buttons of its person."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from chat.message_queue import sending
from chat.models import Membership, QueuedMessage, TeamRole, User
from tests.live.conftest import OpenStream, OpenTab, OpenTabs, threads
from tests.live.connection import LivePage
from tests.support.rooms import HTMX, Room, end_run, url_of

pytestmark = pytest.mark.databases(slow=True)


def queues(tab: LivePage) -> list[dict[str, Any]]:
    return tab.said_on("message_queue")


async def until_queue(tab: LivePage, text: str) -> str:
    """The last queue that the tab was sent, once it has this text."""
    await tab.until(lambda tab: queues(tab) and text in queues(tab)[-1]["content"])
    return str(queues(tab)[-1]["content"])


async def test_all_tabs_see_the_queue(
    open_tabs: OpenTabs, as_bob: Client, room: Room, bob: User
) -> None:
    run = await threads.call(room.ask, "First")
    tabs = await open_tabs(message_queue={})
    nobody = [queues(tab) for tab in tabs]

    form = room.form("From Bob", parent=run.message)
    await threads.call(room.send, as_bob, form)
    bobs, alices = [await until_queue(tab, "From Bob") for tab in tabs]
    assert nobody == [[], []]
    assert ("Edit queued message" in bobs, "Edit queued message" in alices) == (True, False)
    assert "Remove queued message" in alices

    queued = await threads.call(QueuedMessage.objects.get)
    await threads.call(
        as_bob.post, url_of("queued_message_edit", queued), {"text": "Better"}, headers=HTMX
    )
    for tab in tabs:
        await until_queue(tab, "Better")

    await threads.call(Membership.objects.filter(user=bob).update, role=TeamRole.VIEWER)
    await tabs[0].until(lambda tab: "Remove queued message" not in queues(tab)[-1]["content"])
    await threads.call(Membership.objects.filter(user=bob).update, role=TeamRole.MEMBER)
    await threads.call(end_run, run)
    await threads.call(sending.advance, room.conversation.pk)
    for tab in tabs:
        await tab.until(lambda tab: "<li" not in queues(tab)[-1]["content"])


async def test_tab_that_shows_the_queue_is_told_nothing(
    open_tab: OpenTab, as_bob: Client, room: Room
) -> None:
    run = await threads.call(room.ask, "First")
    await threads.call(room.send, as_bob, room.form("Next", parent=run.message))
    page = await threads.call(room.page, as_bob)
    (mark,) = page.xpath("//*[@id='queue']/section/@data-mark")
    tab = open_tab()

    tab.hello(room.conversation.public_id, 1, message_queue={"mark": mark})
    await tab.until(lambda tab: tab.heartbeats)
    queued = await threads.call(QueuedMessage.objects.get)
    await threads.call(as_bob.post, url_of("queued_message_remove", queued))
    await tab.until(queues)

    (told,) = queues(tab)
    assert (told["mark"], "<li" in told["content"]) == ("", False)


async def test_page_without_a_websocket_sees_the_queue(
    open_stream: OpenStream, as_bob: Client, room: Room
) -> None:
    run = await threads.call(room.ask, "First")
    tab = open_stream(room=room.conversation.public_id, channels={"message_queue": {}})
    await tab.until_answered()

    await threads.call(room.send, as_bob, room.form("From Bob", parent=run.message))

    await until_queue(tab, "From Bob")
