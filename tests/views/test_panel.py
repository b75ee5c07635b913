"""Pages about a room: whole by themselves, without the frame in the panel; who reads the room."""

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.models import Conversation, Team, User
from tests.views.conftest import Room

PANEL = {"X-Panel": "1"}


@pytest.fixture
def addresses(room: Room, alice: User) -> list[str]:
    room.turn(alice, "Where does it rise?")
    conversation = room.conversation
    return [
        reverse("conversation_files", args=[conversation.public_id]),
        reverse("conversation_people", args=[conversation.public_id]),
        reverse("run_details", args=[room.runs[0].public_id]),
    ]


def test_the_panel_gets_what_is_inside_and_a_browser_the_whole_page(
    as_alice: Client, addresses: list[str]
) -> None:
    for address in addresses:
        whole = as_alice.get(address).content.decode()
        inside = as_alice.get(address, headers=PANEL).content.decode()

        assert whole.startswith("<!doctype html>")
        assert 'id="panel-title"' not in whole
        assert 'id="panel-title"' in inside
        assert not {"<html", 'id="sidebar"', "<script"} & set(inside.split())
        main = html.fromstring(whole).xpath("//main/div")[0]
        assert html.tostring(main).decode().strip() in normalised(inside)


def normalised(inside: str) -> str:
    return html.tostring(html.fragment_fromstring(inside, create_parent="div")).decode()


def people_of(client: Client, conversation: Conversation) -> dict[str, str]:
    """Name and what is said of each."""
    page = client.get(reverse("conversation_people", args=[conversation.public_id]))
    rows = html.fromstring(page.content).xpath("//li[@class='person-row']")
    names = [row.xpath(".//span[@class='truncate']/text()")[0].strip() for row in rows]
    said = [row.xpath(".//span[@class='badge']")[0].text_content().strip() for row in rows]
    return dict(zip(names, said, strict=True))


def test_everybody_of_the_team_reads_a_shared_room_its_owner_first(
    as_bob: Client, conversation: Conversation, team: Team, alice: User, viewer: User
) -> None:
    found = people_of(as_bob, conversation)

    assert next(iter(found)) == str(alice)
    assert found[str(viewer)] == "reads"
    assert set(found.values()) == {"reads", "writes"}
    assert len(found) == team.memberships.count()


def test_a_private_room_is_read_by_its_owner_alone(
    as_alice: Client, private_conversation: Conversation, alice: User
) -> None:
    assert people_of(as_alice, private_conversation) == {str(alice): "writes"}


def test_who_was_switched_off_reads_nothing(
    as_alice: Client, conversation: Conversation, bob: User
) -> None:
    User.objects.filter(pk=bob.pk).update(is_active=False)

    assert str(bob) not in people_of(as_alice, conversation)
