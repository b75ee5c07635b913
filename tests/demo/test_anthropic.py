"""The Messages API, as the demo speaks it and as our own dialect reads it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import product

import httpx
import pytest
import pytest_asyncio

from chat import dialects, result
from chat.demo.apis.anthropic.requests import signature_of
from chat.demo.fake import FakeUpstream
from chat.dialects.base import ToolDefinition, Turn
from chat.events import MessageItem, ReasoningItem, RefusalItem, Result
from tests.demo import texts
from tests.demo.answers import (
    BASES,
    answer_to,
    calls_in,
    connect,
    make_prompt,
    native,
    with_outputs,
)
from tests.demo.streams import JsonObject, events_in, joined, read_until_broken

HEADERS = {"anthropic-version": "2023-06-01"}
MESSAGES = dialects.get("anthropic_messages")
THINKER = "tributary/demo-thinker"
SEARCHER = "tributary/demo-searcher"
GAUGE = {
    "name": "read_gauge",
    "input_schema": {"type": "object", "properties": {"station": {"type": "string"}}},
}
TOOL = ToolDefinition(name="read_gauge", schema=GAUGE["input_schema"])


@pytest_asyncio.fixture
async def api(fake: FakeUpstream) -> AsyncIterator[httpx.AsyncClient]:
    async with connect(fake, MESSAGES.name, headers=HEADERS) as client:
        yield client


async def post(api: httpx.AsyncClient, text: str, **members: object) -> httpx.Response:
    body = {
        "model": THINKER,
        "max_tokens": 8192,
        "messages": [{"role": "user", "content": text}],
        "stream": True,
        **members,
    }
    given = {name: value for name, value in body.items() if value is not None}
    return await api.post("/messages", json=given)


async def events_for(api: httpx.AsyncClient, text: str, **members: object) -> list[JsonObject]:
    return events_in(await post(api, text, **members))


def content_of(events: list[JsonObject], kind: str, member: str) -> str:
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    return joined(delta[member] for delta in deltas if delta["type"] == kind)


def blocks_in(events: list[JsonObject]) -> list[str]:
    starts = [event for event in events if event["type"] == "content_block_start"]
    return [event["content_block"]["type"] for event in starts]


def stop_of(events: list[JsonObject]) -> JsonObject:
    (end,) = [event for event in events if event["type"] == "message_delta"]
    stop: JsonObject = end["delta"]
    return stop


# --- the stream -----------------------------------------------------------------------------


SCENES = [*("hello", "code", "think", "unicode", "redacted", "search", "pause", "refuse", "tool")]


async def test_scenes_are_well_formed_streams(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for scene, model in product(SCENES, (THINKER, SEARCHER)):
        with subtests.test(scene=scene, model=model):
            events = await events_for(api, scene, model=model, tools=[GAUGE])

            names = [event["type"] for event in events if event["type"] != "ping"]
            assert names[0] == "message_start"
            assert names[-2:] == ["message_delta", "message_stop"]
            assert events[0]["message"]["content"] == []
            check_blocks(events)


def check_blocks(events: list[JsonObject]) -> None:
    """Blocks are numbered, one is open at a time, and deltas belong to it."""
    open_index = None
    count = 0
    for event in events:
        if event["type"] == "content_block_start":
            assert (open_index, event["index"]) == (None, count)
            open_index, count = event["index"], count + 1
        elif event["type"] == "content_block_delta":
            assert event["index"] == open_index
        elif event["type"] == "content_block_stop":
            assert event["index"] == open_index
            open_index = None
    assert open_index is None


async def test_thinking_ends_with_its_signature(api: httpx.AsyncClient) -> None:
    events = await events_for(api, "think")

    thought = content_of(events, "thinking_delta", "thinking")
    assert thought == texts.REASONING
    assert content_of(events, "signature_delta", "signature") == signature_of(thought)
    assert content_of(events, "text_delta", "text") == texts.REASONED_ANSWER


async def test_thinking_can_be_omitted_or_disabled(api: httpx.AsyncClient) -> None:
    omitted = await events_for(api, "think", thinking={"type": "adaptive", "display": "omitted"})
    disabled = await events_for(api, "think", thinking={"type": "disabled"})

    assert content_of(omitted, "thinking_delta", "thinking") == ""
    assert content_of(omitted, "signature_delta", "signature") == signature_of("")
    assert blocks_in(disabled) == ["text"]


async def test_search_citations_are_blocks(api: httpx.AsyncClient) -> None:
    events = await events_for(api, "hello", model=SEARCHER)

    assert blocks_in(events) == [
        *("text", "server_tool_use", "web_search_tool_result"),
        *("text", "text", "text", "text", "text"),
    ]
    citations = [
        event["delta"]["citation"]["url"]
        for event in events
        if event.get("delta", {}).get("type") == "citations_delta"
    ]
    assert len(citations) == 2
    assert events[-2]["usage"]["server_tool_use"] == {"web_search_requests": 1}


async def test_refusal_has_an_explanation(api: httpx.AsyncClient) -> None:
    stop = stop_of(await events_for(api, "refuse"))

    assert stop["stop_reason"] == "refusal"
    assert stop["stop_details"]["explanation"] == texts.REFUSAL


async def test_error_in_mid_stream_is_the_last_event(api: httpx.AsyncClient) -> None:
    events = await events_for(api, "error")

    assert events[-1]["type"] == "error"
    assert events[-1]["error"]["type"] == "overloaded_error"
    assert content_of(events, "text_delta", "text")


async def test_unstreamed_error_is_an_http_error(api: httpx.AsyncClient) -> None:
    response = await post(api, "error", stream=False)

    assert response.status_code == 529
    assert response.json()["error"]["type"] == "overloaded_error"


async def test_cut_ends_without_a_terminator(api: httpx.AsyncClient) -> None:
    messages = [{"role": "user", "content": "cut"}]
    body = {"model": THINKER, "max_tokens": 900, "stream": True, "messages": messages}

    received = await read_until_broken(api, "/messages", body)

    assert b"text_delta" in received
    assert b"message_stop" not in received


async def test_max_tokens_and_stop_sequences_end_the_answer(api: httpx.AsyncClient) -> None:
    short = await events_for(api, "long", model=SEARCHER, max_tokens=5)
    stopped = await events_for(api, "code", model=SEARCHER, stop_sequences=["```", "never said"])

    assert stop_of(short)["stop_reason"] == "max_tokens"
    assert stop_of(stopped) == {"stop_reason": "stop_sequence", "stop_sequence": "```"}
    assert "```" not in content_of(stopped, "text_delta", "text")


async def test_unstreamed_answer_equals_the_stream(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for scene in ["think", "search", "redacted", "tool", "unicode"]:
        with subtests.test(scene):
            events = await events_for(api, scene, tools=[GAUGE])
            whole = (await post(api, scene, tools=[GAUGE], stream=False)).json()

            assert whole["type"] == "message"
            assert [block["type"] for block in whole["content"]] == blocks_in(events)
            texts = "".join(block.get("text", "") for block in whole["content"])
            assert texts == content_of(events, "text_delta", "text")
            assert whole["stop_reason"] == stop_of(events)["stop_reason"]
            assert whole["usage"]["output_tokens"] == events[-2]["usage"]["output_tokens"]


async def test_model_list_has_capabilities(api: httpx.AsyncClient) -> None:
    response = await api.get(MESSAGES.models_path)

    models = MESSAGES.read_models(response.content)
    assert [model.id for model in models] == [THINKER, SEARCHER]
    assert models[0].detail["capabilities"]["thinking"]["supported"] is True
    assert models[0].detail["max_tokens"] == 64_000


# --- what is refused ------------------------------------------------------------------------------

THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": signature_of("Hm.")}
USE = {"type": "tool_use", "id": "toolu_1", "name": "read_gauge", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "2 m"}
HELLO = {"role": "user", "content": "hello"}


def said(*blocks: JsonObject) -> JsonObject:
    return {"role": "assistant", "content": list(blocks)}


def asked(*blocks: JsonObject) -> JsonObject:
    return {"role": "user", "content": list(blocks)}


TEXT = {"type": "text", "text": "Hi."}


INVALID = [
    ({"max_tokens": None}, "max_tokens: Field required"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"messages": []}, "at least one message"),
    ({"messages": [{"role": "system", "content": "x"}]}, "role"),
    ({"messages": [{"role": "user", "content": " "}]}, "non-whitespace"),
    ({"messages": [HELLO, said()]}, "non-empty content"),
    ({"messages": [HELLO, said(TEXT)]}, "prefill"),
    ({"messages": [HELLO, said(USE), HELLO]}, "without `tool_result` blocks"),
    ({"messages": [HELLO, said(USE)]}, "without `tool_result` blocks"),
    ({"messages": [HELLO, said(TEXT), asked(RESULT)]}, "unexpected `tool_use_id`"),
    ({"messages": [HELLO, said(USE), asked(TEXT, RESULT)]}, "must come first"),
    ({"messages": [HELLO, said(THOUGHT), HELLO]}, "cannot be `thinking`"),
    (
        {"messages": [HELLO, said({**THOUGHT, "thinking": "Ha."}, TEXT), HELLO]},
        "Invalid `signature`",
    ),
    (
        {"messages": [HELLO, said({"type": "redacted_thinking", "data": "x"}, TEXT), HELLO]},
        "Invalid `data`",
    ),
    ({"messages": [HELLO, said(USE), asked(RESULT)]}, "must define tools"),
    (
        {
            "messages": [HELLO, said(USE), asked(RESULT)],
            "tools": [GAUGE],
            "thinking": {"type": "enabled", "budget_tokens": 1024},
        },
        "must start with a thinking block",
    ),
    ({"thinking": {"type": "enabled", "budget_tokens": 9000}}, "must be greater than"),
    ({"thinking": {"type": "enabled", "budget_tokens": 10}}, "1024"),
    ({"thinking": {"type": "adaptive"}, "temperature": 0.5}, "`temperature`"),
    ({"tools": [{"name": "a b", "input_schema": {"type": "object"}}]}, "tools.0"),
    ({"tools": [{"name": "a", "input_schema": {}}]}, "input_schema"),
]


async def test_invalid_requests_are_refused(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for members, words in INVALID:
        with subtests.test(words):
            response = await post(api, "hello", **members)

            body = response.json()
            assert response.status_code == 400
            assert body["type"] == "error"
            assert body["error"]["type"] == "invalid_request_error"
            assert words in body["error"]["message"]


async def test_unknown_model_is_not_found(api: httpx.AsyncClient) -> None:
    response = await post(api, "hello", model="acme/none")

    assert response.status_code == 404
    assert response.json()["error"]["type"] == "not_found_error"


async def test_version_header_is_required(client: httpx.AsyncClient) -> None:
    response = await client.post(f"{BASES[MESSAGES.name]}/messages", json={"model": THINKER})

    assert response.status_code == 400
    assert "anthropic-version" in response.json()["error"]["message"]


async def test_key_is_accepted_in_both_headers(subtests: pytest.Subtests) -> None:
    for options in [{}, {"auth": "x-api-key"}]:
        with subtests.test(options=options):
            async with (
                FakeUpstream(required_key="k-123") as fake,
                connect(fake, MESSAGES.name) as client,
            ):
                answers = [
                    await client.get("/models", headers=MESSAGES.headers(key, options))
                    for key in ("", "k-123")
                ]

            assert [answer.status_code for answer in answers] == [401, 200]


# --- read by our own dialect, and sent back ------------------------------------------------------


async def answer(fake: FakeUpstream, *turns: Turn | str, **members: object) -> Result:
    return await answer_to(fake, MESSAGES.name, make_prompt(*turns, model=THINKER, **members))


async def test_scenes_leave_nothing_unknown(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    for scene in ("think", "redacted", "search", "pause", "tool", "refuse", "unicode"):
        with subtests.test(scene):
            found = await answer(fake, scene, tools=(TOOL,))

            assert found.ext.vendor == []
            assert found.ext.error is None


async def test_signed_thinking_is_sent_back_unchanged(fake: FakeUpstream) -> None:
    first = await answer(fake, "redacted")
    second = await answer(fake, "redacted", native(first), "table")

    kinds = [item.kind for item in first.output if isinstance(item, ReasoningItem)]
    assert kinds == ["full", "hidden", "full"]
    assert second.ext.status == "completed"
    assert "turn 2 of our conversation" in result.plain_text(second)


async def test_tool_result_continues_the_answer(fake: FakeUpstream) -> None:
    members = {"tools": (TOOL,), "parameters": {"thinking": "enabled"}}

    first = await answer(fake, "use the tool", **members)
    ending = (first.ext.status, first.ext.stop.reason)
    second = await answer(fake, "use the tool", with_outputs(first, "level 4.2 m"), **members)

    assert ending == ("waiting", "tool_use")
    assert second.ext.status == "completed"
    assert "level 4.2 m" in result.plain_text(second)


async def test_parallel_calls_are_answered_together(fake: FakeUpstream) -> None:
    other = ToolDefinition(name="weather", schema={"type": "object", "properties": {}})
    question, tools = "use both tools", (TOOL, other)

    first = await answer(fake, question, tools=tools)
    second = await answer(fake, question, with_outputs(first, "4.2 m", "rain"), tools=tools)

    assert [call.tool for call in calls_in(first)] == ["read_gauge", "weather"]
    assert {"4.2 m", "rain"} <= set(result.plain_text(second).splitlines())


async def test_unanswered_call_is_left_out_of_the_history(fake: FakeUpstream) -> None:
    first = await answer(fake, "use the tool", tools=(TOOL,))

    second = await answer(fake, "use the tool", native(first), "table")

    assert second.ext.status == "completed"


async def test_paused_answer_continues_until_complete(fake: FakeUpstream) -> None:
    turns: list[Turn | str] = ["search with a pause"]
    for _ in range(2):
        paused = await answer(fake, *turns)
        assert (paused.ext.status, paused.ext.stop.reason) == ("incomplete", "pause")
        turns.append(native(paused))

    last = await answer(fake, *turns)
    after = await answer(fake, *turns, native(last), "table")

    messages = [item for item in last.output if isinstance(item, MessageItem)]
    assert last.ext.status == "completed"
    assert messages[-1].content.startswith("Yes: the library rents out a room")
    assert len(messages[-1].citations) == 2
    assert after.ext.status == "completed"


async def test_foreign_answer_is_accepted(fake: FakeUpstream) -> None:
    first = await answer(fake, "think and use the tool", tools=(TOOL,))
    foreign = replace(with_outputs(first, "4.2 m"), is_native=False)

    second = await answer(fake, "hello", foreign, "table", parameters={"thinking": "enabled"})

    assert second.ext.status == "completed"


async def test_refused_answer_is_left_out_of_the_history(fake: FakeUpstream) -> None:
    refused = await answer(fake, "refuse")
    second = await answer(fake, "refuse", native(refused), "table")

    assert isinstance(refused.output[-1], RefusalItem)
    assert refused.ext.status == "incomplete"
    # Both questions are one message of the person now, and the table is asked for in it.
    assert second.ext.status == "completed"
    assert "Plan for the team day" in result.plain_text(second)
