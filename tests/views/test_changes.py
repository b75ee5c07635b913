from __future__ import annotations

import pytest
from django.http import HttpResponse
from django.test import Client

from chat.actions import conversations as verbs
from chat.models import Membership, Message, TeamRole, User
from chat.views.transcript import PAGE_TURNS
from tests.views.conftest import HTMX, Patches, Room, address, position


def changes(client: Client, room: Room, headers: dict[str, str]) -> HttpResponse:
    return client.get(address("conversation_changes", room.conversation), headers=headers)


def test_a_page_that_is_up_to_date_gets_no_turns(as_alice: Client, room: Room, alice: User) -> None:
    answer = room.turn(alice, "First")

    patches = Patches(changes(as_alice, room, position(answer.parent, answer, room.conversation)))

    assert patches.turns == []
    assert patches.removed == []
    assert patches.to("#strip") == []


def test_a_colleagues_turn_is_appended(as_bob: Client, room: Room, alice: User) -> None:
    first = room.turn(alice, "First")
    headers = position(first.parent, first, room.conversation)
    second = room.turn(alice, "Second", first)

    patches = Patches(changes(as_bob, room, headers))

    assert patches.turns == [second.parent.public_id.hex, second.public_id.hex]
    assert [swap for swap, _ in patches.to("#turns")] == ["beforeend"]


def test_a_live_turn_comes_with_its_cursor_and_its_phase(
    as_bob: Client, room: Room, alice: User
) -> None:
    first = room.turn(alice, "First")
    headers = position(first.parent, first, room.conversation)
    run = room.ask(alice, "Second", first)

    response = changes(as_bob, room, headers)

    body = response.content.decode()
    assert f'data-run="{run.public_id.hex}" data-seq="0"' in body
    assert "data-live" in body
    assert f'id="p{run.public_id.hex}"' in body
    assert f'action="{address("run_stop", run)}"' in body


def test_the_revision_comes_with_the_changes(as_alice: Client, room: Room, alice: User) -> None:
    room.turn(alice, "First")
    room.conversation.refresh_from_db()

    response = changes(as_alice, room, HTMX)

    assert response.headers["X-Room-Revision"] == str(room.conversation.revision)


@pytest.mark.parametrize(
    "header",
    ["", "nonsense", "{}", "[]", '{"tail": 7}', '{"tail": "00"}', "{" * 9000],
    ids=["none", "nonsense", "empty", "list", "number", "unknown", "long"],
)
def test_a_page_that_does_not_say_what_it_shows_gets_everything(
    as_alice: Client, room: Room, alice: User, header: str
) -> None:
    answer = room.turn(alice, "First")

    patches = Patches(changes(as_alice, room, {**HTMX, "X-Room-Position": header}))

    assert patches.turns == [answer.parent.public_id.hex, answer.public_id.hex]
    assert [swap for swap, _ in patches.to("#turns")] == ["innerHTML"]


def test_a_page_on_a_branch_that_nobody_looks_at_any_more_gets_everything(
    as_bob: Client, room: Room, alice: User
) -> None:
    one = room.turn(alice, "One")
    headers = position(one.parent, one, room.conversation)
    two = room.turn(alice, "Two")

    patches = Patches(changes(as_bob, room, headers))

    assert patches.turns == [two.parent.public_id.hex, two.public_id.hex]
    assert [swap for swap, _ in patches.to("#turns")] == ["innerHTML"]


def test_a_page_that_begins_later_than_the_fork_gets_everything(
    as_bob: Client, room: Room, alice: User
) -> None:
    first = room.turn(alice, "First")
    second = room.turn(alice, "Second", first)
    third = room.turn(alice, "Third", second)
    headers = position(third.parent, third, room.conversation)
    other = room.turn(alice, "Other", first)

    patches = Patches(changes(as_bob, room, headers))

    assert patches.turns[-1] == other.public_id.hex
    assert [swap for swap, _ in patches.to("#turns")] == ["innerHTML"]


def test_a_new_title_reaches_the_heading_and_the_list(
    as_bob: Client, room: Room, alice: User
) -> None:
    answer = room.turn(alice, "First")
    headers = position(answer.parent, answer, room.conversation)
    verbs.rename(room.conversation, "Springs <i>")

    patches = Patches(changes(as_bob, room, headers))

    assert "Springs <i>" in patches.to("#room-head")[0][1]
    assert "Springs <i>" in patches.to("#conversations")[0][1]


def test_who_becomes_a_viewer_loses_the_composer(
    as_bob: Client, room: Room, alice: User, bob: User
) -> None:
    answer = room.turn(alice, "First")
    headers = position(answer.parent, answer, room.conversation)
    Membership.objects.filter(user=bob).update(role=TeamRole.VIEWER)

    patches = Patches(changes(as_bob, room, headers))

    assert "you can read along" in patches.to("#composer-slot")[0][1]
    assert patches.tree.xpath("//textarea") == []


def test_who_is_no_longer_a_viewer_gets_the_composer(
    as_viewer: Client, room: Room, alice: User, viewer: User
) -> None:
    answer = room.turn(alice, "First")
    headers = position(answer.parent, answer, room.conversation, writes=False)
    Membership.objects.filter(user=viewer).update(role=TeamRole.MEMBER)

    patches = Patches(changes(as_viewer, room, headers))

    assert len(patches.tree.xpath("//textarea[@id='text']")) == 1


def test_the_heading_that_is_shown_is_not_sent_again(
    as_alice: Client, room: Room, alice: User
) -> None:
    answer = room.turn(alice, "First")
    page = as_alice.get(address("conversation", room.conversation))
    mark = page.context["head_mark"]

    patches = Patches(
        changes(as_alice, room, position(answer.parent, answer, room.conversation, head=mark))
    )

    assert patches.to("#room-head") == []


def test_a_reader_who_was_away_for_longer_than_a_page_gets_a_page(
    as_bob: Client, room: Room, alice: User
) -> None:
    answer = room.turn(alice, "First")
    headers = position(answer.parent, answer, room.conversation)
    for number in range(PAGE_TURNS // 2 + 1):
        answer = room.turn(alice, f"Further {number}", answer)

    patches = Patches(changes(as_bob, room, headers))

    assert len(patches.turns) == PAGE_TURNS
    assert patches.to("#earlier")


def test_every_target_is_on_the_page(as_alice: Client, room: Room, alice: User) -> None:
    from lxml import html

    answer = room.turn(alice, "First")
    page = html.fromstring(
        as_alice.get(address("conversation", room.conversation)).content.decode()
    )
    ids = {f"#{element.get('id')}" for element in page.xpath("//*[@id]")}
    headers = position(answer.parent, answer, room.conversation, revision=0, head="old")
    room.ask(alice, "Second", answer)

    patches = Patches(changes(as_alice, room, headers))

    assert {partial.get("hx-target") for partial in patches.partials} <= ids
    assert Message.objects.count() == 4
