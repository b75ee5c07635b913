"""Answers over the Messages API that continue, through a real runner and the demo."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from chat.models import Run, Team, User
from chat.questions import actions
from chat.result import plain_text
from chat.tools import actions as tools
from tests.runs.helpers import threads, until, until_ended
from tests.runs.waiting import question_of, runs_of, whole
from tests.support.run_fixtures import Execute
from tests.support.upstream.fake import FakeUpstream

Ask = Callable[[str], Awaitable[Run]]
SCHEMA = '{"type": "object", "properties": {"station": {"type": "string"}}}'


@pytest.fixture
def ask(begin: Execute, alice: User, team: Team) -> Ask:
    """Sends a message with a tool switched on, to the demo's thinker."""

    async def send(text: str) -> Run:
        tool = await threads.call(
            tools.create_tool, alice, team, name="read_gauge", description="Now", schema=SCHEMA
        )
        choice = {"model": "tributary/demo-thinker"}
        return await begin(text=text, dialect="anthropic_messages", choice=choice, tools=[tool])

    return send


async def until_completed(run: Run) -> list[Run]:
    """The runs of the answer, once its last one has completed."""
    answer = run.message
    await until(lambda: Run.objects.filter(message=answer, status="completed").exists())
    return await threads.call(runs_of, answer)


def messages_of(fake: FakeUpstream) -> list[list[dict[str, object]]]:
    return [record.body["messages"] for record in fake.requests]


async def test_result_goes_back_beside_its_signed_thought(
    fake: FakeUpstream, ask: Ask, alice: User
) -> None:
    run = await ask("use the tool")
    assert (await until_ended(run)).status == "waiting"

    question = await threads.call(question_of, run)
    await threads.call(actions.give_result, alice, question, "level 4.2 m")
    runs = await until_completed(run)

    assert [run.status for run in runs] == ["waiting", "completed"]
    assert "level 4.2 m" in plain_text(await threads.call(whole, run))
    _, said, given = messages_of(fake)[-1]
    assert [block["type"] for block in said["content"]] == ["thinking", "text", "tool_use"]
    assert [block["type"] for block in given["content"]] == ["tool_result"]


async def test_pause_continues_by_itself_and_is_one_answer(fake: FakeUpstream, ask: Ask) -> None:
    run = await ask("search with a pause")
    runs = await until_completed(run)

    assert [run.status for run in runs] == ["incomplete", "incomplete", "completed"]
    assert "a room with 24 seats" in plain_text(await threads.call(whole, run))
    assert [len(messages) for messages in messages_of(fake)] == [1, 2, 2]
    last = messages_of(fake)[-1][-1]
    assert last["role"] == "assistant"
    assert last["content"][-1]["type"] == "server_tool_use"
