"""The list of conversations: who sees which, in which order, and how they are marked."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from lxml import html

from chat import access
from chat.conversations.listing import PAGE_LINES, ConversationLine, by_day, listing_context
from chat.models import Conversation, Membership, Pin, Team, User, Visibility
from tests.support.rooms import HTMX, Room, end_run, url_of

pytestmark = pytest.mark.databases(slow=True)

NOON = datetime(2026, 3, 18, 12, tzinfo=timezone.get_default_timezone())


def listed(client: Client, url: str = "") -> html.HtmlElement:
    body = client.get(url or reverse("conversation_list")).content.decode()
    return html.fragment_fromstring(body, create_parent=True)


def titles(client: Client) -> list[str]:
    return [link.get("title") for link in listed(client).xpath("//a[@title]")]


def test_own_and_shared_conversations_are_listed_newest_first(
    as_bob: Client,
    bob: User,
    team: Team,
    conversation: Conversation,
    private_conversation: Conversation,
) -> None:
    Conversation.objects.create(team=team, owner=bob, title="Mine")

    assert titles(as_bob) == ["Mine", "Shared"]


def test_live_answer_is_marked(as_alice: Client, room: Room) -> None:
    room.ask("First")

    assert "Answering" in listed(as_alice).text_content()


def test_list_is_current_and_worded_for_each_reader(
    as_alice: Client, as_bob: Client, room: Room, alice: User
) -> None:
    for _ in range(2):
        assert "Shared with the team" in listed(as_alice).text_content()
        assert "Shared by Alice" in listed(as_bob).text_content()

    run = room.ask("First")
    assert "Answering" in listed(as_bob).text_content()
    end_run(run)
    assert "Shared by Alice" in listed(as_bob).text_content()

    User.objects.filter(pk=alice.pk).update(name="")
    assert f"Shared by {alice.email}" in listed(as_bob).text_content()


def test_open_conversation_is_marked(
    as_alice: Client, conversation: Conversation, private_conversation: Conversation
) -> None:
    url = f"{reverse('conversation_list')}?current={conversation.public_id}"

    assert listed(as_alice, url).xpath("//a[@aria-current]/@title") == ["Shared"]


def test_title_must_not_be_blank(as_alice: Client, conversation: Conversation) -> None:
    url = url_of("conversation_rename", conversation)

    response = as_alice.post(url, {"title": "  "}, headers=HTMX)

    conversation.refresh_from_db()
    assert response.status_code == 422
    assert conversation.title == "Shared"


# --- older conversations --------------------------------------------------------------------


def test_older_conversations_are_on_a_second_page(
    as_alice: Client, alice: User, team: Team
) -> None:
    Conversation.objects.bulk_create(
        Conversation(
            team=team, owner=alice, title=str(number), updated_at=NOON - timedelta(hours=number)
        )
        for number in range(PAGE_LINES + 10)
    )
    first = listed(as_alice)
    (more,) = first.xpath("//a[contains(@class, 'nav-more')]/@href")

    second = listed(as_alice, more)

    shown = [*first.xpath("//a/@title"), *second.xpath("//a/@title")]
    assert shown == [str(number) for number in range(PAGE_LINES + 10)]
    assert second.xpath("//a[contains(@class, 'nav-more')]") == []
    headings = [*first.xpath("//h2/text()"), *second.xpath("//h2/text()")]
    assert len(headings) == len(set(headings)) >= 1


@pytest.mark.databases
def make_teams(user: User) -> list[Team]:
    """Three, to two of which the user belongs."""
    teams = [Team.objects.create(name=f"Team {number}") for number in range(3)]
    for team in teams[:2]:
        Membership.objects.create(team=team, user=user)
    return teams


def make_conversations(numbers: range, teams: list[Team], *users: User) -> None:
    """Some are archived, in the trash or pinned by the first of the users. Those with higher numbers
    are older."""
    chance = random.Random(numbers.stop)
    states = [{}] * 9 + [{"archived_at": NOON}, {"deleted_at": NOON}]
    rooms = Conversation.objects.bulk_create(
        Conversation(
            team=chance.choice(teams),
            owner=chance.choice(users),
            visibility=chance.choice([Visibility.PRIVATE, Visibility.TEAM]),
            title=f"{number}",
            updated_at=NOON - timedelta(minutes=number),
            **chance.choice(states),
        )
        for number in numbers
    )
    pinned = [room for room in rooms if not chance.randrange(12)]
    Pin.objects.bulk_create(
        Pin(user=users[0], conversation=room, position=place) for place, room in enumerate(pinned)
    )


def lines_of(user: User, before: str = "") -> list[ConversationLine]:
    """Of one page and of those that follow."""
    context = listing_context(user, before=before)
    lines = [line for day in context["days"] for line in day.conversations]
    older = context["older_than"]
    return lines + lines_of(user, older) if older else lines


@pytest.mark.parametrize(("count", "owners"), [(30, 2), (500, 2), (250, 1)])
def test_pages_have_everything_in_order(alice: User, bob: User, count: int, owners: int) -> None:
    make_conversations(range(count), make_teams(alice), *(alice, bob)[:owners])

    expected = (
        access.visible_conversations(alice)
        .filter(archived_at=None)
        .exclude(pins__user=alice)
        .order_by("-updated_at")
    )
    shown = [line.public_id for line in lines_of(alice)]
    assert shown == [room.public_id for room in expected]
    assert len(shown) > count / 10


@pytest.mark.databases(only="sqlite")
def test_list_costs_as_much_for_four_times_the_conversations(alice: User, bob: User) -> None:
    def steps() -> int:
        counted = []
        connection.connection.set_progress_handler(lambda: counted.append(1), 10)
        listing_context(alice)
        connection.connection.set_progress_handler(None, 0)
        return len(counted)

    teams = make_teams(alice)
    make_conversations(range(500), teams, alice, bob)
    few = steps()
    # All that are pinned are shown.
    make_conversations(range(500, 2_000), teams, bob, alice)

    assert steps() < 1.1 * few


def test_invalid_parameters_are_ignored(
    as_alice: Client, conversation: Conversation, subtests: pytest.Subtests
) -> None:
    assert titles(as_alice) == ["Shared"]

    for query in (
        {"current": "x"},
        {"before": "x"},
        {"before": "2026-13-45"},
        {"before": "2026-01-01"},
        {"before": "0001-01-01T00:00:00+14:00"},
        {"before": "9999-12-31T23:59:59-14:00"},
        {"before": "2026-99-99"},
        {"before": "1 OR 1=1"},
    ):
        with subtests.test(msg=str(query)):
            assert as_alice.get(reverse("conversation_list"), query).status_code == 200


@pytest.mark.databases(only="sqlite")
@pytest.mark.parametrize(
    ("days_ago", "label"),
    [(0, "Today"), (1, "Yesterday"), (3, "Previous 7 days"), (12, "Previous 30 days"), (60, "")],
)
def test_days_have_names(days_ago: int, label: str) -> None:
    moment = timezone.now() - timedelta(days=days_ago)

    (day,) = by_day([Conversation(updated_at=moment)])

    assert day.label == (label or f"{timezone.localtime(moment):%B %Y}")
