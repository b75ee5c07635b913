"""Searching conversations by title."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.conversations.views.search import FOUND_LINES
from chat.models import Conversation, Message, Role, Team, User, Visibility
from tests.support.rooms import HTMX, text_of


def results(client: Client, query: str, *, fragment: bool = True) -> html.HtmlElement:
    headers = HTMX if fragment else {}
    response = client.get(reverse("conversation_search"), {"q": query}, headers=headers)
    assert response.status_code == 200
    return html.fragment_fromstring(response.content.decode(), create_parent=True)


def found(client: Client, query: str) -> list[str]:
    return [link.get("title") for link in results(client, query).xpath("//a[@title]")]


def make(owner: User, team: Team, *titles: str, visibility: str = Visibility.PRIVATE) -> None:
    for title in titles:
        Conversation.objects.create(owner=owner, team=team, title=title, visibility=visibility)


def test_all_words_match_in_any_order_newest_first(
    as_alice: Client, alice: User, team: Team
) -> None:
    make(alice, team, "Water of the mill", "The mill and its water", "The mill")

    assert found(as_alice, "WATER  mill") == ["The mill and its water", "Water of the mill"]


def test_only_readable_conversations_are_found(
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
def test_case_of_letters_beyond_ascii_is_ignored(
    as_alice: Client, alice: User, team: Team, query: str
) -> None:
    make(alice, team, "Über den Fluss", "Hinüber")

    assert found(as_alice, query) == ["Hinüber", "Über den Fluss"]


def test_empty_and_nonsensical_queries_find_nothing(
    as_alice: Client, alice: User, team: Team, subtests: pytest.Subtests
) -> None:
    make(alice, team, "Mill")

    for query in ("", "   ", "\x00", "nowhere", "%", "_", "x" * 5000, "a " * 500):
        with subtests.test(msg=query[:20]):
            assert found(as_alice, query) == []


def test_results_are_limited_and_say_so(as_alice: Client, alice: User, team: Team) -> None:
    make(alice, team, *(f"Mill {number}" for number in range(FOUND_LINES + 1)))

    page = results(as_alice, "mill")

    assert len(page.xpath("//a[@title]")) == FOUND_LINES
    assert page.xpath("//@data-said") == [f"More than {FOUND_LINES} conversations found"]
    assert "There are more matches" in page.text_content()


def test_titles_and_queries_are_escaped(as_alice: Client, alice: User, team: Team) -> None:
    make(alice, team, "<b>Mill</b>")

    page = results(as_alice, '<b>mill</b>"')

    assert page.xpath("//b") == []
    assert page.xpath("//@data-query") == ['<b>mill</b>"']
    assert found(as_alice, "<b>") == ["<b>Mill</b>"]


def test_search_is_a_page_without_scripts(as_alice: Client, alice: User, team: Team) -> None:
    make(alice, team, "The mill")

    page = results(as_alice, "mill", fragment=False)

    assert page.xpath("//main//a/@title") == ["The mill"]
    assert page.xpath("//main//input[@name='q']/@value") == ["mill"]


def test_results_are_grouped_by_day_with_place_and_newest_message(
    as_alice: Client, alice: User, bob: User, team: Team
) -> None:
    make(alice, team, "Mill, mine")
    make(bob, team, "Mill, ours", visibility=Visibility.TEAM)
    mine, ours = Conversation.objects.order_by("pk")
    Conversation.objects.filter(pk=mine.pk).update(updated_at="2020-01-05T12:00Z")
    for text in ("Mill, ours and more", "How high is <b>the water</b>?"):
        Message.objects.create(conversation=ours, role=Role.USER, text=text)
    Message.objects.create(conversation=mine, role=Role.USER, text="Mill, mine and more")

    page = results(as_alice, "mill", fragment=False)

    assert page.xpath("//main//h2/text()") == ["Today", "January 2020"]
    first, second = map(text_of, page.xpath("//main//li"))
    assert "How high is <b>the water</b>?" in first
    assert team.name in first
    assert str(bob) in first
    assert "Private" in second
    assert "and more" not in second


@pytest.mark.parametrize(("query", "words"), [("", "Enter words"), ("glacier", "No matches")])
def test_page_without_results_says_what_to_do(as_alice: Client, query: str, words: str) -> None:
    page = results(as_alice, query, fragment=False)

    assert words in page.xpath("string(//main//*[@class='empty'])")
