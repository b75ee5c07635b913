"""An administrator gives a reason, and the people of the conversation are told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from chat.access_reasons.actions import open_conversation
from chat.conversations.page_updates import PageReader, render_updates
from chat.models import AccessReason, AuditEvent, Conversation, Run, Upstream, User
from tests.administration.conversations import answer, ask
from tests.administration.pages import row_url, text_of
from tests.support.reasons import REASON
from tests.support.rooms import Room
from tests.support.rooms import text_of as words_of

SignIn = Callable[[User], Client]
LINE = f"Opened by an administrator: {REASON}"
OPENED = "conversation.opened_by_administrator"


@pytest.fixture
def private_run(private_conversation: Conversation, alice: User, upstream: Upstream) -> Run:
    question = ask(private_conversation, alice, "Where is the spring?")
    return answer(question, "Below the mill.", upstream=upstream)


def address(conversation: Conversation) -> str:
    return reverse("administrator_open", args=[conversation.public_id])


def lines_on(client: Client, room: Room) -> list[tuple[str, str]]:
    """The turn below which each line stands, and its words without the time."""
    found = room.page(client).xpath("//p[contains(@class, 'opened')]")
    return [
        (line.xpath("ancestor::article")[0].get("data-turn"), words_of(line.xpath("span")[0]))
        for line in found
    ]


def test_reason_opens_the_page_that_was_asked_for(
    ada: Client, administrator: User, alice: User, private_run: Run
) -> None:
    room, url = private_run.conversation, row_url(private_run)
    before = room.updated_at

    response = ada.post(address(room), {"reason": f" {REASON} ", "next": url})

    assert response.headers["Location"] == url
    assert "mill" in text_of(ada, url)
    opened, read = AuditEvent.objects.order_by("pk")
    assert (opened.verb, opened.actor, opened.subject) == (OPENED, administrator, alice)
    assert opened.target == f"conversation {room.public_id}"
    assert opened.detail == {"visibility": "private", "reason": REASON}
    assert read.verb == "conversation.read_by_administrator"
    assert room.title not in json.dumps([opened.target, opened.detail, read.target, read.detail])
    # No news in anybody's list.
    room.refresh_from_db()
    assert room.updated_at == before


@pytest.mark.parametrize("reason", ["", "  ", "x" * 301, "a\x00b"])
def test_reason_must_be_one(ada: Client, private_run: Run, reason: str) -> None:
    response = ada.post(address(private_run.conversation), {"reason": reason})

    assert response.status_code == 422
    assert "field-error" in response.content.decode()
    assert not AuditEvent.objects.exists()
    assert not AccessReason.objects.exists()


def test_second_reason_within_the_hour_changes_nothing(ada: Client, private_run: Run) -> None:
    for _ in range(2):
        assert ada.post(address(private_run.conversation), {"reason": REASON}).status_code == 302

    assert AccessReason.objects.count() == AuditEvent.objects.filter(verb=OPENED).count() == 1


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/", "javascript:x"])
def test_reason_leads_to_this_site_only(ada: Client, private_run: Run, target: str) -> None:
    room = private_run.conversation

    response = ada.post(address(room), {"reason": REASON, "next": target})

    assert response.headers["Location"] == row_url(room)


def test_line_stands_below_the_last_turn_of_that_time(
    room: Room, administrator: User, as_alice: Client, as_bob: Client, signed_in: SignIn
) -> None:
    first = room.turn("First")
    open_conversation(administrator, room.conversation, REASON)
    second = room.turn("Second", first)

    for client in (as_alice, as_bob, signed_in(room.conversation.owner)):
        (line,) = lines_on(client, room)
        assert line[0] == first.public_id.hex
        assert line[1].startswith(LINE)
    assert second.public_id.hex in room.source(as_alice)


def test_reason_is_text(room: Room, administrator: User, as_alice: Client) -> None:
    room.turn("First")
    open_conversation(administrator, room.conversation, "<script>alert(1)</script>")

    page = room.source(as_alice)

    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_line_comes_to_open_pages(room: Room, administrator: User, alice: User) -> None:
    """As pages get whatever else has changed: rendered once, from what the page says that it shows."""
    first = room.turn("First")
    state = room.position(first)["X-Room-Position"].encode()
    reader = PageReader(alice.pk, state)

    open_conversation(administrator, room.conversation, REASON)
    update = render_updates(room.conversation.public_id, [reader])[reader]

    assert update is not None
    assert re.findall(r'hx-target="([^"]+)"', update.html)[0] == f"#a{first.public_id.hex}"
    assert update.html.count("Opened by an administrator") == 1
    assert REASON in update.html
    # Who has it gets it no more.
    again = PageReader(alice.pk, room.position(first)["X-Room-Position"].encode())
    assert "Opened by" not in render_updates(room.conversation.public_id, [again])[again].html  # type: ignore[union-attr]


def test_line_moves_with_the_branch(room: Room, administrator: User, as_alice: Client) -> None:
    """It was below a turn that another version has replaced: then it is below the turn before."""
    first = room.turn("First")
    old = room.turn("Old", first)
    open_conversation(administrator, room.conversation, REASON)
    headers = room.position(old, first.parent)
    new = room.turn("New", first)

    patches = room.changes(as_alice, headers)

    assert [turn for turn, _ in lines_on(as_alice, room)] == [first.public_id.hex]
    assert patches.turns == [new.parent.public_id.hex, new.public_id.hex]
    assert LINE in patches.text(f"#a{first.public_id.hex}")


def test_only_people_of_the_conversation_are_told(
    room: Room, administrator: User, as_alice: Client, ada: Client
) -> None:
    room.turn("First")
    open_conversation(administrator, room.conversation, REASON)

    assert lines_on(as_alice, room)
    assert ada.get(room.url).status_code == 404


def test_sharing_says_who_may_read(as_alice: Client, room: Room) -> None:
    url = reverse("conversation_people", args=[room.conversation.public_id])
    Conversation.objects.update(visibility="private")

    page = as_alice.get(url).content.decode()

    assert "Administrators can read it, too. Administrator access is recorded." in page
    assert "Only you can read" not in page
