"""The Responses API, as the demo speaks it and as our own dialect reads it."""

import base64
import zlib
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from chat import dialects, result
from chat.actions.setup import DEMO_SERVERS
from chat.demo import prose
from chat.demo.apis.responses import api as demo_api
from chat.demo.apis.responses_read import AGENT, MODELS, OPEN_AGENT
from chat.demo.fake import FakeUpstream
from chat.dialects.base import (
    AssistantTurn,
    Image,
    Prompt,
    Reply,
    ToolDefinition,
    Turn,
    UserTurn,
)
from chat.events import (
    ErrorInfo,
    MediaItem,
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

BASE = "/responses/v1"
RESPONSES = dialects.get("openai_responses")
TOOL = ToolDefinition(
    name="read_gauge", schema={"type": "object", "properties": {"station": {"type": "string"}}}
)
FUNCTION = {"type": "function", "name": "read_gauge", "parameters": TOOL.schema}
STATELESS = {"history": "stateless"}


@pytest_asyncio.fixture
async def api(fake: FakeUpstream) -> AsyncIterator[httpx.AsyncClient]:
    # Without certificates to load: there is no TLS here, and loading them takes most of a test.
    base = fake.url + BASE
    async with httpx.AsyncClient(base_url=base, trust_env=False, verify=False) as client:
        yield client


async def post(api: httpx.AsyncClient, text: str, **members: object) -> httpx.Response:
    body = {"model": AGENT, "input": text, "stream": True, **members}
    given = {name: value for name, value in body.items() if value is not None}
    return await api.post("/responses", json=given)


async def events_for(api: httpx.AsyncClient, text: str, **members: object) -> list[JsonObject]:
    response = await post(api, text, **members)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/event-stream"
    return lmstudio_events_in(response.content)


def types_in(events: list[JsonObject]) -> list[str]:
    """The events in order, each name once for those that repeat it."""
    names = [event["type"].removeprefix("response.") for event in events]
    return [name for name, before in zip(names, ["", *names[:-1]], strict=True) if name != before]


SCENES = ["hello", "code", "think", "table", "unicode", "slow", "mcp fail", "approval"]
SCENES += ["search the web", "python", "draw", "refuse", "queue", "filter", "tool"]


@pytest.mark.parametrize(
    ("scene", "model"), [*((scene, AGENT) for scene in SCENES), ("think", OPEN_AGENT)]
)
async def test_every_scene_is_numbered_and_its_end_repeats_what_was_said(
    api: httpx.AsyncClient, scene: str, model: str
) -> None:
    events = await events_for(api, scene, model=model, tools=[FUNCTION])

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    added = [event["item"] for event in events if event["type"] == "response.output_item.added"]
    assert events[-1]["response"]["output"] == done
    assert [item["id"] for item in added] == [item["id"] for item in done]
    text = joined(e["delta"] for e in events if e["type"] == "response.output_text.delta")
    parts = [p for i in done if i["type"] == "message" for p in i["content"] if "text" in p]
    assert text == "".join(part["text"] for part in parts)


async def test_plain_answer_has_the_usual_order(api: httpx.AsyncClient) -> None:
    events = await events_for(api, "hello", reasoning={"effort": "none"})

    assert types_in(events) == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *("output_text.delta", "output_text.done", "content_part.done", "output_item.done"),
        "completed",
    ]
    assert events[-1]["response"]["usage"]["output_tokens"] > 10


@pytest.mark.parametrize(("options", "is_padded"), [(None, True), (False, False)])
async def test_deltas_are_padded_unless_told_otherwise(
    api: httpx.AsyncClient, options: bool | None, is_padded: bool
) -> None:
    wish = None if options is None else {"include_obfuscation": options}

    events = await events_for(api, "hello", stream_options=wish)

    deltas = [event for event in events if event["type"].endswith(".delta")]
    assert {"obfuscation" in event for event in deltas} == {is_padded}


async def test_whole_answer_is_what_the_stream_ends_with(api: httpx.AsyncClient) -> None:
    whole = (await post(api, "table", stream=False)).json()
    streamed = (await events_for(api, "table"))[-1]["response"]

    for answer in (whole, streamed):
        for name in ("id", "created_at"):
            answer.pop(name)
        for item in answer["output"]:
            item.pop("id")
    assert whole == streamed


async def test_pictures_are_pictures(api: httpx.AsyncClient) -> None:
    events = await events_for(api, "draw")

    partial = [event["partial_image_b64"] for event in events if "partial_image_b64" in event]
    final = events[-1]["response"]["output"][-2]["result"]
    for picture in (*partial, final):
        data = base64.b64decode(picture)
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        start = data.index(b"IDAT") + 4
        assert len(zlib.decompress(data[start:-16])) == 80 * (1 + 3 * 120)
    assert len({*partial, final}) == 3


@pytest.mark.parametrize(
    ("members", "param", "code"),
    [
        ({"model": None}, "model", None),
        ({"model": "acme/unknown"}, "model", "model_not_found"),
        ({"input": []}, "input", None),
        ({"input": [{"role": "pilot", "content": "x"}]}, "input[0].role", None),
        ({"input": [{"role": "user", "content": [{"type": "text"}]}]}, "input[0].content", None),
        ({"input": [{"type": "function_call", "call_id": "c"}]}, "input", None),
        ({"input": [{"type": "function_call_output", "call_id": "c"}]}, "input", None),
        ({"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}, "input", None),
        ({"previous_response_id": "resp_x"}, "previous_response_id", "previous_response_not_found"),
        ({"max_output_tokens": "many"}, "max_output_tokens", None),
        ({"tools": [{"name": "a"}]}, "tools[0].type", None),
        ({"messages": []}, "messages", "unknown_parameter"),
    ],
)
async def test_bad_request_is_refused_as_openai_refuses_it(
    api: httpx.AsyncClient, members: JsonObject, param: str, code: str | None
) -> None:
    response = await post(api, "hello", **members)

    error = response.json()["error"]
    assert response.status_code == 400
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, code)


async def test_cut_ends_the_connection_without_a_terminator(api: httpx.AsyncClient) -> None:
    body = {"model": AGENT, "input": "cut", "stream": True}

    received = await read_until_broken(api, "/responses", body)

    assert b"response.completed" not in received
    assert b"event: response.output_text.delta" in received


def test_the_demo_has_a_row_for_this_api() -> None:
    (row,) = (server for server in DEMO_SERVERS if server.dialect == demo_api.dialect)

    assert row.path == demo_api.path
    assert list(row.models) == list(MODELS)


# --- with our own dialect -------------------------------------------------------------


async def answer(api: httpx.AsyncClient, *turns: Turn, **members: object) -> Result:
    prompt = Prompt(**{"model": AGENT, "turns": turns, **members})  # type: ignore[arg-type]
    request = RESPONSES.request(prompt)
    assert request.notes == ()
    parser = RESPONSES.parser(model=prompt.model, options=prompt.options)
    fold, decoder = Fold(), Decoder()
    async with api.stream("POST", request.path, content=request.body) as response:
        assert response.status_code == 200, (await response.aread()).decode()
        try:
            async for data in response.aiter_raw():
                for frame in decoder.feed(data):
                    fold.extend(parser.feed(frame))
        except httpx.RemoteProtocolError:
            assert turns[-1] == UserTurn(text="cut")
    finish(parser, fold)
    return fold.result()


def native(found: Result, **members: object) -> AssistantTurn:
    return AssistantTurn(result=found, is_native=True, **members)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scene", "status", "reason"),
    [
        ("hello", "completed", "stop"),
        ("unicode", "completed", "stop"),
        ("search", "completed", "stop"),
        ("mcp fail", "completed", "stop"),
        ("python", "completed", "stop"),
        ("draw", "completed", "stop"),
        ("queue", "completed", "stop"),
        ("tool", "waiting", "tool_use"),
        ("approval", "waiting", "ask"),
        ("refuse", "incomplete", "refusal"),
        ("filter", "incomplete", "content_filter"),
        ("error", "failed", "error"),
        ("cut", "cut", "cut"),
    ],
)
async def test_every_scene_ends_as_it_is_meant_to(
    api: httpx.AsyncClient, scene: str, status: str, reason: str
) -> None:
    found = await answer(api, UserTurn(text=scene), tools=(TOOL,))

    assert (found.ext.status, found.ext.stop.reason) == (status, reason)
    assert found.ext.vendor == []
    assert "differences" not in found.ext.meta
    assert not {"gap", "repeats", "unknown_members"} & found.ext.meta.keys()


async def test_limit_is_told(api: httpx.AsyncClient) -> None:
    found = await answer(api, UserTurn(text="long"), parameters={"max_output_tokens": 60})

    assert (found.ext.stop.reason, found.ext.stop.raw) == ("length", "max_output_tokens")
    assert found.stats.total_output_tokens == 60


@pytest.mark.parametrize(("model", "kind"), [(AGENT, "summary"), (OPEN_AGENT, "full")])
async def test_thinking_is_a_summary_or_the_thought_itself(
    api: httpx.AsyncClient, model: str, kind: str
) -> None:
    found = await answer(api, UserTurn(text="think"), model=model)

    (thought,) = (item for item in found.output if isinstance(item, ReasoningItem))
    assert thought.kind == kind
    assert thought.content.strip() == prose.RIDDLE_THOUGHTS.strip()


async def test_search_is_cited(api: httpx.AsyncClient) -> None:
    found = await answer(api, UserTurn(text="search the web"))

    last = found.output[-1]
    assert isinstance(last, MessageItem)
    quoted = [last.content[cited.start : cited.end] for cited in last.citations]
    assert quoted == ["Two pairs nest above the weir", "it was built of oak in 1788"]


async def test_code_and_pictures_are_shown(api: httpx.AsyncClient) -> None:
    code = await answer(api, UserTurn(text="python"))
    drawn = await answer(api, UserTurn(text="draw"))

    (run,) = (item for item in code.output if isinstance(item, ToolCallItem))
    assert run.output == "mean 2.12 m\n"
    assert str(run.arguments["code"]).startswith("levels = ")
    for found in (code, drawn):
        (medium,) = (item for item in found.output if isinstance(item, MediaItem))
        assert medium.media_type == "image/png"
    assert [isinstance(item, RefusalItem) for item in drawn.output] == [False] * len(drawn.output)


@pytest.mark.parametrize("options", [{}, STATELESS], ids=["stateful", "stateless"])
async def test_conversation_goes_on(api: httpx.AsyncClient, options: JsonObject) -> None:
    first = await answer(api, UserTurn(text="think"), options=options)
    turns = (UserTurn(text="think"), native(first), UserTurn(text="a table"))

    found = await answer(
        api, *turns, options=options, previous_response_id=first.response_id, system="Be brief."
    )

    text = result.plain_text(found)
    assert "turn 2 of our conversation; before that you asked: “think”" in text


async def test_pictures_and_instructions_arrive(api: httpx.AsyncClient) -> None:
    picture = Image(media_type="image/jpeg", data="/9j/4AAQ")

    found = await answer(api, UserTurn(text="hello", images=(picture,)), system="Be brief.")

    assert "a picture (image/jpeg) and instructions of 9 characters" in result.plain_text(found)


@pytest.mark.parametrize("options", [{}, STATELESS], ids=["stateful", "stateless"])
async def test_call_is_answered_and_the_answer_goes_on(
    api: httpx.AsyncClient, options: JsonObject
) -> None:
    question = UserTurn(text="use the tool")
    first = await answer(api, question, tools=(TOOL,), options=options)
    (call,) = (item for item in first.output if isinstance(item, ToolCallItem))
    assert call.call_id is not None
    assert call.call_id.startswith("call_")
    call.output = "2.31 m"

    found = await answer(
        api,
        question,
        native(first),
        tools=(TOOL,),
        options=options,
        previous_response_id=first.response_id,
    )

    assert "```\n2.31 m\n```" in result.plain_text(found)
    assert found.ext.status == "completed"


@pytest.mark.parametrize("options", [{}, STATELESS], ids=["stateful", "stateless"])
@pytest.mark.parametrize(
    ("is_declined", "words"), [(False, "You allowed it"), (True, "You declined")]
)
async def test_approval_is_given_or_not_and_the_answer_goes_on(
    api: httpx.AsyncClient, options: JsonObject, is_declined: bool, words: str
) -> None:
    question = UserTurn(text="may I have your approval?")
    first = await answer(api, question, options=options)
    (ask,) = first.ext.asks
    reply = Reply(ask_id=ask["ask_id"], style=ask["style"], is_declined=is_declined)

    found = await answer(
        api,
        question,
        native(first, replies=(reply,)),
        options=options,
        previous_response_id=first.response_id,
    )

    calls = [item for item in found.output if isinstance(item, ToolCallItem)]
    assert words in result.plain_text(found)
    assert [call.tool for call in calls] == ([] if is_declined else ["open_sluice"])


async def test_lost_history_is_sent_again_as_a_whole(api: httpx.AsyncClient) -> None:
    first = await answer(api, UserTurn(text="hello"))
    prompt = Prompt(
        model=AGENT,
        turns=(UserTurn(text="hello"), native(first), UserTurn(text="again")),
        previous_response_id="resp_lost",
    )
    refused = await api.post("/responses", content=RESPONSES.request(prompt).body)
    error = refused.json()["error"]

    mended = RESPONSES.after_refusal(
        prompt, ErrorInfo(status=refused.status_code, param=error["param"], code=error["code"])
    )

    assert mended is not None
    accepted = await api.post("/responses", content=RESPONSES.request(mended).body)
    events = lmstudio_events_in(accepted.content)
    text = joined(e["delta"] for e in events if e["type"] == "response.output_text.delta")
    assert "before that you asked: “hello”" in text


async def test_models_are_listed(api: httpx.AsyncClient) -> None:
    listed = await api.get(RESPONSES.models_path)

    assert [model.id for model in RESPONSES.read_models(listed.content)] == list(MODELS)
