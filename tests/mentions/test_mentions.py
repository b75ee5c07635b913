"""Mentions: how they are written, stored, shown and completed."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st
from lxml import html

from chat.mentions.marks import mark_mentions
from chat.mentions.names import MOST_MENTIONS, find_names
from chat.models import Membership, Mention, Participant, Team, TeamRole, User
from chat.rendering.markdown import render
from tests.conftest import MakeUser
from tests.support.rooms import Room, get_page, text_of

PEOPLE = {
    1: ["Ana", "ana@example.org"],
    2: ["Ana Müller", "am@example.org"],
    3: ["Jean-Luc d’Or", "jl@example.org"],
    4: ["Ben", "ben@example.org"],
    5: ["ben", "b2@example.org"],
}
# A text, and whom it mentions.
TEXTS = [
    ("@Ana", [1]),
    ("@ana, look", [1]),
    ("@Ana Müller and @ana", [2, 1]),
    ("@Ana Müllers", [1]),
    ("(@Jean-Luc d’Or)", [3]),
    ("@am@example.org?", [2]),
    ("@Ben", [4, 5]),
    ("@Benjamin", []),
    ("mail ana@Ana, x/@Ana or @@Ana", []),
    ("@ Ana", []),
    ("@Ana @Ana", [1]),
]


@pytest.mark.parametrize(("text", "mentioned"), TEXTS, ids=[text for text, _ in TEXTS])
def test_longest_name_that_ends_there_is_mentioned(text: str, mentioned: list[int]) -> None:
    assert [each.person for each in find_names(text, PEOPLE)] == mentioned


def test_mentions_of_a_message_are_bounded() -> None:
    people = {number: [f"Person {number}"] for number in range(500)}
    text = " ".join(f"@Person {number}" for number in range(500))

    assert len(find_names(text, people)) == MOST_MENTIONS
    assert list(find_names("@" * 1_000_000, people)) == []


HOSTILE = st.text(st.sampled_from("@Ana<>\"'&[]()` \n=x"), max_size=60)


@given(HOSTILE, st.sampled_from(["Ana", 'A"n', "<a>", "a&a", "'x", "n a"]))
def test_marks_change_nothing_but_text(text: str, name: str) -> None:
    made = render(f"{text} @{name} {text}", "n")
    marked = mark_mentions(made, [name])

    assert marked.replace('<span class="mention">', "").count("<span") == made.count("<span")
    before, after = (html.fragment_fromstring(each, create_parent="div") for each in (made, marked))
    assert after.text_content() == before.text_content()
    for element in after.xpath("//span[@class='mention']"):
        assert element.text_content() == f"@{name}"
        element.drop_tag()
    assert html.tostring(after) == html.tostring(before)


def test_mark_is_not_in_code_links_and_attributes() -> None:
    made = render('@Ana `@Ana` [@Ana](https://a.test "x> @Ana <img src=x>") **@Ana**', "n")

    assert mark_mentions(made, ["Ana"]).count('class="mention"') == 2


def test_mention_is_marked_as_it_was_written(as_bob: Client, room: Room, bob: User) -> None:
    room.ask("@Bob, and @bobby")
    bob.name = "Robert"
    bob.save()

    page = get_page(as_bob, room.url)

    assert [text_of(mark) for mark in page.find_class("mention")] == ["@Bob"]


def test_message_of_a_guest_mentions_only_who_takes_part(
    room: Room, bob: User, viewer: User, team: Team, make_user: MakeUser
) -> None:
    guest = make_user("Gus")
    Membership.objects.create(team=team, user=guest, role=TeamRole.GUEST)
    for person in (guest, bob):
        Participant.objects.create(conversation=room.conversation, person=person)
    room.conversation.owner = guest

    room.ask("@Bob, @Vera and @Alice")

    assert {each.person.name for each in Mention.objects.all()} == {"Bob", "Alice"}


# --- the list that completes a name -----------------------------------------------------------------


def found(client: Client, room: Room, words: str) -> dict[str, bool]:
    """The names that are inserted, and whether the person has access."""
    address = reverse("mention_find", args=[room.conversation.public_id])
    body = client.get(address, {"q": words}).content.decode()
    options = html.fragment_fromstring(body, create_parent="div").find_class("completion-option")
    return {each.get("data-name"): "data-without-access" not in each.attrib for each in options}


def test_list_has_readers_first_and_says_who_has_no_access(
    as_alice: Client, room: Room, make_user: MakeUser, team: Team
) -> None:
    room.conversation.visibility = "private"
    room.conversation.save()
    for name in ("Bea Ott", "Otto"):
        Membership.objects.create(team=team, user=make_user(name), role=TeamRole.MEMBER)
    Participant.objects.create(conversation=room.conversation, person=User.objects.get(name="Otto"))

    assert found(as_alice, room, "ot") == {"Otto": True, "Bea Ott": False}
    assert list(found(as_alice, room, "ot")) == ["Otto", "Bea Ott"]
    assert found(as_alice, room, "nobody") == {}


def test_people_with_the_same_name_are_mentioned_by_address(
    as_alice: Client, room: Room, make_user: MakeUser, team: Team
) -> None:
    other = make_user("bob2")
    User.objects.filter(pk=other.pk).update(name="Bob")
    Membership.objects.create(team=team, user=other, role=TeamRole.MEMBER)

    assert set(found(as_alice, room, "bo")) == {"bob@example.org", other.email}


def test_guest_finds_only_who_takes_part(
    room: Room, team: Team, make_user: MakeUser, bob: User
) -> None:
    guest = make_user("Gus")
    Membership.objects.create(team=team, user=guest, role=TeamRole.GUEST)
    Participant.objects.create(conversation=room.conversation, person=guest, role="writer")
    client = Client()
    client.force_login(guest)

    assert found(client, room, "") == {"Alice": True}
