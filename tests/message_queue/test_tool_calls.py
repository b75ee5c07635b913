"""Messages behind an answer whose calls of tools run: it counts as one that is being written."""

from __future__ import annotations

import pytest
from django.test import Client

from chat.message_queue.states import QueueState
from chat.models import CallStatus, Run, ToolCall, ToolRule, User
from tests.message_queue.conftest import Queue, SendDue
from tests.runs.waiting import call, ended, result_of
from tests.support.rooms import Patches
from tests.tools.calling import give_result, make_tool, statuses


@pytest.fixture
def waiting(queue: Queue) -> Run:
    """The answer has ended with a call that runs."""
    room = queue.room.conversation
    room.tools.add(make_tool(room.team, rule=ToolRule.AUTO))
    Run.objects.filter(pk=queue.run.pk).update(tools=[{"name": "weather"}])
    return ended(queue.run, result_of(call("c1", city="Oslo")))


def test_message_waits_for_the_tool_and_the_rest_of_the_answer(
    as_bob: Client, queue: Queue, waiting: Run, send_due: SendDue
) -> None:
    response = queue.post(as_bob, "Next")
    assert QueueState.ANSWER.sentence in Patches(response).text("#queue")
    send_due()
    assert queue.said == ["First"]

    queue.run = give_result(waiting)
    send_due()
    assert queue.said == ["First"]
    queue.end()
    send_due()

    assert (queue.said, queue.waiting) == (["First", "Next"], [])


def test_send_now_stops_the_tool(
    as_alice: Client, as_bob: Client, queue: Queue, waiting: Run, send_due: SendDue, alice: User
) -> None:
    queue.post(as_bob, "Next")

    queue.act(as_alice, "send", "Next")
    send_due()

    assert statuses(waiting) == [("expired", "failed")]
    assert ToolCall.objects.get().status == CallStatus.FAILED
    assert (queue.said, queue.waiting) == (["First", "Next"], [])
    waiting.refresh_from_db()
    assert waiting.stop_requested_by == alice
