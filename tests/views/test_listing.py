from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from lxml import html

from chat.models import Conversation, Team, User, Visibility
from chat.views.listing import PAGE_LINES, by_day
from tests.views.conftest import Room, end_run

pytestmark = pytest.mark.databases

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


def test_a_running_answer_is_marked(as_alice: Client, room: Room, alice: User) -> None:
    room.ask(alice, "First")

    assert "being answered" in listed(as_alice).text_content()


def test_whose_it_is_stands_at_shared_ones(as_bob: Client, conversation: Conversation) -> None:
    assert "shared by Alice" in listed(as_bob).text_content()


def test_each_reader_is_told_in_their_own_words_and_as_it_is_now(
    as_alice: Client, as_bob: Client, room: Room, alice: User
) -> None:
    for _ in range(2):
        assert "shared with the team" in listed(as_alice).text_content()
        assert "shared by Alice" in listed(as_bob).text_content()

    run = room.ask(alice, "First")
    assert "being answered" in listed(as_bob).text_content()
    end_run(run)
    assert "shared by Alice" in listed(as_bob).text_content()

    User.objects.filter(pk=alice.pk).update(name="")
    assert f"shared by {alice.email}" in listed(as_bob).text_content()


def test_the_one_that_is_open_is_marked(
    as_alice: Client, conversation: Conversation, private_conversation: Conversation
) -> None:
    url = f"{reverse('conversation_list')}?current={conversation.public_id}"

    assert listed(as_alice, url).xpath("//a[@aria-current]/@title") == ["Shared"]


@pytest.mark.parametrize(
    "query", ["current=x", "before=x", "before=2026-13-45", "before=2026-01-01"]
)
def test_nonsense_in_the_address_is_ignored(
    as_alice: Client, conversation: Conversation, query: str
) -> None:
    assert titles(as_alice) == ["Shared"]
    assert as_alice.get(f"{reverse('conversation_list')}?{query}").status_code == 200


def test_older_ones_come_on_demand_and_none_is_left_out(
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


def test_a_deleted_conversation_is_not_listed(as_alice: Client, conversation: Conversation) -> None:
    as_alice.post(reverse("conversation_delete", args=[conversation.public_id]))

    assert titles(as_alice) == []


def test_taking_a_conversation_back_takes_it_out_of_the_teams_sight(
    as_alice: Client, as_bob: Client, conversation: Conversation
) -> None:
    url = reverse("conversation_visibility", args=[conversation.public_id])

    as_alice.post(url, {"visibility": Visibility.PRIVATE})

    assert titles(as_bob) == []
    assert as_bob.get(reverse("conversation", args=[conversation.public_id])).status_code == 404


@pytest.mark.parametrize(
    ("days_ago", "label"),
    [(0, "Today"), (1, "Yesterday"), (3, "Last seven days"), (12, "Last thirty days"), (60, "")],
)
def test_days_have_names(days_ago: int, label: str) -> None:
    moment = timezone.now() - timedelta(days=days_ago)

    (day,) = by_day([Conversation(updated_at=moment)])

    assert day.label == (label or f"{timezone.localtime(moment):%B %Y}")


def test_a_title_must_hold_a_letter(as_alice: Client, conversation: Conversation) -> None:
    url = reverse("conversation_rename", args=[conversation.public_id])

    response = as_alice.post(url, {"title": "  "}, headers={"HX-Request": "true"})

    conversation.refresh_from_db()
    assert response.status_code == 422
    assert conversation.title == "Shared"


@pytest.mark.parametrize(
    "before", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-99-99", "1 OR 1=1"]
)
def test_a_moment_that_does_not_exist_is_no_moment(as_bob: Client, before: str) -> None:
    answer = as_bob.get(reverse("conversation_list"), {"before": before})

    assert answer.status_code == 200
