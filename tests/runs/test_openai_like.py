"""Legacy completions, Bitseek and a particular vendor of chat completions, through a real runner."""

from __future__ import annotations

import uuid

import pytest

from chat import events as canonical
from chat.actions import conversations as verbs
from chat.actions import questions, tools
from chat.actions.conversations import ModelChoice
from chat.demo import prose, vendor_models
from chat.demo.fake import FakeUpstream
from chat.demo.script import chunk, openai_chunks, stream
from chat.models import Attempt, Question, Run, Team, Tool, Upstream, User
from chat.result import plain_text
from tests.runs.conftest import StartRunner, threads
from tests.runs.test_execution import until_ended

NO_ID = {"function": {"name": "tide", "arguments": "{}"}}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What people do rings at the process's own door; the runners here have doors of theirs."""
    monkeypatch.setattr("chat.runs.runner.POLL_SECONDS", 0.02)


def begin(
    upstream: Upstream,
    user: User,
    team: Team,
    text: str,
    *,
    base_url: str,
    dialect: str,
    model: str,
    offered: list[Tool] | None = None,
    **parameters: object,
) -> Run:
    Upstream.objects.filter(pk=upstream.pk).update(base_url=base_url, dialect=dialect)
    upstream.refresh_from_db()
    choice = ModelChoice(upstream=upstream, model=model, parameters=parameters)
    return verbs.start_conversation(
        user, team, text=text, choice=choice, idempotency_key=uuid.uuid4(), tools=offered or []
    )


def make_tool(user: User, team: Team) -> Tool:
    schema = '{"type": "object", "properties": {"place": {"type": "string"}}}'
    return tools.create_tool(user, team, name="tide", description="Now", schema=schema)


def text_of(run: Run) -> str:
    return plain_text(canonical.decode_result(run.result))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("dialect", "path", "model", "parameters"),
    [
        ("openai_completions", "/completions/v1", "tributary/demo-base", {"max_tokens": 5000}),
        ("bitseek", "/bitseek/v1", "whatever", {"web_search": "auto"}),
    ],
)
async def test_an_answer_arrives(
    fake: FakeUpstream,
    start_runner: StartRunner,
    upstream: Upstream,
    alice: User,
    team: Team,
    dialect: str,
    path: str,
    model: str,
    parameters: dict[str, object],
) -> None:
    server = {"base_url": f"{fake.url}{path}", "dialect": dialect, "model": model}
    run = await threads.call(begin, upstream, alice, team, "a table", **server, **parameters)

    await start_runner()
    ended = await until_ended(run)

    assert ended.status == "completed"
    assert text_of(ended) == prose.TABLE.strip()
    assert fake.posts == 1


@pytest.mark.django_db(transaction=True)
async def test_a_server_that_wants_its_reasoning_back_is_asked_again_with_it(
    fake: FakeUpstream, start_runner: StartRunner, upstream: Upstream, alice: User, team: Team
) -> None:
    tide = await threads.call(make_tool, alice, team)
    server = {"base_url": f"{fake.url}/v1", "dialect": "openai_chat"}
    model = vendor_models.DEEPSEEK
    run = await threads.call(
        begin, upstream, alice, team, "tool", **server, model=model, offered=[tide]
    )
    await start_runner()
    waiting = await until_ended(run)
    question = await threads.call(
        Question.objects.select_related("run__upstream", "conversation").get, run=waiting
    )

    follow_up = await threads.call(questions.give_result, alice, question, "2.4 m")
    assert follow_up is not None
    ended = await until_ended(follow_up)

    attempts = await threads.call(
        lambda: list(Attempt.objects.filter(run=ended).values_list("outcome", flat=True))
    )
    assert waiting.status == "waiting"
    assert ended.status == "completed"
    assert "2.4 m" in text_of(ended)
    assert attempts == ["refused", "eof"]
    (turn,) = (m for m in fake.requests[-1].body["messages"] if m["role"] == "assistant")
    assert turn["reasoning_content"] == prose.TOOL_THOUGHTS


@pytest.mark.django_db(transaction=True)
async def test_a_call_without_an_id_is_named_after_its_run(
    fake: FakeUpstream, start_runner: StartRunner, upstream: Upstream, alice: User, team: Team
) -> None:
    fake.script(
        stream(
            openai_chunks([chunk({"tool_calls": [NO_ID]}), chunk({}, finish_reason="tool_calls")])
        )
    )
    server = {"base_url": f"{fake.url}/v1", "dialect": "openai_chat", "model": "test/model"}
    run = await threads.call(begin, upstream, alice, team, "tool", **server)

    await start_runner()
    ended = await until_ended(run)

    (call,) = canonical.decode_result(ended.result).output
    assert call.call_id == f"call_{run.public_id.hex}_0"
