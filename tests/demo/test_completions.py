"""Legacy completions, as the demo speaks them."""

import json
from typing import Any

import httpx
import pytest

from chat.demo.apis.openai_completions import SERVER, questions_in
from chat.demo.fake import FakeUpstream
from chat.dialects.base import AssistantTurn, Turn
from chat.dialects.openai_completions.prompt_templates import TEMPLATES
from chat.events import JsonObject, MessageItem, ReasoningItem, Result
from tests.demo import texts
from tests.demo.answers import answer_to, make_prompt
from tests.demo.streams import blocks_of, chunks_in, joined, read_until_broken

PATH = "/completions/v1/completions"


async def post(client: httpx.AsyncClient, prompt: object, **members: Any) -> httpx.Response:
    body = {"model": "tributary/demo-base", "prompt": prompt, "stream": True, **members}
    return await client.post(PATH, json={k: v for k, v in body.items() if v is not None})


async def chunks_for(client: httpx.AsyncClient, prompt: str, **members: Any) -> list[JsonObject]:
    return chunks_in(await post(client, prompt, **{"max_tokens": 50_000, **members}))


def text_of(chunks: list[JsonObject], number: int = 0) -> str:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return joined(choice["text"] for choice in choices if choice["index"] == number)


def reasons_of(chunks: list[JsonObject]) -> list[str]:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return [choice["finish_reason"] for choice in choices if choice["finish_reason"]]


async def test_chunks_have_text_and_a_finish_reason(client: httpx.AsyncClient) -> None:
    chunks = await chunks_for(client, "User: a table\nAssistant:")

    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert set(chunks[0]) == {"id", "object", "created", "model", "choices"}
    assert set(chunks[0]["choices"][0]) == {"index", "text", "logprobs", "finish_reason"}
    assert text_of(chunks) == texts.TABLE
    assert reasons_of(chunks) == ["stop"]


async def test_default_limit_is_16_tokens(client: httpx.AsyncClient) -> None:
    chunks = await chunks_for(client, "a table", max_tokens=None)

    assert len([chunk for chunk in chunks if chunk["choices"][0]["text"]]) == 16
    assert reasons_of(chunks) == ["length"]


async def test_stop_text_ends_the_answer(client: httpx.AsyncClient) -> None:
    chunks = await chunks_for(client, "a table", stop=["team day"])

    assert "team day" not in text_of(chunks)
    assert reasons_of(chunks) == ["stop"]


async def test_usage_is_a_last_chunk_on_request(client: httpx.AsyncClient) -> None:
    chunks = await chunks_for(client, "a table", stream_options={"include_usage": True})

    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] > 100
    assert not any("usage" in chunk for chunk in chunks[:-1])


async def test_echo_repeats_the_prompt(client: httpx.AsyncClient) -> None:
    chunks = await chunks_for(client, "a table", echo=True)

    assert text_of(chunks) == "a table" + texts.TABLE


async def test_logprobs_are_parallel_lists(client: httpx.AsyncClient) -> None:
    chunks = await chunks_for(client, "a table", logprobs=2)

    first = chunks[0]["choices"][0]
    assert first["logprobs"]["tokens"] == [first["text"]]
    assert len(first["logprobs"]["top_logprobs"][0]) == 2


async def test_choices_interleave(client: httpx.AsyncClient) -> None:
    chunks = await chunks_for(client, "a table", n=2)

    assert [chunk["choices"][0]["index"] for chunk in chunks[:4]] == [0, 1, 0, 1]
    assert text_of(chunks) == texts.TABLE
    assert text_of(chunks, 1).endswith(texts.TABLE)
    assert text_of(chunks, 1) != texts.TABLE


async def test_unstreamed_completion_equals_the_chunks(client: httpx.AsyncClient) -> None:
    whole = (await post(client, "unicode", stream=False, max_tokens=9000)).json()
    chunks = await chunks_for(client, "unicode")

    assert whole["choices"][0]["text"] == text_of(chunks)
    assert whole["choices"][0]["finish_reason"] == "stop"
    assert whole["usage"]["total_tokens"] > whole["usage"]["completion_tokens"] > 10


async def test_error_is_the_last_chunk(client: httpx.AsyncClient) -> None:
    chunks = await chunks_for(client, "error")

    assert chunks[-1]["error"]["code"] == 500
    assert reasons_of(chunks[:-1]) == []
    assert (await post(client, "error", stream=False, max_tokens=900)).status_code == 500


async def test_cut_breaks_the_connection(client: httpx.AsyncClient) -> None:
    body = {"model": "tributary/demo-base", "prompt": "cut", "stream": True, "max_tokens": 900}

    received = await read_until_broken(client, PATH, body)

    assert b"[DONE]" not in received
    assert blocks_of(received)


INVALID = [
    ({"model": "acme/unknown"}, 404, "model"),
    ({"prompt": None}, 400, "prompt"),
    ({"prompt": [1, 2]}, 400, "prompt"),
    ({"max_tokens": 0}, 400, "max_tokens"),
    ({"logprobs": 9}, 400, "logprobs"),
    ({"n": 99}, 400, "n"),
    ({"stop": ["a", "b", "c", "d", "e"]}, 400, "stop"),
    ({"stop": 7}, 400, "stop"),
]


async def test_invalid_requests_are_refused(
    client: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for members, status, param in INVALID:
        with subtests.test(members=members):
            response = await post(client, **{"prompt": "hello", **members})

            assert response.status_code == status
            assert response.json()["error"]["param"] == param


async def test_invalid_json_is_refused(client: httpx.AsyncClient) -> None:
    response = await client.post(PATH, content=b"{")

    assert response.status_code == 400


async def test_models_are_listed(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/completions/v1/models")).json()

    assert [entry["id"] for entry in listed["data"]] == [model.id for model in SERVER.models]


# --- together with the dialect ---------------------------------------------------------------


async def answer(
    fake: FakeUpstream, *turns: Turn | str, model: str = "tributary/demo-base", **members: Any
) -> Result:
    parameters = {"max_tokens": 9000}
    prompt = make_prompt(*turns, model=model, parameters=parameters, **members)
    return await answer_to(fake, "openai_completions", prompt)


async def test_prompt_template_is_recognized(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    for template in TEMPLATES:
        with subtests.test(template):
            options = {"prompt_template": template}
            first = await answer(fake, "show code", options=options)
            turns = ("show code", AssistantTurn(result=first), "hello")

            found = await answer(fake, *turns, options=options, system="Be brief.")

            (message,) = (item for item in found.output if isinstance(item, MessageItem))
            assert "turn 2 of our conversation" in message.content
            assert f"a prompt in the template `{template}`" in message.content
            assert found.ext.status == "completed"
            assert found.ext.vendor == []


ENDINGS = [
    *(("hello", "completed"), ("unicode", "completed"), ("error", "failed"), ("cut", "cut")),
    *(("tool", "completed"), ("refuse", "completed"), ("long", "completed")),
]


async def test_scenes_have_their_ending(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    for scene, status in ENDINGS:
        with subtests.test(scene):
            found = await answer(fake, scene)

            assert found.ext.status == status
            assert found.ext.vendor == []


async def test_thinking_between_tags_is_extracted(fake: FakeUpstream) -> None:
    found = await answer(fake, "a table", model="tributary/demo-base-thinker")

    assert [type(item) for item in found.output] == [ReasoningItem, MessageItem]
    assert found.ext.native["text"].startswith("<think>")


def test_prompt_without_a_template_is_one_question() -> None:
    assert questions_in("Once upon a time") == ("", ["Once upon a time"])
    assert json.dumps(questions_in("")) == '["", [""]]'
