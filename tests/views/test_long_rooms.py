"""A room of thousands of turns costs what one of twenty costs."""

from __future__ import annotations

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from lxml import html

from chat.models import Conversation, Message, Role, Upstream, User
from chat.views.transcript import PAGE_TURNS
from tests.views.conftest import HTMX, Room, address


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
    """Queries, and elements below the transcript but those of the way to earlier turns."""
    with CaptureQueriesContext(connection) as queries:
        page = client.get(address("conversation", room.conversation))
    (turns,) = html.fromstring(page.content.decode()).xpath("//*[@id='turns']")
    return len(queries), len(turns.xpath(".//*"))


def test_a_page_of_two_thousand_turns_costs_what_one_of_twenty_costs(
    as_alice: Client, alice: User, room: Room, upstream: Upstream
) -> None:
    of_alice = Conversation.objects.create(
        team=room.conversation.team, owner=alice, title="Long", upstream=upstream
    )
    long = Room(conversation=of_alice, upstream=upstream)
    fill(room, alice, 20)
    fill(long, alice, 2_000)
    cost_of(as_alice, room)

    assert cost_of(as_alice, long) == cost_of(as_alice, room)


def test_each_further_page_costs_the_same(as_alice: Client, alice: User, room: Room) -> None:
    fill(room, alice, 10 * PAGE_TURNS)
    page = html.fromstring(
        as_alice.get(address("conversation", room.conversation)).content.decode()
    )
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
