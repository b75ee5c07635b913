"""Bitseek, as the demo speaks it: no model, no ``[DONE]``, whole calls."""

import json
from typing import Any

import httpx
import pytest

from chat.demo import prose
from chat.demo.fake import FakeUpstream
from chat.dialects.base import AssistantTurn, Prompt, ToolDefinition, UserTurn
from chat.events import JsonObject, MessageItem, Result, ToolCallItem
from tests.demo.conftest import read_until_broken
from tests.demo.streams import blocks_of
from tests.demo.test_dialects import answer_to

PATH = "/bitseek/v1/chat/completions"
TIDE = ToolDefinition(name="tide", schema={"properties": {"place": {"type": "string"}}})


async def post(client: httpx.AsyncClient, text: object, **members: Any) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": text}], "stream": True, **members}
    return await client.post(PATH, json=body)


def chunks_in(body: bytes) -> list[JsonObject]:
    return [json.loads(block.removeprefix(b"data: ")) for block in blocks_of(body)]


async def asked(fake: FakeUpstream, *turns: Any, **members: Any) -> Result:
    whole = tuple(UserTurn(text=turn) if isinstance(turn, str) else turn for turn in turns)
    return await answer_to(fake, "bitseek", Prompt(model="any", turns=whole, **members))


def text_of(found: Result) -> str:
    return "".join(item.content for item in found.output if isinstance(item, MessageItem))


async def test_chunks_name_no_model_and_end_without_a_marker(client: httpx.AsyncClient) -> None:
    chunks = chunks_in((await post(client, "a table")).content)

    assert {(chunk["object"], chunk["model"]) for chunk in chunks} == {("chat.completion", "")}
    assert chunks[0]["id"].startswith("stream:chat:")
    assert chunks[-1]["choices"] == [
        {"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}
    ]


async def test_calls_come_whole(client: httpx.AsyncClient) -> None:
    tool = {"type": "function", "function": {"name": "tide", "parameters": TIDE.schema}}

    chunks = chunks_in((await post(client, "tool", tools=[tool])).content)

    (call,) = chunks[-2]["choices"][0]["delta"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"place": "Mill Bridge"}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_error_is_a_member_of_a_chunk(client: httpx.AsyncClient) -> None:
    chunks = chunks_in((await post(client, "error")).content)

    assert chunks[-1]["error"]["code"] == 4002
    assert chunks[-1]["choices"][0]["finish_reason"] is None


async def test_cut_ends_the_connection(client: httpx.AsyncClient) -> None:
    body = {"messages": [{"role": "user", "content": "cut"}]}

    assert chunks_in(await read_until_broken(client, PATH, body))


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"model": "m"}, "model"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}, "messages"),
        ({"enableWebSearch": True, "webSearch": {"maxResults": 9}}, "webSearch"),
    ],
)
async def test_bad_request_is_refused(
    client: httpx.AsyncClient, members: dict[str, object], param: str
) -> None:
    response = await post(client, "hello", **members)

    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


async def test_what_is_no_json_is_refused(client: httpx.AsyncClient) -> None:
    assert (await client.post(PATH, content=b"{")).status_code == 400


# --- together with the dialect ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("scene", "status"),
    [("hello", "completed"), ("error", "failed"), ("cut", "cut"), ("unicode", "completed")],
)
async def test_scenes_end_as_they_are_meant_to(fake: FakeUpstream, scene: str, status: str) -> None:
    found = await asked(fake, scene)

    assert found.ext.status == status
    assert found.ext.vendor == []


async def test_search_and_conversation_arrive(fake: FakeUpstream) -> None:
    parameters = {"web_search": "force", "web_search_results": 3, "web_search_freshness": "day"}

    found = await asked(fake, "hello", parameters=parameters, options={"conversation_id": "conv-7"})

    assert "the wish to search the web (`force`, 3 results of the day)" in text_of(found)
    assert "the conversation `conv-7`" in text_of(found)


async def test_calls_are_answered(fake: FakeUpstream) -> None:
    waiting = await asked(fake, "tool", tools=(TIDE,))
    (call,) = (item for item in waiting.output if isinstance(item, ToolCallItem))
    call.output, call.status = "2.4 m", "done"

    found = await asked(fake, "tool", AssistantTurn(result=waiting, is_native=True), tools=(TIDE,))

    assert waiting.ext.status == "waiting"
    assert "2.4 m" in text_of(found)


async def test_history_is_remembered(fake: FakeUpstream) -> None:
    first = await asked(fake, "a table")

    found = await asked(fake, "a table", AssistantTurn(result=first, is_native=True), "code")

    assert text_of(first) == prose.TABLE
    assert "turn 2 of our conversation; before that you asked: “a table”" in text_of(found)
