"""Copies of an answer with calls ask again: an approval belongs to one call."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable

import pytest

from chat.forks.actions import fork
from chat.imports.actions import import_file
from chat.models import Conversation, Question, Run, Team, ToolCall, Upstream, User
from chat.tools import calls, claims, endings
from chat.tools.kinds import CallOutput
from tests.imports.test_tributary import exported
from tests.runs.helpers import retry
from tests.runs.waiting import call as item
from tests.runs.waiting import ended, result_of
from tests.tools.calling import calls_of, claim, follow_up_of, make_tool, statuses, waiting_run

Copy = Callable[[User, Team, Conversation], Conversation]


def _forked(user: User, team: Team, room: Conversation) -> Conversation:
    return fork(user, room, at=None, idempotency_key=uuid.uuid4())


def _imported(user: User, team: Team, room: Conversation) -> Conversation:
    before = set(Conversation.objects.values_list("pk", flat=True))
    report = import_file(user, team, io.BytesIO(exported(user, room)))
    assert report.created == 1
    return Conversation.objects.exclude(pk__in=before).get()


@pytest.fixture
def run(alice: User, team: Team, conversation: Conversation, upstream: Upstream) -> Run:
    """One call was approved and is running, the other one waits."""
    conversation.tools.add(make_tool(team))
    run = waiting_run(alice, conversation, upstream, "weather", "weather")
    calls.approve(alice, calls_of(run)[0])
    (claimed,) = claim(run)
    claims.mark_sent(claimed.pk, claimed.claim)
    assert statuses(run) == [("running", "running"), ("open", "approval")]
    return run


@pytest.mark.parametrize("copy", [_forked, _imported])
def test_copy_asks_about_each_call(
    run: Run, alice: User, team: Team, conversation: Conversation, copy: Copy
) -> None:
    room = copy(alice, team, conversation)

    copied = Run.objects.get(conversation=room)
    assert statuses(copied) == [("open", "approval")] * 2
    assert not ToolCall.objects.filter(question__run=copied, approved_by__isnull=False).exists()
    assert claim(copied) == []


@pytest.mark.parametrize("copy", [_forked, _imported])
def test_copied_call_runs_once_it_is_approved_there(
    run: Run, alice: User, team: Team, conversation: Conversation, copy: Copy
) -> None:
    room = copy(alice, team, conversation)
    Run.objects.filter(conversation=room).update(upstream=run.upstream)
    copied = Run.objects.get(conversation=room)

    for each in calls_of(copied):
        calls.approve(alice, each)
    for each in claim(copied):
        assert claims.mark_sent(each.pk, each.claim)
        endings.end_call(each.pk, each.claim, CallOutput(text="Rain"))

    assert follow_up_of(copied) is not None
    assert statuses(run) == [("running", "running"), ("open", "approval")]


def test_import_without_the_tool_is_asked_about_as_before(
    run: Run, alice: User, team: Team, other_team: Team, dana: User, conversation: Conversation
) -> None:
    before = io.BytesIO(exported(alice, conversation))

    import_file(dana, other_team, before)

    room = Conversation.objects.get(team=other_team)
    questions = Question.objects.filter(conversation=room)
    assert [each.status for each in questions] == ["open", "open"]
    assert not ToolCall.objects.filter(question__in=questions).exists()


def test_another_attempt_asks_again(run: Run) -> None:
    again = retry(run)
    Run.objects.filter(pk=again.pk).update(tools=run.tools)
    again.refresh_from_db()

    again = ended(again, result_of(item("c1", "weather", city="Oslo")))

    assert statuses(again) == [("open", "approval")]
