"""Pages about a conversation, alone and in the panel, and the list of its readers."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from lxml import html

from chat.models import Conversation, Team, User
from tests.support.rooms import Room, url_of

IN_PANEL = {"X-Panel": "1"}


@pytest.fixture
def urls(room: Room) -> list[str]:
    room.turn("Where does it rise?")
    return [
        url_of("conversation_files", room.conversation),
        url_of("conversation_people", room.conversation),
        url_of("run_details", room.runs[0]),
    ]


def test_panel_gets_the_content_without_the_page(as_alice: Client, urls: list[str]) -> None:
    for url in urls:
        page = comparable(as_alice.get(url).content.decode())
        panel = comparable(as_alice.get(url, headers=IN_PANEL).content.decode())

        assert page.startswith("<!doctype html>")
        assert 'id="panel-title"' not in page
        assert 'id="panel-title"' in panel
        assert not {"<html", 'id="sidebar"', "<script"} & set(panel.split())
        main = html.fromstring(page).xpath("//main/div")[0]
        assert html.tostring(main).decode().strip() in normalized(panel)


def comparable(page: str) -> str:
    """Forms have a token of their own in each response, and in the panel they post without leaving
    the conversation."""
    return re.sub(r'(?<=csrfmiddlewaretoken" value=)"\w+"| hx-(?:post|swap|sync)="[^"]*"', "", page)


def normalized(panel: str) -> str:
    return html.tostring(html.fragment_fromstring(panel, create_parent="div")).decode()


def people_of(client: Client, conversation: Conversation) -> dict[str, str]:
    """Each reader's name and right."""
    page = client.get(url_of("conversation_people", conversation))
    rows = html.fromstring(page.content).xpath("//ul[@id='readers']/li")
    names = [row.xpath(".//span[@class='truncate']/text()")[0].strip() for row in rows]
    rights = [row.xpath(".//span[@class='badge']")[0].text_content().strip() for row in rows]
    return dict(zip(names, rights, strict=True))


def test_shared_conversation_is_read_by_the_team(
    as_bob: Client, conversation: Conversation, team: Team, alice: User, viewer: User
) -> None:
    found = people_of(as_bob, conversation)

    assert next(iter(found)) == str(alice)
    assert found[str(viewer)] == "Read-only"
    assert set(found.values()) == {"Manager", "Read-only", "Can reply"}
    assert len(found) == team.memberships.count()


def test_private_conversation_is_read_by_its_owner(
    as_alice: Client, private_conversation: Conversation, alice: User
) -> None:
    assert people_of(as_alice, private_conversation) == {str(alice): "Manager"}


def test_deactivated_person_is_no_reader(
    as_alice: Client, conversation: Conversation, bob: User
) -> None:
    User.objects.filter(pk=bob.pk).update(is_active=False)

    assert str(bob) not in people_of(as_alice, conversation)
