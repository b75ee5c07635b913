"""Answers over the Messages API that go on, through a real runner and the demo."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from chat.actions import conversations as verbs
from chat.actions import questions, tools
from chat.actions.conversations import ModelChoice
from chat.demo.fake import FakeUpstream
from chat.models import Question, Run, Team, Upstream, User
from chat.result import plain_text
from tests.runs.conftest import StartRunner, threads
from tests.runs.test_continuing import whole
from tests.runs.test_execution import until, until_ended
from tests.runs.waiting import runs_of

Ask = Callable[[FakeUpstream, str], Run]
SCHEMA = '{"type": "object", "properties": {"station": {"type": "string"}}}'


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chat.runs.runner.POLL_SECONDS", 0.02)


@pytest.fixture
def ask(transactional_db: None, alice: User, team: Team, upstream: Upstream) -> Ask:
    """Sends a message with a tool switched on, to the demo's thinker."""

    def send(fake: FakeUpstream, text: str) -> Run:
        Upstream.objects.filter(pk=upstream.pk).update(
            base_url=f"{fake.url}/anthropic/v1", dialect="anthropic_messages"
        )
        upstream.refresh_from_db()
        tool = tools.create_tool(alice, team, name="read_gauge", description="Now", schema=SCHEMA)
        return verbs.start_conversation(
            alice,
            team,
            text=text,
            choice=ModelChoice(upstream=upstream, model="tributary/demo-thinker"),
            idempotency_key=uuid.uuid4(),
            tools=[tool],
        )

    return send


async def until_completed(run: Run) -> list[Run]:
    """The runs of the answer, once its last one has come to a good end."""
    answer = run.message
    await until(lambda: Run.objects.filter(message=answer, status="completed").exists())
    return await threads.call(runs_of, answer)


def messages_of(fake: FakeUpstream) -> list[list[dict[str, object]]]:
    return [record.body["messages"] for record in fake.requests]


async def test_a_result_goes_back_beside_its_signed_thought(
    fake: FakeUpstream, ask: Ask, start_runner: StartRunner, alice: User
) -> None:
    run = await threads.call(ask, fake, "use the tool")
    await start_runner()
    waiting = await until_ended(run)
    assert waiting.status == "waiting"

    question = await threads.call(
        lambda: Question.objects.select_related("run__upstream", "conversation").get(run=run)
    )
    await threads.call(questions.give_result, alice, question, "level 4.2 m")
    runs = await until_completed(run)

    assert [run.status for run in runs] == ["waiting", "completed"]
    assert "level 4.2 m" in plain_text(await threads.call(whole, run))
    _, said, given = messages_of(fake)[-1]
    assert [block["type"] for block in said["content"]] == ["thinking", "text", "tool_use"]
    assert [block["type"] for block in given["content"]] == ["tool_result"]


async def test_a_pause_goes_on_by_itself_and_is_one_answer(
    fake: FakeUpstream, ask: Ask, start_runner: StartRunner
) -> None:
    run = await threads.call(ask, fake, "search with a pause")
    await start_runner()
    runs = await until_completed(run)

    assert [run.status for run in runs] == ["incomplete", "incomplete", "completed"]
    assert "Two pairs nest above the weir" in plain_text(await threads.call(whole, run))
    assert [len(messages) for messages in messages_of(fake)] == [1, 2, 2]
    last = messages_of(fake)[-1][-1]
    assert last["role"] == "assistant"
    assert last["content"][-1]["type"] == "server_tool_use"
