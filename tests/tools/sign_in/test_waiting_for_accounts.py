"""Calls that wait until their person has an account."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone

from chat.core.errors import ActionRefused
from chat.models import (
    CallStatus,
    Conversation,
    Message,
    Run,
    Team,
    Tool,
    ToolAccount,
    ToolRule,
    Upstream,
    User,
)
from chat.runs.resume import read_inputs
from chat.runs.tool_calls import NOT_CONNECTED
from chat.tools import calls, endings
from chat.tools.kinds import (
    NeedsSignIn,
)
from tests.tools.calling import (
    call_of,
    claim,
    follow_up_of,
    give_result,
    lost,
    sent,
    statuses,
    waiting_run,
)
from tests.tools.sign_in.conftest import Connect
from tests.tools.sign_in.personal import (
    Ask,
    card,
    end,
)

pytestmark = pytest.mark.django_db


def stop(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(stop_requested_at=timezone.now())


def add_message_after(run: Run, parent: Message | None) -> None:
    Message.objects.create(conversation=run.conversation, parent=parent, role=run.message.role)


@pytest.mark.parametrize(
    ("person", "is_at_card", "meanwhile", "runs"),
    [
        ("Alice", True, None, True),
        ("Alice", False, None, False),
        ("Bob", False, None, False),
        ("Alice", True, stop, False),
        # Somebody has replied to the answer, or has it answered anew.
        ("Alice", True, lambda run: add_message_after(run, run.message), False),
        ("Alice", True, lambda run: add_message_after(run, run.message.parent), False),
    ],
)
def test_sign_in_lets_a_call_run_by_its_rule_only_at_its_card(
    person: str,
    is_at_card: bool,
    meanwhile: Callable[[Run], None] | None,
    runs: bool,
    ask: Ask,
    connect: Connect,
) -> None:
    Tool.objects.update(rule=ToolRule.AUTO)
    run = ask()
    assert statuses(run) == [("open", "approval")]
    assert call_of(run).error == NOT_CONNECTED
    if meanwhile is not None:
        meanwhile(run)

    connect(User.objects.get(name=person), question=call_of(run).question if is_at_card else None)

    if runs:
        assert statuses(run) == [("running", "queued")]
        assert read_inputs(give_result(run))[0].output == "Rain"
    else:
        assert statuses(run) == [("open", "approval")]
        assert claim(run) == []


def test_call_that_asks_still_asks_once_there_is_an_account(
    run: Run, alice: User, connect: Connect
) -> None:
    with pytest.raises(ActionRefused, match="needs an account"):
        calls.approve(alice, call_of(run))

    connect(alice)

    assert statuses(run) == [("open", "approval")]
    calls.approve(alice, call_of(run))
    assert statuses(run) == [("running", "queued")]


def test_approved_call_whose_sign_in_ended_runs_after_the_next_one(
    run: Run, alice: User, connect: Connect
) -> None:
    connect(alice)
    calls.approve(alice, call_of(run))
    running = sent(run)
    ToolAccount.objects.update(problem="over")

    end(running, NeedsSignIn("over"))
    call = call_of(run)
    assert (call.status, call.sent_at, call.question.status) == ("approval", None, "open")
    assert follow_up_of(run) is None

    connect(alice, question=call.question)

    assert statuses(run) == [("running", "queued")]


def test_sign_in_runs_no_call_of_another_card(
    alice: User, ask: Ask, connect: Connect, client: Client
) -> None:
    Tool.objects.update(rule=ToolRule.AUTO)
    at_card, other, shown = runs = [ask() for _ in range(3)]

    # On the settings page.
    connect(alice)
    assert [statuses(each) for each in runs] == [[("open", "approval")]] * 3
    ToolAccount.objects.all().delete()
    connect(alice, question=call_of(at_card).question)

    assert statuses(at_card) == [("running", "queued")]
    assert statuses(other) == statuses(shown) == [("open", "approval")]
    # Its card asks, and no longer for an account.
    assert f"/q/{call_of(shown).question.public_id}/approve/" in card(client, alice, shown)
    assert NOT_CONNECTED not in card(client, alice, shown)


def test_account_that_ends_changes_the_rooms_of_all_calls_that_wait(
    run: Run, alice: User, upstream: Upstream, team: Team, tool: Tool, connect: Connect
) -> None:
    connect(alice)
    elsewhere = Conversation.objects.create(owner=alice, team=team)
    elsewhere.tools.add(tool)
    waiting_run(alice, elsewhere, upstream, "whoami")
    calls.approve(alice, call_of(run))
    [claimed] = claim(run)
    ToolAccount.objects.update(problem="over")
    elsewhere.refresh_from_db()
    before = elsewhere.revision

    endings.end_call(claimed.pk, claimed.claim, NeedsSignIn("over"))

    elsewhere.refresh_from_db()
    assert elsewhere.revision > before


def test_call_that_may_have_run_stays_a_question_about_that(
    client: Client, run: Run, alice: User, connect: Connect
) -> None:
    connect(alice)
    calls.approve(alice, call_of(run))
    lost(run)
    ToolAccount.objects.all().delete()

    page = card(client, alice, run)

    assert "Did <code>whoami</code> run?" in page
    assert "needs an account" not in page


def test_receipt_names_the_person(run: Run, alice: User, connect: Connect) -> None:
    connect(alice)
    calls.approve(alice, call_of(run))

    [given] = read_inputs(give_result(run, "You are ana"))

    assert given.execution is not None
    assert given.execution.credential == "Alice"
    assert statuses(run) == [("answered", CallStatus.DONE)]
