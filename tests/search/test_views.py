"""The page of results, the palette and finding in a conversation, for each of the people."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from lxml import html

from chat.conversations.actions import conversation as actions
from chat.conversations.transcript import MOST_TURNS, PAGE_TURNS
from chat.models import (
    Conversation,
    Message,
    ProjectAccess,
    Role,
    SearchKind,
    Team,
    User,
    Visibility,
)
from chat.participants import actions as participants
from chat.projects.actions import create_project
from chat.search.find import MOST_COUNTED, PAGE_HITS
from chat.search.sources import index
from tests.support.rooms import HTMX, Room, queries_of, text_of, url_of

Params = dict[str, Any]


def get(client: Client, route: str, params: Params, **more: Any) -> html.HtmlElement:
    response = client.get(reverse(route, **more), params, headers=HTMX if more else {})
    assert response.status_code == 200
    return html.fragment_fromstring(response.content.decode(), create_parent=True)


def page(client: Client, **params: Any) -> html.HtmlElement:
    return get(client, "search", params)


def palette(client: Client, words: str) -> html.HtmlElement:
    return get(client, "search_palette", {"q": words})


def snippets(element: html.HtmlElement) -> list[str]:
    return [text_of(each) for each in element.xpath("//*[@class='hit-text']")]


def write(conversation: Conversation, *texts: str) -> list[Message]:
    messages = [
        Message.objects.create(
            conversation=conversation, role=Role.USER, text=text, author=conversation.owner
        )
        for text in texts
    ]
    index(SearchKind.MESSAGE, *messages)
    return messages


@pytest.fixture
def as_charlie(charlie: User, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(charlie)


# --- the page -----------------------------------------------------------------------------------


def test_hit_shows_words_author_room_and_leads_to_its_turn(as_alice: Client, room: Room) -> None:
    answer = room.turn("Willows **in** autumn")

    found = page(as_alice, q="willows autu")

    assert snippets(found) == ["Willows in autumn", "Answer to: Willows in autumn"]
    assert found.xpath("//*[@class='hit-text']/mark/text()")[:2] == ["Willows", "autumn"]
    first, last = found.xpath("//*[@class='hit-facts']")
    assert [text_of(fact) for fact in first][:3] == ["Message", "Alice", "River"]
    assert [text_of(fact) for fact in last][:2] == ["Answer", "demo/model"]
    address = urlsplit(found.xpath("//a[@class='hit-link']/@href")[1])
    assert address.path == url_of("message_find", answer)
    assert address.fragment == f"m{answer.public_id.hex}"
    assert parse_qs(address.query) == {"mark": ["willows", "autu*"], "kind": ["answer"]}


def test_only_what_a_person_may_read_is_shown_or_counted(
    as_alice: Client, as_bob: Client, as_charlie: Client, alice: User, team: Team
) -> None:
    for title in ("Mine", "Ours", "Gone"):
        room = Conversation.objects.create(owner=alice, team=team, title=f"Mill, {title}")
        write(room, f"A mill, {title}")
        index(SearchKind.TITLE, room)
        if title == "Ours":
            participants.set_visibility(alice, room, Visibility.TEAM)
        if title == "Gone":
            actions.delete(alice, room)

    seen = {
        name: (
            sorted(snippets(page(client, q="mill"))),
            palette(client, "mill").xpath("//@data-said"),
            [text_of(each) for each in palette(client, "").xpath("//*[@role='option']")],
        )
        for name, client in {"alice": as_alice, "bob": as_bob, "charlie": as_charlie}.items()
    }

    ours = ["A mill, Ours"]
    assert seen["alice"] == (["A mill, Mine", *ours], ["4 results"], ["Mill, Ours", "Mill, Mine"])
    assert seen["bob"] == (ours, ["2 results"], ["Mill, Ours"])
    assert seen["charlie"] == ([], ["No matches"], [])


def test_filters_of_controls_and_of_words_are_one_query(
    as_alice: Client, alice: User, bob: User, conversation: Conversation
) -> None:
    write(conversation, "The mill")
    Message.objects.update(author=bob)
    write(conversation, "A mill of Bob’s")

    typed = page(as_alice, q="mill from:bob")
    chosen = page(as_alice, q="mill", **{"from": "Bob", "has": ["file", "error"], "is": "archived"})
    both = page(as_alice, q="mill from:bob", **{"from": "Alice", "after": "2026-01-02"})

    assert typed.xpath("//input[@id='search-q']/@value") == ["mill "]
    for each in (typed, both, chosen):
        assert each.xpath("//select[@name='from']/option[@selected]/@value") == ["Bob"]
    assert both.xpath("//input[@name='after']/@value") == ["2026-01-02"]
    assert chosen.xpath("//input[@checked]/@value") == ["file", "error", "archived"]
    assert "No matches" in chosen.text_content()


def test_unknown_person_or_model_stays_a_choice(as_alice: Client) -> None:
    found = page(as_alice, q="mill from:zoe model:acme/none")

    assert found.xpath("//select/option[@selected]/@value") == ["zoe", "acme/none", ""]


def test_projects_are_a_choice_for_those_who_see_them(
    as_alice: Client, as_bob: Client, alice: User, team: Team
) -> None:
    assert not page(as_alice).xpath("//select[@name='in']")
    create_project(alice, team, name="Bridge", access=ProjectAccess.MEMBERS)

    chosen = page(as_alice, **{"in": "Bridge"})
    assert chosen.xpath("//select[@name='in']/option[@selected]/@value") == ["Bridge"]
    assert page(as_alice).xpath("//select[@name='in']/option/@value") == ["", "Bridge"]
    assert not page(as_bob).xpath("//select[@name='in']")


def test_people_of_other_teams_are_no_choice(
    as_alice: Client, alice: User, bob: User, charlie: User
) -> None:
    assert page(as_alice).xpath("//select[@name='from']/option/@value") == [
        "",
        "Alice",
        "Bob",
        "Vera",
    ]
    assert palette(as_alice, "charl").xpath("//*[@role='option']") == []
    assert "Bob" in palette(as_alice, "bo").text_content()


def test_pages_follow_each_other_with_and_without_scripts(
    as_alice: Client, conversation: Conversation
) -> None:
    write(conversation, *(f"Mill {number}" for number in range(PAGE_HITS + 5)))
    first = page(as_alice, q="mill", sort="date")
    (address,) = first.xpath("//*[@class='hits-more']/a/@href")

    plain = html.fromstring(as_alice.get(address).content.decode())
    fragment = html.fragment_fromstring(
        as_alice.get(address, headers=HTMX).content.decode(), create_parent=True
    )

    assert first.xpath("//*[@class='hits-more']/a/@hx-get") == [address]
    assert text_of(first.xpath("//*[@class='search-head']/p")[0]) == f"{PAGE_HITS + 5} results"
    assert snippets(first)[0] == f"Mill {PAGE_HITS + 4}"
    assert (
        snippets(plain) == snippets(fragment) == [f"Mill {number}" for number in range(4, -1, -1)]
    )
    assert fragment.xpath("//form | //*[@class='hits-more']") == []
    assert "Previous results" in plain.text_content()


def test_count_of_what_is_everywhere_is_bounded(
    as_alice: Client, conversation: Conversation
) -> None:
    write(conversation, *(f"Mill {number}" for number in range(MOST_COUNTED + 1)))

    found = page(as_alice, q="mill", page="50")

    assert text_of(found.xpath("//*[@class='search-head']")[0]) == "1,000+ resultsNewest first"
    assert len(snippets(found)) == PAGE_HITS
    assert found.xpath("//*[@class='hits-more']") == []


def test_filters_that_are_not_understood_are_named(as_alice: Client) -> None:
    found = page(as_alice, q="mill before:<b>soon</b>")

    (notice,) = found.xpath("//*[contains(@class, 'notice-wait')]")
    assert "before:<b>soon</b> isn’t a valid filter" in text_of(notice)


def test_page_without_a_query_explains_searching(as_alice: Client) -> None:
    assert "after:2026-11-01" in page(as_alice).xpath("string(//*[@class='search-tips'])")


STRANGE = [
    *("x" * 10_000, '"', '"a b', "-", "- -x", "from:", "from:bob", "\x00\x01\x1f", "a\u202eb", "%"),
    *("before:0001-01-01", "after:9999-12-31", "<script>", "' OR 1=1", "🙂", "\ud800", "'" * 3_000),
]


def test_strange_queries_are_answered(
    as_alice: Client, room: Room, subtests: pytest.Subtests
) -> None:
    room.turn("Willows")
    find = url_of("conversation_find", room.conversation)

    for query in STRANGE:
        text = query.encode("utf-8", "surrogatepass")
        for url, params in (
            (reverse("search"), {"q": text}),
            (reverse("search"), {"q": "will", "from": text, "after": text, "has": text}),
            (reverse("search_palette"), {"q": text}),
            (find, {"q": text}),
        ):
            headers = HTMX if url == find else {}
            with subtests.test(query=ascii(query[:20]), url=url), transaction.atomic():
                assert as_alice.get(url, params, headers=headers).status_code == 200


@pytest.mark.parametrize("query", ["will", "nothing"])
def test_strange_page_numbers_are_answered(as_alice: Client, room: Room, query: str) -> None:
    room.turn("Willows")

    for number in ("", "0", "-1", "9" * 5_000, "²", "x"):
        url = reverse("search")
        assert as_alice.get(url, {"q": query, "page": number}).status_code == 200


# --- the palette --------------------------------------------------------------------------------


def test_palette_has_a_command_for_servers_only_for_administrators(
    as_alice: Client, administrator: User, signed_in: Callable[[User], Client]
) -> None:
    for client, is_there in ((as_alice, False), (signed_in(administrator), True)):
        tree = html.fromstring(client.get(reverse("home")).content.decode())
        commands = [text_of(each) for each in tree.xpath("//*[@id='palette-commands']/*[@role]")]
        assert ("Servers" in commands) is is_there
        assert "New conversation" in commands


def test_palette_asks_the_database_as_often_for_many_conversations(
    as_alice: Client, alice: User, team: Team
) -> None:
    def make(count: int) -> None:
        for number in range(count):
            room = Conversation.objects.create(owner=alice, team=team, title=f"Mill {number}")
            write(room, f"A mill, {number}")
            index(SearchKind.TITLE, room)

    url = reverse("search_palette") + "?q=mill"
    make(2)
    few = queries_of(as_alice, url)
    make(20)

    assert queries_of(as_alice, url) == few


# --- a hit --------------------------------------------------------------------------------------


def chain(conversation: Conversation, count: int) -> list[Message]:
    """Turns below each other."""
    first = Message.objects.create(conversation=conversation, role=Role.USER, text="First")
    turns = [first]
    for number in range(1, count):
        turns.append(
            Message.objects.create(
                conversation=conversation, role=Role.USER, text=f"Turn {number}", parent=turns[-1]
            )
        )
    return turns


@pytest.mark.parametrize(
    ("from_end", "turns"), [(1, PAGE_TURNS), (30, 32), (MOST_TURNS, MOST_TURNS + 2), (110, 20)]
)
def test_link_to_a_turn_leads_to_a_page_that_shows_it(
    as_alice: Client, conversation: Conversation, from_end: int, turns: int
) -> None:
    message = chain(conversation, 130)[-from_end]

    response = as_alice.get(url_of("message_find", message) + "?mark=one&kind=message", follow=True)

    shown = html.fromstring(response.content.decode()).xpath("//article/@data-turn")
    assert message.public_id.hex in shown
    assert len(shown) == turns
    assert "mark=one&kind=message" in response.redirect_chain[0][0]


def test_pages_of_turns_lead_to_the_end(as_alice: Client, conversation: Conversation) -> None:
    turns = chain(conversation, 130)
    response = as_alice.get(url_of("message_find", turns[12]), follow=True)
    shown = html.fromstring(response.content.decode()).xpath("//article/@data-turn")
    links = html.fromstring(response.content.decode()).xpath("//*[@id='later']//@hx-get")

    while links:
        tree = html.fragment_fromstring(
            as_alice.get(links[0], headers=HTMX).content.decode(), create_parent=True
        )
        assert tree.xpath("//@hx-swap")[0] == "beforeend"
        shown += tree.xpath("//article/@data-turn")
        links = tree.xpath("//*[@hx-target='#later']//@hx-get")

    # What follows is the page of the conversation.
    expected = [turn.public_id.hex for turn in turns[: 130 - PAGE_TURNS]]
    assert shown == expected[2:]


# --- in one conversation ------------------------------------------------------------------------


def find_here(client: Client, room: Conversation, words: str) -> list[str]:
    response = client.get(url_of("conversation_find", room), {"q": words}, headers=HTMX)
    return snippets(html.fragment_fromstring(response.content.decode(), create_parent=True))


def test_find_in_conversation_finds_all_branches_and_nothing_else(
    as_alice: Client, room: Room, alice: User, team: Team
) -> None:
    room.turn("One mill")
    room.turn("Another mill")
    write(Conversation.objects.create(owner=alice, team=team, title="Mill"), "A mill elsewhere")

    assert sorted(find_here(as_alice, room.conversation, "mill")) == [
        "Another mill",
        "Answer to: Another mill",
        "Answer to: One mill",
        "One mill",
    ]
    assert find_here(as_alice, room.conversation, "elsewhere") == []


def test_temporary_conversation_is_searched_only_in_itself(as_alice: Client, room: Room) -> None:
    room.turn("A mill")
    Conversation.objects.update(expires_at=timezone.now() + timedelta(days=1))

    assert len(find_here(as_alice, room.conversation, "mill")) == 2
    assert snippets(page(as_alice, q="mill")) == []
    assert palette(as_alice, "mill").xpath("//@data-said") == ["No matches"]


def test_archived_conversation_is_found_and_no_recent_one(as_alice: Client, room: Room) -> None:
    room.turn("A mill")
    Conversation.objects.update(archived_at=timezone.now())

    assert palette(as_alice, "").xpath("//*[@role='option']") == []
    assert palette(as_alice, "mill").xpath("//@data-said") == ["2 results"]


def test_find_in_conversation_is_in_everybodys_menu(
    as_viewer: Client, alice: User, conversation: Conversation
) -> None:
    participants.set_visibility(alice, conversation, Visibility.TEAM)
    tree = html.fromstring(as_viewer.get(url_of("conversation", conversation)).content.decode())

    (link,) = tree.xpath("//a[@id='to-find']")
    assert link.get("href") == url_of("conversation_find", conversation)
    assert tree.xpath("//*[@id='title']") == []
    panel = as_viewer.get(link.get("href"), headers={**HTMX, "X-Panel": "1"}).content.decode()
    assert 'id="panel-title"' in panel
    assert "Find in all messages" in panel
