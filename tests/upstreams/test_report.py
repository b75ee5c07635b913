"""The connection test says what a server really sends, and which settings fit it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping

import httpx
import pytest

from chat.dialects import DIALECTS
from chat.upstreams import stream_probe
from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.advice import Advice
from chat.upstreams.probe import ProbeStep, probe
from chat.upstreams.probe_requests import ProbeTarget
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import (
    Close,
    Flood,
    Hang,
    Script,
    answer,
    json_bytes,
    openai_chunks,
    stream,
)
from tests.upstreams.conftest import KEY

USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
Chunks = list[dict[str, object]]
Report = Callable[..., Awaitable[dict[str, ProbeStep]]]


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


def words(*texts: str, member: str = "content") -> Chunks:
    return [chunk({member: text}) for text in texts]


FINISH = chunk({}, finish_reason="stop")
COUNTED = openai_chunks([*words("one ", "two"), FINISH, chunk(usage=USAGE)])


@pytest.fixture
def report(wire_client: httpx.AsyncClient, fake: FakeUpstream) -> Report:
    """The last state of each step of the connection test of a server with these scripts."""

    async def test_connection(
        *scripts: Script,
        dialect: str = "openai_chat",
        path: str = "/v1",
        model: str = "m",
        **options: object,
    ) -> dict[str, ProbeStep]:
        fake.clear()
        fake.script(*scripts)
        target = ProbeTarget(
            base_url=f"{fake.url}{path}",
            dialect=DIALECTS[dialect],
            key=KEY,
            model=model,
            options=options,
        )
        steps = probe(wire_client, AddressPolicy.parse("any"), target)
        return {step.name: step async for step in steps if step.state != "running"}

    return test_connection


def facts_of(step: ProbeStep) -> dict[str, str]:
    return dict(step.facts)


def advised(steps: Mapping[str, ProbeStep]) -> dict[str, object]:
    return {each.name: each.value for step in steps.values() for each in step.advice}


# --- facts ------------------------------------------------------------------------------------


def call(*fragments: str) -> Chunks:
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


# (fact, what it says, chunks of the answer)
FACTS: list[tuple[str, str, Chunks]] = [
    ("Token counts", "none", [*words("a"), FINISH]),
    ("Token counts", "once, in chunk: usage", [*words("a"), FINISH, chunk(usage=USAGE)]),
    (
        "Token counts",
        "once, in chunk: finish_reason",
        [*words("a"), chunk({}, finish_reason="stop", usage=USAGE)],
    ),
    (
        "Token counts",
        "in 3 events (chunk: content); the last one counts",
        [chunk({"content": "a"}, usage=USAGE)] * 3 + [FINISH],
    ),
    ("Thinking", "none in this answer", [*words("a"), FINISH]),
    (
        "Thinking",
        "in the field reasoning_content",
        [*words("hm", member="reasoning_content"), *words("a"), FINISH],
    ),
    (
        "Thinking",
        "in the field reasoning",
        [*words("hm", member="reasoning"), *words("a"), FINISH],
    ),
    (
        "Thinking",
        "in the text, in <think> tags",
        [*words("<thi", "nk>hm</thi", "nk>a"), FINISH],
    ),
    (
        "Thinking",
        "in the text, with only a closing </think> tag",
        [*words("hm</thi", "nk>a"), FINISH],
    ),
]
# (what it says of the end, body of the answer)
ENDS = [
    ("[DONE]", COUNTED),
    (
        "a finish reason, then the connection closes without [DONE]",
        openai_chunks([*words("one"), FINISH], is_done=False),
    ),
    ("none: the connection just closes", openai_chunks(words("one"), is_done=False)),
]
# (what it says of the tool's arguments, chunks of the answer)
TOOL_CALLS = [
    ("sent in pieces", call('{"city":', '"Oslo"', "}")),
    ("sent in one piece", call('{"city":"Oslo"}')),
    ("none: the model didn’t call the tool", [*words("Noon."), FINISH]),
]
# (dialect, path of the demo server, end of its stream)
DIALECT_ENDS = [
    ("lmstudio", "", "the event chat.end"),
    ("openai_chat", "/v1", "[DONE]"),
    ("anthropic_messages", "/anthropic/v1", "the event message_stop"),
    ("openai_completions", "/completions/v1", "[DONE]"),
    ("xerotier", "/xerotier/proj_demo/team/v1", "[DONE]"),
]


async def test_counts_and_reasoning_are_located(report: Report, subtests: pytest.Subtests) -> None:
    for name, fact, chunks in FACTS:
        with subtests.test(msg=f"{name}: {fact}"):
            steps = await report(stream(openai_chunks(chunks)))

            assert facts_of(steps["answer"])[name] == fact


async def test_end_of_the_stream_is_described(report: Report, subtests: pytest.Subtests) -> None:
    for fact, body in ENDS:
        with subtests.test(msg=fact):
            steps = await report(stream(body))

            assert facts_of(steps["answer"])["End of the answer"] == fact


async def test_heartbeats_and_unknown_events_are_counted(report: Report) -> None:
    strange = [{"type": "x_odd", "n": 1}, chunk({"content": "a"}, mood="calm")]
    steps = await report(stream(b": wait\n\n: wait\n\n", openai_chunks([*strange, FINISH])))

    facts = facts_of(steps["answer"])
    assert facts["Heartbeats"] == "comments × 2"
    assert facts["Unknown events"] == "x_odd × 1, chunk.mood × 1"
    seen = {kind.name: kind for kind in steps["answer"].seen}
    assert json.loads(seen["x_odd"].sample) == {"type": "x_odd", "n": 1}
    assert seen["[DONE]"].is_known


async def test_form_of_tool_arguments_is_described(
    report: Report, fake: FakeUpstream, subtests: pytest.Subtests
) -> None:
    for fact, chunks in TOOL_CALLS:
        with subtests.test(msg=fact):
            steps = await report(stream(COUNTED), stream(openai_chunks(chunks)))

            assert steps["tools"].state == "ok"
            assert facts_of(steps["tools"]) == {"Tool arguments": fact}
            offered = fake.requests[-1].body["tools"]
            assert [tool["function"]["name"] for tool in offered] == ["local_time"]


async def test_server_that_refuses_tools_passes(report: Report) -> None:
    no_tools = {"error": {"message": f"tools are not supported for {KEY}"}}
    steps = await report(stream(COUNTED), answer(no_tools, status=400))

    assert steps["answer"].state == "ok"
    assert steps["tools"].state == "skipped"
    assert "tools are not supported" in steps["tools"].detail
    assert KEY not in repr(steps)


async def test_every_dialect_of_the_demo_is_reported(
    report: Report, subtests: pytest.Subtests
) -> None:
    for dialect, path, end in DIALECT_ENDS:
        with subtests.test(msg=dialect):
            steps = await report(dialect=dialect, path=path, model="")

            facts = facts_of(steps["answer"])
            assert steps["answer"].state == "ok"
            assert facts["End of the answer"] == end
            assert facts["Unknown events"] == "none"
            assert facts["Token counts"] != "none"
            assert facts["Content type"].startswith("text/event-stream")


async def test_server_without_models_counts_or_marker_passes(report: Report) -> None:
    body = openai_chunks([*words("one ", "two"), FINISH], is_done=False)
    steps = await report(stream(body), dialect="bitseek", model="")

    facts = facts_of(steps["answer"])
    assert (steps["models"].state, steps["answer"].state) == ("skipped", "ok")
    assert facts["End of the answer"] == "a finish reason, without waiting for [DONE]"
    assert facts["Token counts"] == "none"


async def test_answer_in_one_piece_is_reported(report: Report) -> None:
    message = {"role": "assistant", "content": "one two"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    steps = await report(answer({"id": "c", "choices": [choice], "usage": USAGE}))

    facts = facts_of(steps["answer"])
    assert facts["Streaming"] == "no: one JSON answer"
    assert facts["End of the answer"] == "the end of the JSON answer"
    assert "doesn’t stream" in steps["answer"].text


async def test_buffered_stream_is_reported(report: Report) -> None:
    steps = await report(stream(openai_chunks([*words(*"abcdefgh"), FINISH])))

    assert "all at once" in facts_of(steps["answer"])["Streaming"]


async def test_endless_answer_is_cut_after_enough_deltas(
    report: Report, fake: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_probe, "ENOUGH_DELTAS", 20)
    endless = Flood(base64=openai_chunks(words("la "), is_done=False))
    steps = await report(stream(endless), stream(COUNTED))

    assert steps["answer"].state == "ok"
    assert facts_of(steps["answer"])["End of the answer"].startswith("not tested")
    await fake.until(lambda fake: fake.disconnects == 1)


async def test_broken_stream_keeps_what_was_seen(report: Report) -> None:
    cut = stream(openai_chunks(words("one"), is_done=False), Close())
    steps = await report(cut)

    assert steps["answer"].state == "failed"
    assert {kind.name for kind in steps["answer"].seen} == {"chunk: content"}
    assert steps["tools"].state == "skipped"


async def test_socket_left_open_after_the_end_is_not_waited_for(
    report: Report, fake: FakeUpstream
) -> None:
    steps = await report(stream(COUNTED, Hang()), stream(COUNTED, Hang()))

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
async def test_refused_parameter_is_left_out_and_advised(
    report: Report, fake: FakeUpstream, message: str, name: str, value: object
) -> None:
    steps = await report(refusing(message), stream(COUNTED))

    assert steps["answer"].state == "ok"
    assert advised({"answer": steps["answer"]}) == {name: value}
    assert message in steps["answer"].advice[0].reason
    assert fake.posts == 3


# name: (chunks of the answer, options of the server, options that are advised)
ADVICE: dict[str, tuple[Chunks, dict[str, object], dict[str, object]]] = {
    "closing tag": (
        [*words("hm</think>a"), chunk(usage=USAGE)],
        {},
        {"inline_think": "assume_open"},
    ),
    "closing tag, set already": (
        [*words("hm</think>a"), chunk(usage=USAGE)],
        {"inline_think": "assume_open"},
        {},
    ),
    "tags, not looked for": (
        [*words("<think>hm</think>a"), chunk(usage=USAGE)],
        {"inline_think": "off"},
        {"inline_think": "auto"},
    ),
    "counts not asked for": (words("a"), {"stream_options": False}, {"stream_options": True}),
    "counts asked for in vain": (words("a"), {}, {}),
    "another dialect": (
        [*words("a"), {"type": "x_research.begin", "n": 1}, chunk(usage=USAGE)],
        {},
        {"dialect": "xerotier"},
    ),
    "no model": (
        [
            chunk({"content": "a"}, id="stream:chat:1f", object="chat.completion"),
            chunk(usage=USAGE),
        ],
        {},
        {"dialect": "bitseek"},
    ),
}


async def test_better_settings_are_advised(report: Report, subtests: pytest.Subtests) -> None:
    for name, (chunks, options, expected) in ADVICE.items():
        with subtests.test(msg=name):
            body = openai_chunks([*chunks, FINISH])
            steps = await report(stream(body, times=2), **options)

            assert advised({"answer": steps["answer"]}) == expected


async def test_sending_reasoning_back_is_advised_before_tool_calls(report: Report) -> None:
    thinking = words("hm", member="reasoning_content")
    body = openai_chunks([*thinking, *call('{"city":"Oslo"}')])
    steps = await report(stream(COUNTED), stream(body))

    (advice,) = steps["tools"].advice
    assert isinstance(advice, Advice)
    assert (advice.name, advice.value) == ("replay_reasoning", "tool_turns")
    assert advice.label == "Send thinking back: In turns with tool calls"


async def test_right_dialect_is_advised(report: Report) -> None:
    event = {"type": "chat.start", "model_instance_id": "m"}
    body = b"event: chat.start\ndata: %b\n\ndata: [DONE]\n\n" % json_bytes(event)
    steps = await report(stream(body))

    assert steps["answer"].state == "failed"
    assert advised(steps) == {"dialect": "lmstudio"}
