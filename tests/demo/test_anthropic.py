"""The Messages API, as the demo speaks it and as our own dialect reads it."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from chat import dialects, result
from chat.demo import prose
from chat.demo.apis.anthropic_read import signature_of
from chat.demo.fake import FakeUpstream
from chat.dialects.base import AssistantTurn, Prompt, ToolDefinition, Turn, UserTurn
from chat.events import (
    MessageItem,
    ReasoningItem,
    RefusalItem,
    Result,
    ToolCallItem,
)
from chat.result import Fold, finish
from chat.wire.sse import Decoder
from tests.demo.conftest import read_until_broken
from tests.demo.streams import JsonObject, joined, lmstudio_events_in

BASE = "/anthropic/v1"
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
    base = fake.url + BASE
    async with httpx.AsyncClient(base_url=base, trust_env=False, headers=HEADERS) as client:
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
    response = await post(api, text, **members)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/event-stream"
    # Every frame is an ``event:`` line and a ``data:`` line that agree, as with LM Studio.
    return lmstudio_events_in(response.content)


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


@pytest.mark.parametrize("model", [THINKER, SEARCHER])
@pytest.mark.parametrize(
    "scene", ["hello", "code", "think", "unicode", "redacted", "search", "pause", "refuse", "tool"]
)
async def test_every_scene_is_a_well_formed_stream(
    api: httpx.AsyncClient, model: str, scene: str
) -> None:
    events = await events_for(api, scene, model=model, tools=[GAUGE])

    names = [event["type"] for event in events if event["type"] != "ping"]
    assert names[0] == "message_start"
    assert names[-2:] == ["message_delta", "message_stop"]
    assert events[0]["message"]["content"] == []
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
    assert thought == prose.RIDDLE_THOUGHTS
    assert content_of(events, "signature_delta", "signature") == signature_of(thought)
    assert content_of(events, "text_delta", "text") == prose.RIDDLE_ANSWER


async def test_thinking_may_be_omitted_or_switched_off(api: httpx.AsyncClient) -> None:
    omitted = await events_for(api, "think", thinking={"type": "adaptive", "display": "omitted"})
    disabled = await events_for(api, "think", thinking={"type": "disabled"})

    assert content_of(omitted, "thinking_delta", "thinking") == ""
    assert content_of(omitted, "signature_delta", "signature") == signature_of("")
    assert blocks_in(disabled) == ["text"]


async def test_a_search_is_cited_in_blocks_of_their_own(api: httpx.AsyncClient) -> None:
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


async def test_a_refusal_says_why(api: httpx.AsyncClient) -> None:
    stop = stop_of(await events_for(api, "refuse"))

    assert stop["stop_reason"] == "refusal"
    assert stop["stop_details"]["explanation"] == prose.REFUSAL


async def test_an_error_in_mid_stream_is_the_last_event(api: httpx.AsyncClient) -> None:
    events = await events_for(api, "error")

    assert events[-1]["type"] == "error"
    assert events[-1]["error"]["type"] == "overloaded_error"
    assert content_of(events, "text_delta", "text")


async def test_an_error_without_streaming_is_an_http_error(api: httpx.AsyncClient) -> None:
    response = await post(api, "error", stream=False)

    assert response.status_code == 529
    assert response.json()["error"]["type"] == "overloaded_error"


async def test_cut_ends_the_connection_without_a_terminator(client: httpx.AsyncClient) -> None:
    client.headers.update(HEADERS)
    body = {
        "model": THINKER,
        "max_tokens": 900,
        "stream": True,
        "messages": [{"role": "user", "content": "cut"}],
    }

    received = await read_until_broken(client, f"{BASE}/messages", body)

    assert b"text_delta" in received
    assert b"message_stop" not in received


async def test_a_limit_and_a_stop_sequence_end_the_answer(api: httpx.AsyncClient) -> None:
    short = await events_for(api, "long", model=SEARCHER, max_tokens=5)
    stopped = await events_for(api, "code", model=SEARCHER, stop_sequences=["```", "never said"])

    assert stop_of(short)["stop_reason"] == "max_tokens"
    assert stop_of(stopped) == {"stop_reason": "stop_sequence", "stop_sequence": "```"}
    assert "```" not in content_of(stopped, "text_delta", "text")


@pytest.mark.parametrize("scene", ["think", "search", "redacted", "tool", "unicode"])
async def test_a_whole_answer_says_what_the_stream_says(api: httpx.AsyncClient, scene: str) -> None:
    events = await events_for(api, scene, tools=[GAUGE])
    whole = (await post(api, scene, tools=[GAUGE], stream=False)).json()

    assert whole["type"] == "message"
    assert [block["type"] for block in whole["content"]] == blocks_in(events)
    texts = "".join(block.get("text", "") for block in whole["content"])
    assert texts == content_of(events, "text_delta", "text")
    assert whole["stop_reason"] == stop_of(events)["stop_reason"]
    assert whole["usage"]["output_tokens"] == events[-2]["usage"]["output_tokens"]


async def test_the_list_says_what_models_can(api: httpx.AsyncClient) -> None:
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


@pytest.mark.parametrize(
    ("members", "words"),
    [
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
    ],
)
async def test_what_the_real_servers_refuse_is_refused(
    api: httpx.AsyncClient, members: dict[str, object], words: str
) -> None:
    response = await post(api, "hello", **members)

    body = response.json()
    assert response.status_code == 400
    assert body["type"] == "error"
    assert body["error"]["type"] == "invalid_request_error"
    assert words in body["error"]["message"]


async def test_an_unknown_model_is_not_found(api: httpx.AsyncClient) -> None:
    response = await post(api, "hello", model="acme/none")

    assert response.status_code == 404
    assert response.json()["error"]["type"] == "not_found_error"


async def test_the_version_header_is_required(client: httpx.AsyncClient) -> None:
    response = await client.post(f"{BASE}/messages", json={"model": THINKER})

    assert response.status_code == 400
    assert "anthropic-version" in response.json()["error"]["message"]


@pytest.mark.parametrize("options", [{}, {"auth": "x-api-key"}])
async def test_the_key_is_taken_either_way(options: dict[str, object]) -> None:
    async with FakeUpstream(required_key="k-123") as fake:
        base = fake.url + BASE
        async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
            without = await client.get("/models", headers=MESSAGES.headers("", options))
            with_key = await client.get("/models", headers=MESSAGES.headers("k-123", options))

    assert (without.status_code, with_key.status_code) == (401, 200)


# --- read by our own dialect, and sent back ------------------------------------------------------


async def answer_to(api: httpx.AsyncClient, *turns: Turn, **members: object) -> Result:
    prompt = Prompt(model=THINKER, turns=turns, **members)
    request = MESSAGES.request(prompt)
    decoder, state = Decoder(), Fold()
    parser = MESSAGES.parser(model=prompt.model, options=prompt.options)
    async with api.stream("POST", request.path, content=request.body) as response:
        assert response.status_code == 200, await response.aread()
        async for data in response.aiter_raw():
            for frame in decoder.feed(data):
                state.extend(parser.feed(frame))
    finish(parser, state)
    return state.result()


def native(answer: Result) -> AssistantTurn:
    return AssistantTurn(result=answer, is_native=True)


def answered(answer: Result, **outputs: str) -> AssistantTurn:
    """The answer with outputs for its open calls, in order."""
    waiting = [item for item in answer.output if isinstance(item, ToolCallItem)]
    for item, output in zip(waiting, outputs.values(), strict=True):
        item.output = output
    return native(answer)


ASK = UserTurn(text="hello")


async def test_no_scene_leaves_anything_unread(api: httpx.AsyncClient) -> None:
    for scene in ("think", "redacted", "search", "pause", "tool", "refuse", "unicode"):
        answer = await answer_to(api, UserTurn(text=scene), tools=(TOOL,))
        assert answer.ext.vendor == [], scene
        assert answer.ext.error is None, scene


async def test_thinking_goes_back_exactly_as_it_was_signed(api: httpx.AsyncClient) -> None:
    first = await answer_to(api, UserTurn(text="redacted"))
    second = await answer_to(api, UserTurn(text="redacted"), native(first), UserTurn(text="table"))

    kinds = [item.kind for item in first.output if isinstance(item, ReasoningItem)]
    assert kinds == ["full", "hidden", "full"]
    assert second.ext.status == "completed"
    assert "turn 2 of our conversation" in result.plain_text(second)


async def test_a_call_waits_and_the_answer_goes_on_with_its_result(
    api: httpx.AsyncClient,
) -> None:
    question = UserTurn(text="use the tool")
    first = await answer_to(api, question, tools=(TOOL,), parameters={"thinking": "enabled"})
    second = await answer_to(
        api,
        question,
        answered(first, gauge="level 4.2 m"),
        tools=(TOOL,),
        parameters={"thinking": "enabled"},
    )

    assert (first.ext.status, first.ext.stop.reason) == ("waiting", "tool_use")
    assert second.ext.status == "completed"
    assert "level 4.2 m" in result.plain_text(second)


async def test_parallel_calls_are_answered_in_one_message(api: httpx.AsyncClient) -> None:
    other = ToolDefinition(name="weather", schema={"type": "object", "properties": {}})
    question = UserTurn(text="use both tools")

    first = await answer_to(api, question, tools=(TOOL, other))
    second = await answer_to(
        api, question, answered(first, one="4.2 m", two="rain"), tools=(TOOL, other)
    )

    calls = [item.tool for item in first.output if isinstance(item, ToolCallItem)]
    assert calls == ["read_gauge", "weather"]
    assert {"4.2 m", "rain"} <= set(result.plain_text(second).splitlines())


async def test_a_call_that_nobody_answered_is_cut_out_of_the_history(
    api: httpx.AsyncClient,
) -> None:
    question = UserTurn(text="use the tool")
    first = await answer_to(api, question, tools=(TOOL,))

    second = await answer_to(api, question, native(first), UserTurn(text="table"))

    assert second.ext.status == "completed"


async def test_a_pause_goes_on_until_the_answer_is_whole(api: httpx.AsyncClient) -> None:
    question = UserTurn(text="search with a pause")
    turns: list[Turn] = [question]
    for _ in range(2):
        answer = await answer_to(api, *turns)
        assert (answer.ext.status, answer.ext.stop.reason) == ("incomplete", "pause")
        turns.append(native(answer))
    last = await answer_to(api, *turns)

    messages = [item for item in last.output if isinstance(item, MessageItem)]
    assert last.ext.status == "completed"
    assert messages[-1].content.startswith("Herons do live here. Two pairs nest")
    assert len(messages[-1].citations) == 2
    after = await answer_to(api, *turns, native(last), UserTurn(text="table"))
    assert after.ext.status == "completed"


async def test_an_answer_of_another_upstream_is_accepted(api: httpx.AsyncClient) -> None:
    first = await answer_to(api, UserTurn(text="think and use the tool"), tools=(TOOL,))
    foreign = AssistantTurn(result=answered(first, gauge="4.2 m").result, is_native=False)

    second = await answer_to(
        api, ASK, foreign, UserTurn(text="table"), parameters={"thinking": "enabled"}
    )

    assert second.ext.status == "completed"


async def test_a_refused_answer_is_kept_on_the_page_and_left_out_of_the_history(
    api: httpx.AsyncClient,
) -> None:
    refused = await answer_to(api, UserTurn(text="refuse"))
    second = await answer_to(api, UserTurn(text="refuse"), native(refused), UserTurn(text="table"))

    assert isinstance(refused.output[-1], RefusalItem)
    assert refused.ext.status == "incomplete"
    # Both questions are one message of the person now, and the table is asked for in it.
    assert second.ext.status == "completed"
    assert "A field guide to the Elder" in result.plain_text(second)
