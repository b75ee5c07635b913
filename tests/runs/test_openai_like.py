"""Legacy completions, Bitseek and a vendor of chat completions, through a real runner."""

from __future__ import annotations

import pytest

from chat import events as canonical
from chat.demo import scenes
from chat.models import Attempt, Team, User
from chat.questions import actions
from chat.tools import actions as tools
from tests.runs.helpers import text_of, threads, until_ended
from tests.runs.waiting import question_of
from tests.support.run_fixtures import Execute
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import answer, chunk, openai_chunks, openai_run, stream

CALL = [
    chunk(
        {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "tide", "arguments": "{}"}}]}
    ),
    chunk({}, finish_reason="tool_calls"),
]
# DeepSeek's words.
WANTS_REASONING = "The `reasoning_content` in the thinking mode must be passed back to the API."
NO_ID = {"function": {"name": "tide", "arguments": "{}"}}
SCHEMA = '{"type": "object", "properties": {"place": {"type": "string"}}}'


@pytest.mark.parametrize(
    ("dialect", "model", "parameters"),
    [
        ("openai_completions", "tributary/demo-base", {"max_tokens": 5000}),
        ("bitseek", "whatever", {"web_search": "auto"}),
    ],
)
async def test_answer_arrives(
    fake: FakeUpstream, execute: Execute, dialect: str, model: str, parameters: dict[str, object]
) -> None:
    choice = {"model": model, "parameters": parameters}

    ended = await execute(text="a table", dialect=dialect, choice=choice)

    assert ended.status == "completed"
    assert text_of(ended) == scenes.text("table.md").strip()
    assert fake.posts == 1


async def test_server_that_wants_its_reasoning_back_gets_it(
    fake: FakeUpstream, execute: Execute, alice: User, team: Team
) -> None:
    tide = await threads.call(
        tools.create_tool, alice, team, name="tide", description="Now", schema=SCHEMA
    )
    refusal = {"error": {"message": WANTS_REASONING, "type": "invalid_request_error"}}
    scripts = [
        stream(openai_chunks([chunk({"reasoning_content": "Where?"}), *CALL])),
        answer(refusal, status=400),
        stream(openai_chunks(openai_run("It is 2.4 m."))),
    ]
    waiting = await execute(*scripts, text="tool", dialect="openai_chat", tools=[tide])

    question = await threads.call(question_of, waiting)
    follow_up = await threads.call(actions.give_result, alice, question, "2.4 m")
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
    assert turn["reasoning_content"] == "Where?"


async def test_call_without_an_id_is_named_after_its_run(execute: Execute) -> None:
    chunks = [chunk({"tool_calls": [NO_ID]}), chunk({}, finish_reason="tool_calls")]

    ended = await execute(stream(openai_chunks(chunks)), text="tool", dialect="openai_chat")

    (call,) = canonical.decode_result(ended.result).output
    assert call.call_id == f"call_{ended.public_id.hex}_0"
