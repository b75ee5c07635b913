"""The shared instructions of a project: in the requests of all dialects, before the conversation's
own system prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from django.test import Client

from chat.dialects import DIALECTS
from chat.models import (
    Conversation,
    Project,
    ProjectAccess,
    Run,
    RunInstructions,
    RunStatus,
    Team,
    User,
    Visibility,
)
from chat.runs.prompt import prepare
from tests.runs.helpers import send_below
from tests.support.run_fixtures import MakeRun

SignIn = Callable[[User], Client]

pytestmark = pytest.mark.databases(slow=True)

OURS, OWN = "Answer in German.", "Be brief."

# Where the request of each dialect has the instructions.
SYSTEM_TEXTS: dict[str, Callable[[Any], Any]] = {
    "anthropic_messages": lambda body: body["system"],
    "bitseek": lambda body: body["messages"][0]["content"],
    "lmstudio": lambda body: body["system_prompt"],
    "openai_chat": lambda body: body["messages"][0]["content"],
    "openai_completions": lambda body: body["prompt"].partition("\n\nUser:")[0],
    "openai_responses": lambda body: body["instructions"],
    "xerotier": lambda body: body["messages"][0]["content"],
}


@pytest.fixture
def project(team: Team) -> Project:
    return Project.objects.create(team=team, name="Rivers", instructions=OURS)


def put_into(run: Run, project: Project | None) -> None:
    Conversation.objects.filter(pk=run.conversation_id).update(
        project=project, visibility=Visibility.PROJECT if project else Visibility.PRIVATE
    )


def sent_text(run: Run) -> str:
    return prepare(run.pk).prompt.system


def recorded(run: Run) -> Sequence[tuple[int, str]]:
    return list(RunInstructions.objects.filter(run=run).values_list("project", "text"))


@pytest.mark.databases(only="sqlite")
def test_every_dialect_sends_them_first(
    make_run: MakeRun, project: Project, subtests: pytest.Subtests
) -> None:
    assert SYSTEM_TEXTS.keys() == DIALECTS.keys()
    for dialect, system_text in SYSTEM_TEXTS.items():
        with subtests.test(dialect):
            run = make_run(dialect=dialect, choice={"system_prompt": OWN})
            put_into(run, project)

            assignment = prepare(run.pk)

            body = msgspec.json.decode(assignment.dialect.request(assignment.prompt).body)
            assert system_text(body) == f"{OURS}\n\n{OWN}"


def test_each_stands_alone_where_the_other_is_empty(make_run: MakeRun, project: Project) -> None:
    outside, without_prompt = make_run(choice={"system_prompt": OWN}), make_run()
    put_into(without_prompt, project)

    assert sent_text(outside) == OWN
    assert sent_text(without_prompt) == OURS
    assert (recorded(outside), recorded(without_prompt)) == ([], [(project.pk, OURS)])


def test_move_applies_to_the_next_answer(make_run: MakeRun, project: Project) -> None:
    first = make_run()
    put_into(first, project)
    sent_text(first)
    Run.objects.update(status=RunStatus.COMPLETED)
    put_into(first, None)
    Project.objects.update(instructions="Answer in French.")

    second = send_below(first, "And then?")

    assert sent_text(second) == ""
    assert (recorded(first), recorded(second)) == ([(project.pk, OURS)], [])


def test_run_that_is_prepared_again_takes_the_new_ones(make_run: MakeRun, project: Project) -> None:
    run = make_run()
    put_into(run, project)
    sent_text(run)
    Project.objects.update(instructions="Answer in French.")

    assert sent_text(run) == "Answer in French."
    assert recorded(run) == [(project.pk, "Answer in French.")]


def test_only_runs_with_instructions_cost_a_statement(
    make_run: MakeRun, project: Project, django_assert_num_queries: Any
) -> None:
    outside, silent, inside = make_run(), make_run(), make_run()
    put_into(inside, project)
    put_into(silent, Project.objects.create(team=project.team, name="Lakes"))

    for run, statements in ((outside, 2), (silent, 2), (inside, 3)):
        with django_assert_num_queries(statements):
            prepare(run.pk)


# --- who reads what was sent -------------------------------------------------------------------


@pytest.mark.databases(only="sqlite")
def test_details_show_them_to_readers_of_the_project(
    signed_in: SignIn, make_run: MakeRun, project: Project, alice: User
) -> None:
    run = make_run(choice={"system_prompt": OWN})
    put_into(run, project)
    prepare(run.pk)
    address = f"/r/{run.public_id}/details/?tab=request"

    as_reader = signed_in(alice).get(address).content.decode()
    Project.objects.update(access=ProjectAccess.MEMBERS)
    as_owner = signed_in(alice).get(address).content.decode()

    assert (OURS in as_reader, project.name in as_reader) == (True, True)
    assert (OURS in as_owner, project.name in as_owner) == (False, False)
    assert "You don’t have access to the project." in as_owner


@pytest.mark.databases(only="sqlite")
def test_composer_names_the_project_to_its_readers(
    signed_in: SignIn, make_run: MakeRun, project: Project, alice: User
) -> None:
    run = make_run()
    put_into(run, project)
    address = f"/c/{run.conversation.public_id}/"

    as_reader = signed_in(alice).get(address).content.decode()
    Project.objects.update(access=ProjectAccess.MEMBERS)
    as_owner = signed_in(alice).get(address).content.decode()
    Project.objects.update(access=ProjectAccess.TEAM, instructions="")
    without = signed_in(alice).get(address).content.decode()

    said = "Project instructions apply:"
    assert [said in page for page in (as_reader, as_owner, without)] == [True, False, False]
