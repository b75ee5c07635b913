"""Requests that wait for the calls of an answer: until when, and what each look at them costs."""

from __future__ import annotations

import json

from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from chat.models import Conversation, Run, Team, Upstream, User
from chat.public_api.answer_stream import AnswerStream
from chat.public_api.call_waiting import CallsState, calls_state
from tests.runs.helpers import threads
from tests.tools.calling import make_tool, statuses, waiting_run


def asking_run(user: User, team: Team, conversation: Conversation, upstream: Upstream) -> Run:
    conversation.tools.add(make_tool(team))
    return waiting_run(user, conversation, upstream, "weather")


async def test_stream_ends_with_waiting_after_the_longest_wait(
    transactional_db: None,
    alice: User,
    team: Team,
    conversation: Conversation,
    upstream: Upstream,
    settings: Settings,
) -> None:
    settings.API_CALL_WAIT_SECONDS = 0.05
    run = await threads.call(asking_run, alice, team, conversation, upstream)
    stream = AnswerStream(run.public_id, stores=True, room=conversation.public_id)

    text = b"".join([body async for body in stream.bodies()]).decode()

    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    ends = [each for each in events if each["type"] == "chat.end"]
    assert [each["result"]["ext"]["status"] for each in ends] == ["waiting"]
    assert await threads.call(statuses, run) == [("open", "approval")]


def test_look_at_calls_reads_no_results(
    alice: User, team: Team, conversation: Conversation, upstream: Upstream
) -> None:
    run = asking_run(alice, team, conversation, upstream)

    with CaptureQueriesContext(
        connection,
    ) as queries:
        state = calls_state(run.public_id)

    assert state == CallsState(is_waiting=True)
    assert len(queries) <= 3
    assert not any('"result"' in query["sql"] for query in queries)
