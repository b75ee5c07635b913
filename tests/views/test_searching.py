"""Finding a conversation by its title."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.models import Conversation, Team, User, Visibility
from chat.views.searching import FOUND_LINES


def page(client: Client, query: str, *, fragment: bool = True) -> html.HtmlElement:
    headers = {"HX-Request": "true"} if fragment else {}
    answer = client.get(reverse("conversation_search"), {"q": query}, headers=headers)
    assert answer.status_code == 200
    return html.fragment_fromstring(answer.content.decode(), create_parent=True)


def found(client: Client, query: str) -> list[str]:
    return [link.get("title") for link in page(client, query).xpath("//a[@title]")]


def make(owner: User, team: Team, *titles: str, visibility: str = Visibility.PRIVATE) -> None:
    for title in titles:
        Conversation.objects.create(owner=owner, team=team, title=title, visibility=visibility)


def test_every_word_is_in_the_title_in_any_order_newest_first(
    as_alice: Client, alice: User, team: Team
) -> None:
    make(alice, team, "Water of the mill", "The mill and its water", "The mill")

    assert found(as_alice, "WATER  mill") == ["The mill and its water", "Water of the mill"]


def test_nobody_finds_what_they_may_not_read(
    as_alice: Client,
    as_bob: Client,
    signed_in: Callable[[User], Client],
    alice: User,
    charlie: User,
    team: Team,
) -> None:
    make(alice, team, "Mill, mine")
    make(alice, team, "Mill, ours", visibility=Visibility.TEAM)
    make(alice, team, "Mill, thrown away")
    Conversation.objects.filter(title="Mill, thrown away").update(deleted_at="2026-01-01T00:00Z")

    assert found(as_alice, "mill") == ["Mill, ours", "Mill, mine"]
    assert found(as_bob, "mill") == ["Mill, ours"]
    assert found(signed_in(charlie), "mill") == []


@pytest.mark.parametrize("query", ["über", "ÜBER", "Über"])
def test_letters_beyond_ascii_are_found_large_or_small(
    as_alice: Client, alice: User, team: Team, query: str
) -> None:
    make(alice, team, "Über den Fluss", "Hinüber")

    assert found(as_alice, query) == ["Hinüber", "Über den Fluss"]


@pytest.mark.parametrize("query", ["", "   ", "\x00", "nowhere", "%", "_", "x" * 5000, "a " * 500])
def test_nothing_and_nonsense_find_nothing(
    as_alice: Client, alice: User, team: Team, query: str
) -> None:
    make(alice, team, "Mill")

    assert found(as_alice, query) == []


def test_so_many_are_shown_and_that_there_are_more_is_said(
    as_alice: Client, alice: User, team: Team
) -> None:
    make(alice, team, *(f"Mill {number}" for number in range(FOUND_LINES + 1)))

    shown = page(as_alice, "mill")

    assert len(shown.xpath("//a[@title]")) == FOUND_LINES
    assert shown.xpath("//@data-said") == [f"More than {FOUND_LINES} conversations found"]
    assert "There are more" in shown.text_content()


def test_words_stay_words(as_alice: Client, alice: User, team: Team) -> None:
    make(alice, team, "<b>Mill</b>")

    shown = page(as_alice, '<b>mill</b>"')

    assert shown.xpath("//b") == []
    assert shown.xpath("//@data-query") == ['<b>mill</b>"']
    assert found(as_alice, "<b>") == ["<b>Mill</b>"]


def test_without_a_script_it_is_a_page(as_alice: Client, alice: User, team: Team) -> None:
    make(alice, team, "The mill")

    shown = page(as_alice, "mill", fragment=False)

    assert shown.xpath("//main//a/@title") == ["The mill"]
    assert shown.xpath("//input[@name='q']/@value") == ["mill"]
