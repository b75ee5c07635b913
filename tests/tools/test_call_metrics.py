"""The metrics of calls: how they ended, and how long they took."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from chat.core import metrics
from chat.models import Conversation, Run, Team, ToolRule, Upstream, User
from chat.questions import actions as questions
from chat.runs.tool_calls import stop_calls
from chat.tools import calls, claims, endings
from chat.tools.kinds import CallFailed, CallOutput
from tests.tools.calling import call_of, claim, lost, make_tool, waiting_run

Capture = Callable[..., AbstractContextManager[Any]]
ENDINGS = {
    "done": CallOutput(text="Rain"),
    "failed": CallFailed("No connection"),
    "unknown": CallFailed("It was lost.", may_have_run=True),
}


def counted(kind: str, outcome: str) -> float:
    labels = {"kind": kind, "outcome": outcome}
    return metrics.REGISTRY.get_sample_value("tributary_tool_calls_total", labels) or 0


def timed() -> float:
    name = "tributary_tool_call_seconds_count"
    return metrics.REGISTRY.get_sample_value(name, {"kind": "http"}) or 0


@pytest.mark.parametrize("outcome", ENDINGS)
def test_ended_call_is_counted_and_timed(
    alice: User,
    team: Team,
    conversation: Conversation,
    upstream: Upstream,
    outcome: str,
    django_capture_on_commit_callbacks: Capture,
) -> None:
    conversation.tools.add(make_tool(team, rule=ToolRule.AUTO))
    (call,) = claim(waiting_run(alice, conversation, upstream, "weather"))
    assert claims.mark_sent(call.pk, call.claim)
    before, times = counted("http", outcome), timed()

    with django_capture_on_commit_callbacks(execute=True):
        assert endings.end_call(call.pk, call.claim, ENDINGS[outcome])

    assert counted("http", outcome) == before + 1
    # Nobody knows how long a lost call took.
    assert timed() == times + (outcome != "unknown")


def test_refused_calls_are_counted(
    alice: User,
    conversation: Conversation,
    team: Team,
    upstream: Upstream,
    django_capture_on_commit_callbacks: Capture,
) -> None:
    make_tool(team)
    before = counted("http", "refused"), counted("none", "refused")

    with django_capture_on_commit_callbacks(execute=True):
        waiting_run(alice, conversation, upstream, "weather", "nothing")

    assert (counted("http", "refused"), counted("none", "refused")) == tuple(
        each + 1 for each in before
    )


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (lambda user, run: calls.refuse(user, call_of(run)), "refused"),
        (lambda user, run: calls.give_result(user, call_of(run), "Rain"), "done"),
        (lambda user, run: questions.go_on_without(user, run), "refused"),
        (lambda user, run: (calls.approve(user, call_of(run)), stop_calls(user, run)), "failed"),
    ],
    ids=["refused", "given a result", "skipped", "stopped"],
)
def test_calls_that_people_end_are_counted(
    alice: User,
    conversation: Conversation,
    team: Team,
    upstream: Upstream,
    end: Callable[[User, Run], object],
    outcome: str,
    django_capture_on_commit_callbacks: Capture,
) -> None:
    conversation.tools.add(make_tool(team))
    run = waiting_run(alice, conversation, upstream, "weather")
    before = counted("http", outcome)

    with django_capture_on_commit_callbacks(execute=True):
        end(alice, run)

    assert counted("http", outcome) == before + 1


def test_call_that_may_have_run_is_counted_once(
    alice: User,
    conversation: Conversation,
    team: Team,
    upstream: Upstream,
    django_capture_on_commit_callbacks: Capture,
) -> None:
    conversation.tools.add(make_tool(team, rule=ToolRule.AUTO))
    run = waiting_run(alice, conversation, upstream, "weather")
    lost(run)
    before = counted("http", "done")

    with django_capture_on_commit_callbacks(execute=True):
        calls.give_result(alice, call_of(run), "Rain")

    assert counted("http", "done") == before
