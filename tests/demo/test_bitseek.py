"""Bitseek, as the demo speaks it: no model, no ``[DONE]``, complete calls."""

import json
from typing import Any

import httpx
import pytest

from chat.demo.fake import FakeUpstream
from chat.dialects.base import ToolDefinition, Turn
from chat.events import JsonObject, Result
from tests.demo import texts
from tests.demo.answers import answer_to, make_prompt, native, text_in, with_outputs
from tests.demo.streams import blocks_of, read_until_broken

PATH = "/bitseek/v1/chat/completions"
TIDE = ToolDefinition(name="tide", schema={"properties": {"place": {"type": "string"}}})


async def post(client: httpx.AsyncClient, text: object, **members: Any) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": text}], "stream": True, **members}
    return await client.post(PATH, json=body)


def chunks_in(body: bytes) -> list[JsonObject]:
    return [json.loads(block.removeprefix(b"data: ")) for block in blocks_of(body)]


async def answer(fake: FakeUpstream, *turns: Turn | str, **members: Any) -> Result:
    return await answer_to(fake, "bitseek", make_prompt(*turns, **members))


async def test_chunks_have_no_model_and_no_terminator(client: httpx.AsyncClient) -> None:
    chunks = chunks_in((await post(client, "a table")).content)

    assert {(chunk["object"], chunk["model"]) for chunk in chunks} == {("chat.completion", "")}
    assert chunks[0]["id"].startswith("stream:chat:")
    assert chunks[-1]["choices"] == [
        {"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}
    ]


async def test_calls_come_in_one_chunk(client: httpx.AsyncClient) -> None:
    tool = {"type": "function", "function": {"name": "tide", "parameters": TIDE.schema}}

    chunks = chunks_in((await post(client, "tool", tools=[tool])).content)

    (call,) = chunks[-2]["choices"][0]["delta"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"place": "October"}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_error_is_a_member_of_a_chunk(client: httpx.AsyncClient) -> None:
    chunks = chunks_in((await post(client, "error")).content)

    assert chunks[-1]["error"]["code"] == 4002
    assert chunks[-1]["choices"][0]["finish_reason"] is None


async def test_cut_breaks_the_connection(client: httpx.AsyncClient) -> None:
    body = {"messages": [{"role": "user", "content": "cut"}]}

    assert chunks_in(await read_until_broken(client, PATH, body))


async def test_invalid_requests_are_refused(
    client: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for members, param in [
        ({"model": "m"}, "model"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}, "messages"),
        ({"enableWebSearch": True, "webSearch": {"maxResults": 9}}, "webSearch"),
    ]:
        with subtests.test(param):
            response = await post(client, "hello", **members)

            assert response.status_code == 400
            assert response.json()["error"]["param"] == param


async def test_invalid_json_is_refused(client: httpx.AsyncClient) -> None:
    assert (await client.post(PATH, content=b"{")).status_code == 400


# --- together with the dialect ---------------------------------------------------------------


async def test_scenes_have_their_ending(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    for scene, status in [
        ("hello", "completed"),
        ("error", "failed"),
        ("cut", "cut"),
        ("unicode", "completed"),
    ]:
        with subtests.test(scene):
            found = await answer(fake, scene)

            assert found.ext.status == status
            assert found.ext.vendor == []


async def test_web_search_and_conversation_id_arrive(fake: FakeUpstream) -> None:
    parameters = {"web_search": "force", "web_search_results": 3, "web_search_freshness": "day"}

    found = await answer(
        fake, "hello", parameters=parameters, options={"conversation_id": "conv-7"}
    )

    assert "the wish to search the web (`force`, 3 results of the day)" in text_in(found)
    assert "the conversation `conv-7`" in text_in(found)


async def test_tool_result_continues_the_answer(fake: FakeUpstream) -> None:
    waiting = await answer(fake, "tool", tools=(TIDE,))

    found = await answer(fake, "tool", with_outputs(waiting, "2.4 m"), tools=(TIDE,))

    assert waiting.ext.status == "waiting"
    assert "2.4 m" in text_in(found)


async def test_history_is_understood(fake: FakeUpstream) -> None:
    first = await answer(fake, "a table")

    found = await answer(fake, "a table", native(first), "code")

    assert text_in(first) == texts.TABLE
    assert "turn 2 of our conversation; before that you asked: “a table”" in text_in(found)
