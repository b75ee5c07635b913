from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from chat.models import Conversation, Run, RunStatus, Team, Upstream, User, Visibility
from tests.admin.conversations import answer, ask


def found(client: Client, **query: object) -> list[str]:
    """The titles in the list, for a search and filters."""
    response = client.get(reverse("admin:chat_conversation_changelist"), query)
    assert response.status_code == 200, response.headers
    return [row.title for row in response.context["cl"].result_list]


@pytest.fixture
def history(
    alice: User, bob: User, dana: User, team: Team, other_team: Team, upstream: Upstream
) -> None:
    """Three conversations of two teams."""
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


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("words", "titles"),
    [
        ("flood", ["Flood"]),
        ("dana", ["Glacier"]),
        ("dana@example.org", ["Glacier"]),
        ("alice", ["Flood", "Mill"]),
        ("spring", ["Mill"]),
        ("mill", ["Mill"]),
        ("behind", ["Mill"]),
        ("“old”", ["Mill"]),
        ('"quoted"', ["Flood"]),
        ("\\", ["Flood"]),
        ("dry", ["Flood"]),
        ("100%", ["Flood"]),
        ("wet_or", ["Flood"]),
        ("%", ["Flood"]),
        ("alice spring", ["Mill"]),
        ("bob spring", []),
        ("model_instance_id", []),
        ("stats", []),
        ("nowhere", []),
        ("   ", ["Flood", "Glacier", "Mill"]),
        ("' OR 1=1 --", []),
    ],
)
def test_search_finds_people_titles_and_words(
    admin_client: Client, words: str, titles: list[str]
) -> None:
    assert sorted(found(admin_client, q=words)) == titles


def test_search_words_with_a_nul_are_no_error(admin_client: Client) -> None:
    assert found(admin_client, q="a\x00b") == []


@pytest.mark.skipif(
    not settings.IS_SQLITE, reason="PostgreSQL before 16 cannot ask whether a text is JSON"
)
def test_search_bears_a_result_that_is_no_json(admin_client: Client, shared_run: Run) -> None:
    Run.objects.update(result="{broken")

    assert found(admin_client, q="delta") == ["Shared"]
    assert found(admin_client, q="miles") == []


@pytest.mark.parametrize("result", ["", "[]", '{"output": null}', '{"output": [1, {}]}'])
def test_search_bears_a_result_without_words(
    admin_client: Client, shared_run: Run, result: str
) -> None:
    Run.objects.update(result=result)

    assert found(admin_client, q="miles") == []


def test_search_reads_the_contents_and_not_the_rest_of_a_result(
    admin_client: Client, shared_run: Run
) -> None:
    result = json.loads(shared_run.result)
    result["ext"]["native"] = {"signature": "hidden"}
    Run.objects.update(result=json.dumps(result))

    assert found(admin_client, q="hidden") == []
    assert found(admin_client, q="miles") == ["Shared"]


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("query", "titles"),
    [
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
    ],
)
def test_filters_narrow_the_list(
    admin_client: Client, query: dict[str, str], titles: list[str]
) -> None:
    assert sorted(found(admin_client, **query)) == titles


@pytest.mark.usefixtures("history")
def test_a_person_is_who_began_it_or_wrote_in_it(
    admin_client: Client, alice: User, dana: User
) -> None:
    assert sorted(found(admin_client, person=alice.pk)) == ["Flood", "Mill"]
    assert found(admin_client, person=dana.pk) == ["Glacier"]


@pytest.mark.usefixtures("history")
def test_the_team_and_the_date_narrow_the_list(
    admin_client: Client, team: Team, other_team: Team
) -> None:
    long_ago = timezone.now().replace(year=2001)
    Conversation.objects.filter(title="Mill").update(updated_at=long_ago)

    assert sorted(found(admin_client, team__id__exact=team.pk)) == ["Flood", "Mill"]
    assert found(admin_client, team__id__exact=other_team.pk) == ["Glacier"]
    assert found(admin_client, updated_at__year=2001) == ["Mill"]


@pytest.mark.usefixtures("history")
def test_the_list_shows_turns_and_the_last_run(admin_client: Client) -> None:
    response = admin_client.get(reverse("admin:chat_conversation_changelist"))

    rows = {row.title: row for row in response.context["cl"].result_list}
    assert rows["Flood"].turn_total == 2
    assert rows["Flood"].last_run_model == "other/model"
    assert rows["Flood"].last_run_status == RunStatus.FAILED
    assert rows["Glacier"].turn_total == 0
    assert rows["Glacier"].last_run_status is None


@pytest.mark.parametrize(
    ("counts", "shown"),
    [((None, None), "–"), ((1200, 34), "1,200 read, 34 written"), ((None, 5), "? read, 5 written")],
)
def test_the_list_of_runs_shows_figures_that_somebody_reported(
    admin_client: Client, shared_run: Run, counts: tuple[int | None, int | None], shown: str
) -> None:
    Run.objects.update(input_tokens=counts[0], output_tokens=counts[1])

    page = admin_client.get(reverse("admin:chat_run_changelist")).content.decode()

    assert f'<td class="field-tokens">{shown}</td>' in page


@pytest.mark.parametrize("order", range(1, 10))
def test_every_column_sorts(admin_client: Client, history: None, order: int) -> None:
    assert len(found(admin_client, o=str(order))) == 3


@pytest.mark.parametrize(
    "model",
    ["conversation", "run", "user", "team", "invitation", "upstream", "runner", "auditevent"],
)
def test_a_list_costs_the_same_queries_for_one_row_and_for_twenty(
    model: str,
    admin_client: Client,
    make_rows: dict[str, object],
) -> None:
    make = make_rows[model]
    make(1)  # type: ignore[operator]
    address = reverse(f"admin:chat_{model}_changelist")
    admin_client.get(address)
    with CaptureQueriesContext(connection) as few:
        admin_client.get(address)
    make(20)  # type: ignore[operator]

    with CaptureQueriesContext(connection) as many:
        response = admin_client.get(address)

    assert len(response.context["cl"].result_list) >= 20
    assert len(many) <= len(few)


@pytest.fixture
def make_rows(
    alice: User, team: Team, upstream: Upstream, private_conversation: Conversation
) -> dict[str, object]:
    """Functions that make rows of each kind."""
    from chat.models import AuditEvent, Invitation, Membership, Runner

    def people(count: int) -> None:
        start = User.objects.count()
        for number in range(start, start + count):
            person = User.objects.create(email=f"p{number}@example.org", name=f"P{number}")
            Membership.objects.create(team=team, user=person)
            Conversation.objects.create(team=team, owner=person, title=f"C{number}")

    def conversations(count: int) -> None:
        for number in range(count):
            made = Conversation.objects.create(team=team, owner=alice, title=f"C{number}")
            answer(ask(made, alice, "Question?"), "Answer.", upstream=upstream)

    def runs(count: int) -> None:
        question = ask(private_conversation, alice, "Question?")
        for _ in range(count):
            answer(question, "Answer.", upstream=upstream)

    def invitations(count: int) -> None:
        start = Invitation.objects.count()
        for number in range(start, start + count):
            Invitation.objects.create(
                team=team,
                invited_by=alice,
                token_hash=f"{number:064}",
                expires_at=timezone.now(),
            )

    def upstreams(count: int) -> None:
        start = Upstream.objects.count()
        for number in range(start, start + count):
            Upstream.objects.create(
                name=f"S{number}", dialect="lmstudio", base_url="http://a.example", created_by=alice
            )

    return {
        "conversation": conversations,
        "run": runs,
        "user": people,
        "team": lambda count: [Team.objects.create(name=f"T{number}") for number in range(count)],
        "invitation": invitations,
        "upstream": upstreams,
        "runner": lambda count: [
            Runner.objects.create(host="river", pid=number) for number in range(count)
        ],
        "auditevent": lambda count: [
            AuditEvent.objects.create(verb="test", actor=alice, subject=alice) for _ in range(count)
        ],
    }


def test_lists_have_the_day_before_the_month_and_a_clock_of_24_hours(
    admin_client: Client, conversation: Conversation, bob: User, upstream: Upstream
) -> None:
    run = answer(ask(conversation, bob, "When?"), "Then.", upstream=upstream)
    Run.objects.filter(pk=run.pk).update(queued_at=datetime(2026, 11, 21, 23, 19, tzinfo=UTC))

    page = admin_client.get(reverse("admin:chat_run_changelist")).content.decode()

    assert "21 November 2026, 23:19" in page
