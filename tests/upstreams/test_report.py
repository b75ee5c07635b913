"""The connection test says what a server really sends, and which settings fit it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping

import httpx
import pytest

from chat.demo.fake import FakeUpstream
from chat.demo.script import Close, Flood, Hang, Script, answer, json_bytes, openai_chunks, stream
from chat.dialects import DIALECTS
from chat.upstreams import hearing
from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.advice import Advice
from chat.upstreams.client import open_client
from chat.upstreams.probe import Step, Target, probe

KEY = "sk-canary-0123456789abcdef"
USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with open_client(AddressPolicy.parse("any")) as client:
        yield client


@pytest.fixture
async def fake() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as fake:
        yield fake


def chunk(delta: Mapping[str, object] | None = None, **members: object) -> dict[str, object]:
    finish = members.pop("finish_reason", None)
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    choices = [] if delta is None and finish is None else [choice]
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": choices,
    } | members


def words(*texts: str, member: str = "content") -> list[dict[str, object]]:
    return [chunk({member: text}) for text in texts]


FINISH = chunk({}, finish_reason="stop")
COUNTED = openai_chunks([*words("one ", "two"), FINISH, chunk(usage=USAGE)])


async def report(
    client: httpx.AsyncClient,
    fake: FakeUpstream,
    *scripts: Script,
    dialect: str = "openai_chat",
    path: str = "/v1",
    model: str = "m",
    **options: object,
) -> dict[str, Step]:
    fake.script(*scripts)
    target = Target(
        base_url=f"{fake.url}{path}",
        dialect=DIALECTS[dialect],
        key=KEY,
        model=model,
        options=options,
    )
    steps = probe(client, AddressPolicy.parse("any"), target)
    return {step.name: step async for step in steps if step.state != "running"}


def facts_of(step: Step) -> dict[str, str]:
    return dict(step.facts)


def advised(steps: Mapping[str, Step]) -> dict[str, object]:
    return {each.name: each.value for step in steps.values() for each in step.advice}


# --- facts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "fact"),
    [
        pytest.param(COUNTED, "[DONE]", id="marker"),
        pytest.param(
            openai_chunks([*words("one"), FINISH], is_done=False),
            "a finish reason, then the connection closes; no [DONE]",
            id="finish reason alone",
        ),
        pytest.param(
            openai_chunks(words("one"), is_done=False),
            "none: the connection just closes",
            id="none",
        ),
    ],
)
async def test_the_end_of_the_stream_is_told(
    client: httpx.AsyncClient, fake: FakeUpstream, body: bytes, fact: str
) -> None:
    steps = await report(client, fake, stream(body))

    assert facts_of(steps["answer"])["End"] == fact


@pytest.mark.parametrize(
    ("chunks", "fact"),
    [
        pytest.param([*words("a"), FINISH], "none", id="none"),
        pytest.param(
            [*words("a"), FINISH, chunk(usage=USAGE)],
            "once, in chunk: usage",
            id="chunk of its own",
        ),
        pytest.param(
            [*words("a"), chunk({}, finish_reason="stop", usage=USAGE)],
            "once, in chunk: finish_reason",
            id="with the finish reason",
        ),
        pytest.param(
            [chunk({"content": "a"}, usage=USAGE)] * 3 + [FINISH],
            "in 3 events (chunk: content); the last one counts",
            id="on every chunk",
        ),
    ],
)
async def test_where_the_token_counts_stand_is_told(
    client: httpx.AsyncClient, fake: FakeUpstream, chunks: list[dict[str, object]], fact: str
) -> None:
    steps = await report(client, fake, stream(openai_chunks(chunks)))

    assert facts_of(steps["answer"])["Token counts"] == fact


@pytest.mark.parametrize(
    ("chunks", "fact"),
    [
        pytest.param(words("a"), "none in this answer", id="none"),
        pytest.param(
            words("hm", member="reasoning_content") + words("a"),
            "in the member reasoning_content",
            id="reasoning_content",
        ),
        pytest.param(
            words("hm", member="reasoning") + words("a"), "in the member reasoning", id="reasoning"
        ),
        pytest.param(
            words("<thi", "nk>hm</thi", "nk>a"), "inside the text, in <think> tags", id="tags"
        ),
        pytest.param(
            words("hm</thi", "nk>a"),
            "inside the text, with only the closing </think> tag",
            id="closing tag",
        ),
    ],
)
async def test_where_the_reasoning_stands_is_told(
    client: httpx.AsyncClient, fake: FakeUpstream, chunks: list[dict[str, object]], fact: str
) -> None:
    steps = await report(client, fake, stream(openai_chunks([*chunks, FINISH])))

    assert facts_of(steps["answer"])["Reasoning"] == fact


async def test_heartbeats_and_unknown_events_are_told(
    client: httpx.AsyncClient, fake: FakeUpstream
) -> None:
    strange = [{"type": "x_odd", "n": 1}, chunk({"content": "a"}, mood="calm")]
    steps = await report(
        client, fake, stream(b": wait\n\n: wait\n\n", openai_chunks([*strange, FINISH]))
    )

    facts = facts_of(steps["answer"])
    assert facts["Heartbeats"] == "comments × 2"
    assert facts["Unknown events"] == "x_odd × 1, chunk.mood × 1"
    seen = {kind.name: kind for kind in steps["answer"].seen}
    assert json.loads(seen["x_odd"].sample) == {"type": "x_odd", "n": 1}
    assert seen["[DONE]"].is_known


def call(*fragments: str) -> list[dict[str, object]]:
    first = {"index": 0, "id": "a", "type": "function"}
    deltas = [
        {**(first if number == 0 else {"index": 0}), "function": function(number, fragment)}
        for number, fragment in enumerate(fragments)
    ]
    return [chunk({"tool_calls": [delta]}) for delta in deltas] + [
        chunk({}, finish_reason="tool_calls")
    ]


def function(number: int, fragment: str) -> dict[str, str]:
    return {"arguments": fragment, **({"name": "local_time"} if number == 0 else {})}


@pytest.mark.parametrize(
    ("chunks", "fact"),
    [
        pytest.param(call('{"city":', '"Oslo"', "}"), "in pieces", id="pieces"),
        pytest.param(call('{"city":"Oslo"}'), "whole, in one piece", id="whole"),
        pytest.param(
            [*words("Noon."), FINISH], "none: the model did not call the tool", id="no call"
        ),
    ],
)
async def test_how_tool_calls_come_is_told(
    client: httpx.AsyncClient, fake: FakeUpstream, chunks: list[dict[str, object]], fact: str
) -> None:
    steps = await report(client, fake, stream(COUNTED), stream(openai_chunks(chunks)))

    assert steps["tools"].state == "ok"
    assert facts_of(steps["tools"]) == {"Tool arguments": fact}
    offered = fake.requests[-1].body["tools"]
    assert [tool["function"]["name"] for tool in offered] == ["local_time"]


async def test_a_server_that_refuses_tools_has_still_passed(
    client: httpx.AsyncClient, fake: FakeUpstream
) -> None:
    no_tools = {"error": {"message": f"tools are not supported for {KEY}"}}
    steps = await report(client, fake, stream(COUNTED), answer(no_tools, status=400))

    assert steps["answer"].state == "ok"
    assert steps["tools"].state == "skipped"
    assert "tools are not supported" in steps["tools"].detail
    assert KEY not in repr(steps)


@pytest.mark.parametrize(
    ("dialect", "path", "end"),
    [
        ("lmstudio", "", "the event chat.end"),
        ("openai_chat", "/v1", "[DONE]"),
        ("anthropic_messages", "/anthropic/v1", "the event message_stop"),
        ("openai_completions", "/completions/v1", "[DONE]"),
        ("xerotier", "/xerotier/proj_demo/river/v1", "[DONE]"),
    ],
)
async def test_every_dialect_of_the_demo_is_reported(
    client: httpx.AsyncClient, fake: FakeUpstream, dialect: str, path: str, end: str
) -> None:
    steps = await report(client, fake, dialect=dialect, path=path, model="")

    facts = facts_of(steps["answer"])
    assert steps["answer"].state == "ok"
    assert facts["End"] == end
    assert facts["Unknown events"] == "none"
    assert facts["Token counts"] != "none"
    assert facts["Content type"].startswith("text/event-stream")


async def test_a_server_without_models_counts_or_marker_is_reported_too(
    client: httpx.AsyncClient, fake: FakeUpstream
) -> None:
    body = openai_chunks([*words("one ", "two"), FINISH], is_done=False)
    steps = await report(client, fake, stream(body), dialect="bitseek", model="")

    facts = facts_of(steps["answer"])
    assert (steps["models"].state, steps["answer"].state) == ("skipped", "ok")
    assert facts["End"] == "a finish reason; no [DONE] is waited for"
    assert facts["Token counts"] == "none"


async def test_an_answer_in_one_piece_is_told(
    client: httpx.AsyncClient, fake: FakeUpstream
) -> None:
    message = {"role": "assistant", "content": "one two"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    steps = await report(client, fake, answer({"id": "c", "choices": [choice], "usage": USAGE}))

    facts = facts_of(steps["answer"])
    assert facts["Streaming"] == "no: one JSON answer"
    assert facts["End"] == "the end of the JSON answer"
    assert "does not stream" in steps["answer"].text


async def test_a_stream_that_arrives_in_one_lump_is_told(
    client: httpx.AsyncClient, fake: FakeUpstream
) -> None:
    steps = await report(client, fake, stream(openai_chunks([*words(*"abcdefgh"), FINISH])))

    assert "all in one lump" in facts_of(steps["answer"])["Streaming"]


async def test_a_model_that_does_not_stop_is_listened_to_for_long_enough(
    client: httpx.AsyncClient, fake: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "ENOUGH_DELTAS", 20)
    endless = Flood(base64=openai_chunks(words("la "), is_done=False))
    steps = await report(client, fake, stream(endless), stream(COUNTED))

    assert steps["answer"].state == "ok"
    assert facts_of(steps["answer"])["End"].startswith("not waited for")
    await fake.until(lambda fake: fake.disconnects == 1)


async def test_a_stream_that_breaks_keeps_what_was_seen_of_it(
    client: httpx.AsyncClient, fake: FakeUpstream
) -> None:
    cut = stream(openai_chunks(words("one"), is_done=False), Close())
    steps = await report(client, fake, cut)

    assert steps["answer"].state == "failed"
    assert {kind.name for kind in steps["answer"].seen} == {"chunk: content"}
    assert steps["tools"].state == "skipped"


async def test_a_socket_that_stays_open_after_the_end_does_not_hold_up_the_test(
    client: httpx.AsyncClient, fake: FakeUpstream
) -> None:
    steps = await report(client, fake, stream(COUNTED, Hang()), stream(COUNTED, Hang()))

    assert (steps["answer"].state, steps["tools"].state) == ("ok", "ok")
    await fake.until(lambda fake: fake.disconnects == 2)


# --- advice -----------------------------------------------------------------------------------


def refusing(text: str) -> Script:
    return answer({"error": {"message": text, "type": "invalid_request_error"}}, status=400)


@pytest.mark.parametrize(
    ("message", "name", "value"),
    [
        ("Unrecognized request argument: stream_options", "stream_options", False),
        (
            "Unsupported parameter 'max_tokens': use 'max_completion_tokens' instead.",
            "max_tokens_member",
            "max_completion_tokens",
        ),
    ],
)
async def test_a_member_that_is_refused_is_left_out_and_that_is_recommended(
    client: httpx.AsyncClient, fake: FakeUpstream, message: str, name: str, value: object
) -> None:
    steps = await report(client, fake, refusing(message), stream(COUNTED))

    assert steps["answer"].state == "ok"
    assert advised({"answer": steps["answer"]}) == {name: value}
    assert message in steps["answer"].advice[0].reason
    assert fake.posts == 3


@pytest.mark.parametrize(
    ("chunks", "options", "expected"),
    [
        pytest.param(
            [*words("hm</think>a"), chunk(usage=USAGE)],
            {},
            {"inline_think": "assume_open"},
            id="closing tag",
        ),
        pytest.param(
            [*words("hm</think>a"), chunk(usage=USAGE)],
            {"inline_think": "assume_open"},
            {},
            id="already so",
        ),
        pytest.param(
            [*words("<think>hm</think>a"), chunk(usage=USAGE)],
            {"inline_think": "off"},
            {"inline_think": "auto"},
            id="tags, not looked for",
        ),
        pytest.param(
            words("a"),
            {"stream_options": False},
            {"stream_options": True},
            id="counts not asked for",
        ),
        pytest.param(words("a"), {}, {}, id="counts asked for in vain"),
        pytest.param(
            [*words("a"), {"type": "x_research.begin", "n": 1}, chunk(usage=USAGE)],
            {},
            {"dialect": "xerotier"},
            id="another dialect",
        ),
        pytest.param(
            [
                chunk({"content": "a"}, id="stream:chat:1f", object="chat.completion"),
                chunk(usage=USAGE),
            ],
            {},
            {"dialect": "bitseek"},
            id="no model",
        ),
    ],
)
async def test_what_was_heard_becomes_advice(
    client: httpx.AsyncClient,
    fake: FakeUpstream,
    chunks: list[dict[str, object]],
    options: Mapping[str, object],
    expected: Mapping[str, object],
) -> None:
    body = openai_chunks([*chunks, FINISH])
    steps = await report(client, fake, stream(body, times=2), **options)

    assert advised({"answer": steps["answer"]}) == expected


async def test_reasoning_before_a_call_is_recommended_to_be_sent_back(
    client: httpx.AsyncClient, fake: FakeUpstream
) -> None:
    thinking = words("hm", member="reasoning_content")
    body = openai_chunks([*thinking, *call('{"city":"Oslo"}')])
    steps = await report(client, fake, stream(COUNTED), stream(body))

    (advice,) = steps["tools"].advice
    assert isinstance(advice, Advice)
    assert (advice.name, advice.value) == ("replay_reasoning", "tool_turns")
    assert advice.label == "Send reasoning back: tool turns"


async def test_a_wrong_dialect_is_recognised_by_what_comes(
    client: httpx.AsyncClient, fake: FakeUpstream
) -> None:
    event = {"type": "chat.start", "model_instance_id": "m"}
    body = b"event: chat.start\ndata: %b\n\ndata: [DONE]\n\n" % json_bytes(event)
    steps = await report(client, fake, stream(body))

    assert steps["answer"].state == "failed"
    assert advised(steps) == {"dialect": "lmstudio"}
