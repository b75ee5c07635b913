"""The lists of conversations and runs: searched, filtered, sorted, at a constant cost."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chat.models import (
    AuditEvent,
    Conversation,
    Invitation,
    Membership,
    Run,
    Runner,
    RunStatus,
    Team,
    Upstream,
    User,
    Visibility,
)
from chat.search.find import with_words
from chat.search.sources import backfill
from tests.administration.conversations import answer, ask
from tests.administration.pages import list_url, row_url, text_of
from tests.support.reasons import allow_search, give_reason


def found(client: Client, **query: object) -> list[str]:
    """The titles in the list of conversations, in alphabetical order."""
    response = client.get(list_url("conversation"), query)
    assert response.status_code == 200, response.headers
    return sorted(row.title for row in response.context["cl"].result_list)


@pytest.fixture
def history(
    alice: User, bob: User, dana: User, team: Team, other_team: Team, upstream: Upstream
) -> None:
    """Three conversations of two teams, of which the administrator may read none."""
    mill = Conversation.objects.create(team=team, owner=alice, title="Mill")
    answer(ask(mill, alice, "Where is the spring?"), "Behind the “old” mill.", upstream=upstream)
    flood = Conversation.objects.create(
        team=team, owner=bob, title="Flood", visibility=Visibility.TEAM
    )
    question = ask(flood, alice, "100% wet_or dry?")
    answer(question, 'Dry\n\nand "quoted" \\ words.', model="other/model", status="failed")
    Conversation.objects.create(
        team=other_team, owner=dana, title="Glacier", deleted_at=timezone.now()
    )


def test_cells_name_their_column(admin_client: Client, history: None, upstream: Upstream) -> None:
    conversations = text_of(admin_client, list_url("conversation"))
    servers = text_of(admin_client, list_url("upstream"))

    assert '<td data-label="Owner" class="field-owner_cell' in conversations
    assert '<th class="field-name_cell' in conversations
    # The heading of the boxes to tick is a box, too.
    assert '<td class="action-checkbox' in servers
    assert 'data-label="Load"' in servers
    # Times are elements, also within a sentence.
    assert "<small>Created <time " in conversations


# --- search ------------------------------------------------------------------------------------


SEARCHES = {
    "flood": ["Flood"],
    "Flo": ["Flood"],
    "dana": ["Glacier"],
    "DANA@example.org": ["Glacier"],
    "alice": ["Flood", "Mill"],
    "spring": ["Mill"],
    "mill": ["Mill"],
    "behind": ["Mill"],
    "“old”": ["Mill"],
    '"quoted"': ["Flood"],
    "dry": ["Flood"],
    "100%": ["Flood"],
    "wet_or": ["Flood"],
    "wet % dry": ["Flood"],
    "alice spring": ["Mill"],
    "spring behind mill": ["Mill"],
    "bob spring": [],
    "model_instance_id": [],
    "stats": [],
    "nowhere": [],
    "   ": ["Flood", "Glacier", "Mill"],
    "' OR 1=1 --": [],
    "from:bob": [],
}


@pytest.mark.databases
def test_search_finds_people_titles_and_text(history: None, subtests: pytest.Subtests) -> None:
    """Also in the trash, and in temporary conversations."""
    Conversation.objects.filter(title="Mill").update(expires_at=timezone.now() + timedelta(days=1))
    list(backfill())
    for words, titles in SEARCHES.items():
        with subtests.test(words):
            rows = Conversation.objects.filter(with_words(words))

            assert sorted(row.title for row in rows) == titles


def test_search_for_a_nul_is_no_server_error(admin_client: Client, administrator: User) -> None:
    allow_search(administrator, "a b")

    assert found(admin_client, q="a\x00b") == []


# --- filters -----------------------------------------------------------------------------------


FILTERS: list[tuple[dict[str, str], list[str]]] = [
    ({"model": "other/model"}, ["Flood"]),
    ({"run_status": "failed"}, ["Flood"]),
    ({"run_status": "completed"}, ["Mill"]),
    ({"visibility__exact": "team"}, ["Flood"]),
    ({"deleted": "yes"}, ["Glacier"]),
    ({"deleted": "no"}, ["Flood", "Mill"]),
    ({"deleted": "no", "run_status": "completed"}, ["Mill"]),
    ({"model": "no such model"}, []),
    ({"run_status": "'"}, []),
    ({"person": "0"}, []),
    ({"person": "x"}, []),
]


def test_filters_narrow_the_list(
    admin_client: Client, history: None, subtests: pytest.Subtests
) -> None:
    for query, titles in FILTERS:
        with subtests.test(str(query)):
            assert found(admin_client, **query) == titles


def test_person_filter_finds_owners_and_authors(
    admin_client: Client, history: None, alice: User, dana: User
) -> None:
    assert found(admin_client, person=alice.pk) == ["Flood", "Mill"]
    assert found(admin_client, person=dana.pk) == ["Glacier"]


def test_team_and_date_filters_narrow_the_list(
    admin_client: Client, history: None, team: Team, other_team: Team
) -> None:
    long_ago = timezone.now().replace(year=2001, day=1)
    Conversation.objects.filter(title="Mill").update(updated_at=long_ago)

    assert found(admin_client, team__id__exact=team.pk) == ["Flood", "Mill"]
    assert found(admin_client, team__id__exact=other_team.pk) == ["Glacier"]
    assert found(admin_client, updated_at__year=2001) == ["Mill"]


# --- columns -----------------------------------------------------------------------------------


def test_list_shows_turns_and_the_last_run(admin_client: Client, history: None) -> None:
    response = admin_client.get(list_url("conversation"))

    rows = {row.title: row for row in response.context["cl"].result_list}
    assert rows["Flood"].turn_total == 2
    assert rows["Flood"].last_run_model == "other/model"
    assert rows["Flood"].last_run_status == RunStatus.FAILED
    assert rows["Glacier"].turn_total == 0
    assert rows["Glacier"].last_run_status is None


@pytest.mark.parametrize(
    ("counts", "shown"),
    [((None, None), "–"), ((1200, 34), "1,200 in, 34 out"), ((None, 5), "? in, 5 out")],
)
def test_run_list_shows_reported_token_counts(
    admin_client: Client, shared_run: Run, counts: tuple[int | None, int | None], shown: str
) -> None:
    Run.objects.update(input_tokens=counts[0], output_tokens=counts[1])

    page = text_of(admin_client, list_url("run"))

    assert f'<td data-label="Tokens" class="field-tokens">{shown}</td>' in page


def test_every_column_sorts(admin_client: Client, history: None, subtests: pytest.Subtests) -> None:
    for column in range(1, 10):
        with subtests.test(column=column):
            assert len(found(admin_client, o=str(column))) == 3


def test_times_have_one_form_and_their_zone(
    admin_client: Client,
    administrator: User,
    conversation: Conversation,
    bob: User,
    upstream: Upstream,
    settings: Any,
    subtests: pytest.Subtests,
) -> None:
    settings.TIME_ZONE = "Europe/Madrid"
    run = answer(ask(conversation, bob, "When?"), "Then.", upstream=upstream)
    Run.objects.filter(pk=run.pk).update(queued_at=datetime(2026, 11, 21, 23, 19, tzinfo=UTC))

    give_reason(administrator, conversation)

    for url in (list_url("run"), row_url(run), row_url(conversation)):
        with subtests.test(url):
            page = text_of(admin_client, url)

            assert re.search(r">Nov 22, (2026, )?12:19 AM CET</time>", page)
            assert not re.search(r">[^<]*\d:\d\d [AP]M(?! CES?T)", page)


# --- cost --------------------------------------------------------------------------------------


@pytest.fixture
def makers(
    alice: User, team: Team, upstream: Upstream, private_conversation: Conversation
) -> dict[str, Callable[[str], object]]:
    """Functions that make one row of each kind, with everything that its list shows."""

    def make_user(name: str) -> None:
        person = User.objects.create(email=f"{name}@example.org", name=name)
        Membership.objects.create(team=team, user=person)
        Conversation.objects.create(team=team, owner=person, title=name)

    def make_conversation(name: str) -> None:
        made = Conversation.objects.create(team=team, owner=alice, title=name)
        answer(ask(made, alice, "Question?"), "Answer.", upstream=upstream)

    def make_run(name: str) -> None:
        answer(ask(private_conversation, alice, name), "Answer.", upstream=upstream)

    def make_invitation(name: str) -> None:
        Invitation.objects.create(
            team=team, invited_by=alice, token_hash=name, expires_at=timezone.now()
        )

    def make_upstream(name: str) -> None:
        Upstream.objects.create(
            name=name, dialect="lmstudio", base_url="http://a.example", created_by=alice
        )

    return {
        "conversation": make_conversation,
        "run": make_run,
        "user": make_user,
        "team": lambda name: Team.objects.create(name=name),
        "invitation": make_invitation,
        "upstream": make_upstream,
        "runner": lambda name: Runner.objects.create(host=name, pid=1),
        "auditevent": lambda name: AuditEvent.objects.create(verb=name, actor=alice, subject=alice),
    }


def test_lists_cost_the_same_queries_for_one_row_and_twenty(
    admin_client: Client,
    makers: dict[str, Callable[[str], object]],
    subtests: pytest.Subtests,
) -> None:
    for model, make in makers.items():
        with subtests.test(model), transaction.atomic():
            url = list_url(model)
            make("first")
            admin_client.get(url)
            with CaptureQueriesContext(connection) as few:
                admin_client.get(url)
            for number in range(20):
                make(f"n{number}")

            with CaptureQueriesContext(connection) as many:
                response = admin_client.get(url)

            assert len(response.context["cl"].result_list) >= 20
            assert len(many) <= len(few)
            transaction.set_rollback(True)
