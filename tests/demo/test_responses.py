"""The Responses API, as the demo speaks it and as our own dialect reads it."""

import base64
import zlib
from collections.abc import AsyncIterator
from itertools import product

import httpx
import pytest
import pytest_asyncio

from chat import dialects, result
from chat.demo.apis.responses import SERVER
from chat.demo.fake import FakeUpstream
from chat.dialects.base import Image, Reply, ToolDefinition, Turn, UserTurn
from chat.events import ErrorInfo, MediaItem, MessageItem, ReasoningItem, RefusalItem, Result
from tests.demo import texts
from tests.demo.answers import answer_to, calls_in, connect, make_prompt, native, with_outputs
from tests.demo.streams import JsonObject, events_in, joined, read_until_broken

RESPONSES = dialects.get("openai_responses")
AGENT, OPEN_AGENT = (model.id for model in SERVER.models)
TOOL = ToolDefinition(
    name="read_gauge", schema={"type": "object", "properties": {"station": {"type": "string"}}}
)
FUNCTION = {"type": "function", "name": "read_gauge", "parameters": TOOL.schema}
# The server keeps the history, or every request has all of it.
HISTORIES: list[JsonObject] = [{}, {"history": "stateless"}]


@pytest_asyncio.fixture
async def api(fake: FakeUpstream) -> AsyncIterator[httpx.AsyncClient]:
    async with connect(fake, RESPONSES.name) as client:
        yield client


async def post(api: httpx.AsyncClient, text: str, **members: object) -> httpx.Response:
    body = {"model": AGENT, "input": text, "stream": True, **members}
    given = {name: value for name, value in body.items() if value is not None}
    return await api.post("/responses", json=given)


async def events_for(api: httpx.AsyncClient, text: str, **members: object) -> list[JsonObject]:
    return events_in(await post(api, text, **members))


def types_in(events: list[JsonObject]) -> list[str]:
    """The events in order, each name once for those that repeat it."""
    names = [event["type"].removeprefix("response.") for event in events]
    return [name for name, before in zip(names, ["", *names[:-1]], strict=True) if name != before]


SCENES = ["hello", "code", "think", "table", "unicode", "slow", "mcp fail", "approval"]
SCENES += ["search the web", "python", "draw", "refuse", "queue", "filter", "tool"]


async def test_scenes_are_numbered_and_end_with_the_whole(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for scene, model in [*((scene, AGENT) for scene in SCENES), ("think", OPEN_AGENT)]:
        with subtests.test(scene=scene, model=model):
            events = await events_for(api, scene, model=model, tools=[FUNCTION])

            assert [event["sequence_number"] for event in events] == list(range(len(events)))
            assert events[0]["type"] == "response.created"
            done = [
                event["item"] for event in events if event["type"] == "response.output_item.done"
            ]
            added = [
                event["item"] for event in events if event["type"] == "response.output_item.added"
            ]
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


async def test_obfuscation_can_be_disabled(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for options, is_padded in [(None, True), (False, False)]:
        with subtests.test(options=options):
            wish = None if options is None else {"include_obfuscation": options}

            events = await events_for(api, "hello", stream_options=wish)

            deltas = [event for event in events if event["type"].endswith(".delta")]
            assert {"obfuscation" in event for event in deltas} == {is_padded}


async def test_unstreamed_answer_equals_the_end_of_the_stream(api: httpx.AsyncClient) -> None:
    whole = (await post(api, "table", stream=False)).json()
    streamed = (await events_for(api, "table"))[-1]["response"]

    for answer in (whole, streamed):
        for name in ("id", "created_at"):
            answer.pop(name)
        for item in answer["output"]:
            item.pop("id")
    assert whole == streamed


async def test_images_are_png(api: httpx.AsyncClient) -> None:
    events = await events_for(api, "draw")

    partial = [event["partial_image_b64"] for event in events if "partial_image_b64" in event]
    final = events[-1]["response"]["output"][-2]["result"]
    for picture in (*partial, final):
        data = base64.b64decode(picture)
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        start = data.index(b"IDAT") + 4
        assert len(zlib.decompress(data[start:-16])) == 80 * (1 + 3 * 120)
    assert len({*partial, final}) == 3


INVALID = [
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
]


async def test_invalid_requests_are_refused(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for members, param, code in INVALID:
        with subtests.test(members=members):
            response = await post(api, "hello", **members)

            error = response.json()["error"]
            assert response.status_code == 400
            assert (error["type"], error["param"], error["code"]) == (
                "invalid_request_error",
                param,
                code,
            )


async def test_cut_ends_without_a_terminator(api: httpx.AsyncClient) -> None:
    body = {"model": AGENT, "input": "cut", "stream": True}

    received = await read_until_broken(api, "/responses", body)

    assert b"response.completed" not in received
    assert b"event: response.output_text.delta" in received


# --- with our own dialect -------------------------------------------------------------


async def answer(
    fake: FakeUpstream, *turns: Turn | str, model: str = AGENT, **members: object
) -> Result:
    prompt = make_prompt(*turns, model=model, **members)
    assert RESPONSES.request(prompt).notes == ()
    return await answer_to(fake, RESPONSES.name, prompt)


ENDINGS = [
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
]


async def test_scenes_have_their_ending(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    for scene, status, reason in ENDINGS:
        with subtests.test(scene):
            found = await answer(fake, scene, tools=(TOOL,))

            assert (found.ext.status, found.ext.stop.reason) == (status, reason)
            assert found.ext.vendor == []
            assert "differences" not in found.ext.meta
            assert not {"gap", "repeats", "unknown_members"} & found.ext.meta.keys()


async def test_token_limit_is_reported(fake: FakeUpstream) -> None:
    found = await answer(fake, "long", parameters={"max_output_tokens": 60})

    assert (found.ext.stop.reason, found.ext.stop.raw) == ("length", "max_output_tokens")
    assert found.stats.total_output_tokens == 60


async def test_thinking_is_a_summary_or_full(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    for model, kind in [(AGENT, "summary"), (OPEN_AGENT, "full")]:
        with subtests.test(model=model):
            found = await answer(fake, "think", model=model)

            (thought,) = (item for item in found.output if isinstance(item, ReasoningItem))
            assert thought.kind == kind
            assert thought.content.strip() == texts.REASONING.strip()


async def test_search_is_cited(fake: FakeUpstream) -> None:
    found = await answer(fake, "search the web")

    last = found.output[-1]
    assert isinstance(last, MessageItem)
    quoted = [last.content[cited.start : cited.end] for cited in last.citations]
    assert quoted == [
        "the library rents out a room with 24 seats",
        "a whole day costs 180 euros",
    ]


async def test_code_and_images_are_shown(fake: FakeUpstream) -> None:
    code = await answer(fake, "python")
    drawn = await answer(fake, "draw")

    (run,) = calls_in(code)
    assert run.output == "mean 39.0 minutes\n"
    assert str(run.arguments["code"]).startswith("minutes = ")
    for found in (code, drawn):
        (medium,) = (item for item in found.output if isinstance(item, MediaItem))
        assert medium.media_type == "image/png"
    assert [isinstance(item, RefusalItem) for item in drawn.output] == [False] * len(drawn.output)


async def test_conversation_continues(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    for options in HISTORIES:
        with subtests.test(options=options):
            first = await answer(fake, "think", options=options)

            found = await answer(
                *(fake, "think", native(first), "a table"),
                options=options,
                previous_response_id=first.response_id,
                system="Be brief.",
            )

            text = result.plain_text(found)
            assert "turn 2 of our conversation; before that you asked: “think”" in text


async def test_images_and_instructions_arrive(fake: FakeUpstream) -> None:
    picture = Image(media_type="image/jpeg", data="/9j/4AAQ")

    found = await answer(fake, UserTurn(text="hello", images=(picture,)), system="Be brief.")

    assert "a picture (image/jpeg) and instructions of 9 characters" in result.plain_text(found)


async def test_tool_result_continues_the_answer(
    fake: FakeUpstream, subtests: pytest.Subtests
) -> None:
    for options in HISTORIES:
        with subtests.test(options=options):
            members = {"tools": (TOOL,), "options": options}
            first = await answer(fake, "use the tool", **members)
            (call,) = calls_in(first)
            assert call.call_id is not None
            assert call.call_id.startswith("call_")

            found = await answer(
                *(fake, "use the tool", with_outputs(first, "2.31 m")),
                **members,
                previous_response_id=first.response_id,
            )

            assert "```\n2.31 m\n```" in result.plain_text(found)
            assert found.ext.status == "completed"


async def test_approval_continues_the_answer(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    question = "may I have your approval?"
    outcomes = [(False, "You allowed it", ["book_room"]), (True, "You declined", [])]
    for options, (is_declined, words, called) in product(HISTORIES, outcomes):
        with subtests.test(options=options, is_declined=is_declined):
            first = await answer(fake, question, options=options)
            (ask,) = first.ext.asks
            reply = Reply(ask_id=ask["ask_id"], style=ask["style"], is_declined=is_declined)

            found = await answer(
                *(fake, question, native(first, reply)),
                options=options,
                previous_response_id=first.response_id,
            )

            assert words in result.plain_text(found)
            assert [call.tool for call in calls_in(found)] == called


async def test_lost_history_is_sent_again(fake: FakeUpstream, api: httpx.AsyncClient) -> None:
    first = await answer(fake, "hello")
    prompt = make_prompt(
        *("hello", native(first), "again"), model=AGENT, previous_response_id="resp_lost"
    )
    refused = await api.post("/responses", content=RESPONSES.request(prompt).body)
    error = refused.json()["error"]

    mended = RESPONSES.after_refusal(
        prompt, ErrorInfo(status=refused.status_code, param=error["param"], code=error["code"])
    )

    assert mended is not None
    accepted = await api.post("/responses", content=RESPONSES.request(mended).body)
    events = events_in(accepted)
    text = joined(e["delta"] for e in events if e["type"] == "response.output_text.delta")
    assert "before that you asked: “hello”" in text


async def test_models_are_listed(api: httpx.AsyncClient) -> None:
    listed = await api.get(RESPONSES.models_path)

    assert [model.id for model in RESPONSES.read_models(listed.content)] == [AGENT, OPEN_AGENT]
