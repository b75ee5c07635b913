"""A page costs the same in a conversation of thousands of turns."""

from __future__ import annotations

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from lxml import html

from chat.conversations.transcript import PAGE_TURNS
from chat.models import Conversation, Message, Role, Upstream, User
from tests.support.rooms import HTMX, Room


def fill(room: Room, author: User, count: int) -> None:
    first = (Message.objects.order_by("-pk").values_list("pk", flat=True).first() or 0) + 1
    Message.objects.bulk_create(
        Message(
            pk=first + at,
            conversation=room.conversation,
            parent_id=first + at - 1 if at else None,
            role=Role.USER,
            author=author,
            text=f"Turn {at + 1}",
        )
        for at in range(count)
    )


def cost_of(client: Client, room: Room) -> tuple[int, int]:
    """Queries, and elements of the transcript."""
    with CaptureQueriesContext(connection) as queries:
        page = room.page(client)
    (turns,) = page.xpath("//*[@id='turns']")
    return len(queries), len(turns.xpath(".//*"))


def test_first_page_of_a_long_conversation_costs_the_same(
    as_alice: Client, alice: User, room: Room, upstream: Upstream
) -> None:
    conversation = Conversation.objects.create(
        team=room.conversation.team, owner=alice, title="Long", upstream=upstream
    )
    long = Room(conversation=conversation, upstream=upstream)
    fill(room, alice, 20)
    fill(long, alice, 2_000)
    # The first request fills caches.
    cost_of(as_alice, room)

    assert cost_of(as_alice, long) == cost_of(as_alice, room)


def test_each_further_page_costs_the_same(as_alice: Client, alice: User, room: Room) -> None:
    fill(room, alice, 10 * PAGE_TURNS)
    page = room.page(as_alice)
    seen = [len(page.xpath("//article"))]
    queries: list[int] = []

    while link := page.xpath("//*[contains(@class, 'earlier')]/@href"):
        with CaptureQueriesContext(connection) as captured:
            answer = as_alice.get(link[0], headers=HTMX)
        page = html.fragment_fromstring(answer.content.decode(), create_parent=True)
        seen.append(len(page.xpath("//article")))
        queries.append(len(captured))

    assert seen == [PAGE_TURNS] * 10
    assert len(set(queries)) == 1
