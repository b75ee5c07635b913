"""Who finds what: every relation to a conversation, in every state of it, for every kind of text."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from lxml import html

from chat import events
from chat.models import (
    Artifact,
    ArtifactVersion,
    Conversation,
    Membership,
    Message,
    Pin,
    Question,
    QuestionKind,
    Role,
    Run,
    SearchKind,
    Team,
    TeamRole,
    Upstream,
    User,
    Visibility,
)
from chat.search.find import find
from chat.search.sources import index
from chat.search.tokens import parse
from tests.support.files import store_file
from tests.support.rooms import HTMX, end_run_with, text_of, url_of
from tests.support.selection import one_of_each

pytestmark = pytest.mark.databases

TEAM = {"owner", "member", "viewer"}
# Who finds a conversation's texts everywhere, and who finds them in the conversation itself.
STATES: dict[str, tuple[set[str], set[str]]] = {
    "private": ({"owner"}, {"owner"}),
    "shared": (TEAM, TEAM),
    "archived": (TEAM, TEAM),
    "temporary": (set(), TEAM),
    "expired": (set(), set()),
    "trashed": (set(), set()),
}
KINDS = [*SearchKind]
# What the queries look for; the word of a kind is in all texts of that kind.
WORD = "heron"


@pytest.fixture
def people(
    team: Team,
    alice: User,
    bob: User,
    viewer: User,
    dana: User,
    charlie: User,
    administrator: User,
    make_user: Callable[..., User],
) -> dict[str, User]:
    """By their relation to the conversations, which are Alice's."""
    removed, inactive = make_user("Rosa"), make_user("Ines", is_active=False)
    for user in (removed, inactive):
        Membership.objects.create(team=team, user=user, role=TeamRole.MEMBER)
    Membership.objects.filter(user=removed).delete()
    return {
        "owner": alice,
        "member": bob,
        "viewer": viewer,
        "removed": removed,
        "inactive": inactive,
        "other team": dana,
        "no team": charlie,
        "administrator": administrator,
    }


def text_of_kind(kind: str, state: str) -> str:
    return f"{WORD} {kind} {state}"


def make_conversation(state: str, owner: User, team: Team, upstream: Upstream) -> Conversation:
    """With one text of each kind, which is as if written by its owner."""
    now = timezone.now()
    text = {kind: text_of_kind(kind, state) for kind in KINDS}
    room = Conversation.objects.create(
        owner=owner,
        team=team,
        title=text[SearchKind.TITLE],
        visibility=Visibility.PRIVATE if state == "private" else Visibility.TEAM,
        archived_at=now if state == "archived" else None,
        deleted_at=now if state == "trashed" else None,
        expires_at={
            "temporary": now + timedelta(days=1),
            "expired": now - timedelta(seconds=1),
        }.get(state),
    )
    message = Message.objects.create(
        conversation=room, role=Role.USER, author=owner, text=text[SearchKind.MESSAGE]
    )
    run = make_run(room, message, upstream, text)
    artifact = Artifact.objects.create(conversation=room, artifact_id="a")
    version = ArtifactVersion.objects.create(
        artifact=artifact, number=1, run=run, seq=2, content=text[SearchKind.ARTIFACT]
    )
    file = store_file(conversation=room, name=text[SearchKind.FILE], body=b"", created_by=owner)
    question = Question.objects.create(
        conversation=room,
        run=run,
        kind=QuestionKind.ASK,
        ask_id="a",
        body={"question": text[SearchKind.QUESTION]},
    )
    for place, user in enumerate(User.objects.all()):
        # Also of those who could read it once.
        Pin.objects.create(user=user, conversation=room, position=place)
    index(SearchKind.TITLE, room)
    index(SearchKind.MESSAGE, message)
    index(SearchKind.ARTIFACT, version)
    index(SearchKind.FILE, file)
    index(SearchKind.QUESTION, question)
    return room


def make_run(
    room: Conversation, message: Message, upstream: Upstream, text: dict[SearchKind, str]
) -> Run:
    answer = Message.objects.create(conversation=room, role=Role.ASSISTANT, parent=message)
    run = Run.objects.create(
        conversation=room,
        message=answer,
        upstream=upstream,
        model="demo/model",
        dialect="lmstudio",
        requested_by=room.owner,
        idempotency_key=uuid.uuid4(),
    )
    log: list[events.Event] = [
        events.ReasoningStart(item=0),
        events.ReasoningDelta(item=0, content=text[SearchKind.REASONING]),
        events.ReasoningEnd(item=0),
        events.MessageStart(item=1),
        events.MessageDelta(item=1, content=text[SearchKind.ANSWER]),
        events.MessageEnd(item=1),
    ]
    end_run_with(run, log)
    return run


RELATIONS = (
    *("owner", "member", "viewer", "removed"),
    *("inactive", "other team", "no team", "administrator"),
)
# All of them ask for every text, and say so in different ways.
EVERYTHING = (WORD, f'"{WORD}" -nothing', "is:pinned", "after:2000-01-01", f"{WORD[:3]}")


@pytest.mark.parametrize("relation", RELATIONS)
def test_everybody_finds_what_they_may_read_and_nothing_else(
    relation: str,
    people: dict[str, User],
    team: Team,
    upstream: Upstream,
    signed_in: Callable[[User], Client],
    subtests: pytest.Subtests,
) -> None:
    rooms = {state: make_conversation(state, people["owner"], team, upstream) for state in STATES}
    user = people[relation]
    client = signed_in(user)

    for state, (finders, readers) in STATES.items():
        everywhere = {text_of_kind(kind, state) for kind in KINDS if relation in finders}
        here = {text_of_kind(kind, state) for kind in KINDS if relation in readers}
        here.discard(rooms[state].title)
        words = f"{WORD} {state}"
        with subtests.test("find", state=state):
            hits = find(user, parse(words))
            assert {text_of_hit(hit.snippet) for hit in hits.hits} == everywhere
            assert (hits.count, hits.has_next) == (len(everywhere), False)
        places = {
            "page": (reverse("search"), everywhere),
            "palette": (reverse("search_palette"), everywhere),
            "in the conversation": (url_of("conversation_find", rooms[state]), here),
        }
        # All three read by the same rule: `make test` looks at one of them for each relation and state.
        for place in one_of_each(dict.fromkeys(places), by=f"{relation}, {state}"):
            url, expected = places[place]
            with subtests.test(place, state=state):
                assert texts_at(client, url, words) == expected

    total = len(KINDS) * sum(relation in finders for finders, _ in STATES.values())
    for query in EVERYTHING:
        with subtests.test("count", query=query):
            assert find(user, parse(query)).count == total
    with subtests.test("suggestions"):
        titles = {
            rooms[state].title
            for state, (_, readers) in STATES.items()
            if relation in readers and state != "archived"
        }
        assert texts_at(client, reverse("search_palette"), "") == titles
        assert ("Alice" in people_at(client)) is (relation in TEAM)


def text_of_hit(snippet: object) -> str:
    return "".join(mark.text for mark in snippet).strip()  # type: ignore[attr-defined]


def texts_at(client: Client, address: str, words: str) -> set[str]:
    """Which of all texts are somewhere in the answer; also if it is a refusal."""
    response = client.get(address, {"q": words}, headers=HTMX)
    assert response.status_code in (200, 401, 404)
    shown = html.fragment_fromstring(response.content.decode(), create_parent=True)
    text = text_of(shown)
    every = (text_of_kind(kind, state) for kind in KINDS for state in STATES)
    return {each for each in every if each in text}


def people_at(client: Client) -> str:
    response = client.get(reverse("search_palette"), {"q": "alic"}, headers=HTMX)
    return str(response.content.decode())
