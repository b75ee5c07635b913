"""Legacy completions, as the demo speaks them: templates recognised, one text for an answer."""

import json
from typing import Any

import httpx
import pytest

from chat.demo import prose
from chat.demo.apis.completions import MODELS, questions_in
from chat.demo.fake import FakeUpstream
from chat.dialects.base import AssistantTurn, Prompt, UserTurn
from chat.dialects.prompt_templates import TEMPLATES
from chat.events import JsonObject, MessageItem, ReasoningItem
from tests.demo.conftest import read_until_broken
from tests.demo.streams import blocks_of, joined, openai_chunks_in
from tests.demo.test_dialects import answer_to

PATH = "/completions/v1/completions"


async def post(client: httpx.AsyncClient, prompt: object, **members: Any) -> httpx.Response:
    body = {"model": "tributary/demo-base", "prompt": prompt, "stream": True, **members}
    return await client.post(PATH, json={k: v for k, v in body.items() if v is not None})


async def chunks_for(client: httpx.AsyncClient, prompt: str, **members: Any) -> list[JsonObject]:
    response = await post(client, prompt, **{"max_tokens": 50_000, **members})
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/event-stream"
    return openai_chunks_in(response.content)


def text_of(chunks: list[JsonObject], number: int = 0) -> str:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return joined(choice["text"] for choice in choices if choice["index"] == number)


def reasons_of(chunks: list[JsonObject]) -> list[str]:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return [choice["finish_reason"] for choice in choices if choice["finish_reason"]]


async def test_chunks_hold_text_and_end_with_a_reason(client: httpx.AsyncClient) -> None:
    chunks = await chunks_for(client, "User: a table\nAssistant:")

    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert set(chunks[0]) == {"id", "object", "created", "model", "choices"}
    assert set(chunks[0]["choices"][0]) == {"index", "text", "logprobs", "finish_reason"}
    assert text_of(chunks) == prose.TABLE
    assert reasons_of(chunks) == ["stop"]


async def test_answer_ends_after_sixteen_tokens_unless_more_are_asked_for(
    client: httpx.AsyncClient,
) -> None:
    chunks = await chunks_for(client, "a table", max_tokens=None)

    assert len([chunk for chunk in chunks if chunk["choices"][0]["text"]]) == 16
    assert reasons_of(chunks) == ["length"]


async def test_answer_ends_before_a_stop_text(client: httpx.AsyncClient) -> None:
    chunks = await chunks_for(client, "a table", stop=["field guide"])

    assert "field guide" not in text_of(chunks)
    assert reasons_of(chunks) == ["stop"]


async def test_usage_comes_last_where_asked_for(client: httpx.AsyncClient) -> None:
    chunks = await chunks_for(client, "a table", stream_options={"include_usage": True})

    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] > 100
    assert not any("usage" in chunk for chunk in chunks[:-1])


async def test_prompt_is_repeated_where_asked_for(client: httpx.AsyncClient) -> None:
    chunks = await chunks_for(client, "a table", echo=True)

    assert text_of(chunks) == "a table" + prose.TABLE


async def test_probabilities_are_parallel_lists(client: httpx.AsyncClient) -> None:
    chunks = await chunks_for(client, "a table", logprobs=2)

    first = chunks[0]["choices"][0]
    assert first["logprobs"]["tokens"] == [first["text"]]
    assert len(first["logprobs"]["top_logprobs"][0]) == 2


async def test_several_texts_come_side_by_side(client: httpx.AsyncClient) -> None:
    chunks = await chunks_for(client, "a table", n=2)

    assert [chunk["choices"][0]["index"] for chunk in chunks[:4]] == [0, 1, 0, 1]
    assert text_of(chunks) == prose.TABLE
    assert text_of(chunks, 1).endswith(prose.TABLE)
    assert text_of(chunks, 1) != prose.TABLE


async def test_whole_completion_says_what_the_chunks_say(client: httpx.AsyncClient) -> None:
    whole = (await post(client, "unicode", stream=False, max_tokens=9000)).json()
    chunks = await chunks_for(client, "unicode")

    assert whole["choices"][0]["text"] == text_of(chunks)
    assert whole["choices"][0]["finish_reason"] == "stop"
    assert whole["usage"]["total_tokens"] > whole["usage"]["completion_tokens"] > 10


async def test_error_is_the_last_thing_said(client: httpx.AsyncClient) -> None:
    chunks = await chunks_for(client, "error")

    assert chunks[-1]["error"]["code"] == 500
    assert reasons_of(chunks[:-1]) == []
    assert (await post(client, "error", stream=False, max_tokens=900)).status_code == 500


async def test_cut_ends_the_connection(client: httpx.AsyncClient) -> None:
    body = {"model": "tributary/demo-base", "prompt": "cut", "stream": True, "max_tokens": 900}

    received = await read_until_broken(client, PATH, body)

    assert b"[DONE]" not in received
    assert blocks_of(received)


@pytest.mark.parametrize(
    ("members", "status", "param"),
    [
        ({"model": "acme/unknown"}, 404, "model"),
        ({"prompt": None}, 400, "prompt"),
        ({"prompt": [1, 2]}, 400, "prompt"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"logprobs": 9}, 400, "logprobs"),
        ({"n": 99}, 400, "n"),
        ({"stop": ["a", "b", "c", "d", "e"]}, 400, "stop"),
        ({"stop": 7}, 400, "stop"),
    ],
)
async def test_bad_request_is_refused(
    client: httpx.AsyncClient, members: dict[str, object], status: int, param: str
) -> None:
    response = await post(client, **{"prompt": "hello", **members})

    assert response.status_code == status
    assert response.json()["error"]["param"] == param


async def test_what_is_no_json_is_refused(client: httpx.AsyncClient) -> None:
    response = await client.post(PATH, content=b"{")

    assert response.status_code == 400


async def test_models_are_listed(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/completions/v1/models")).json()

    assert [entry["id"] for entry in listed["data"]] == list(MODELS)


# --- together with the dialect ---------------------------------------------------------------


def prompt_for(*texts: str, model: str = "tributary/demo-base", **members: Any) -> Prompt:
    parameters = {"max_tokens": 9000, **members.pop("parameters", {})}
    turns = tuple(UserTurn(text=text) for text in texts)
    return Prompt(model=model, turns=turns, parameters=parameters, **members)


@pytest.mark.parametrize("template", TEMPLATES)
async def test_template_of_a_conversation_is_recognised(fake: FakeUpstream, template: str) -> None:
    options = {"prompt_template": template}
    first = await answer_to(fake, "openai_completions", prompt_for("show code", options=options))
    turns = (UserTurn(text="show code"), AssistantTurn(result=first), UserTurn(text="hello"))

    prompt = prompt_for(options=options, system="Be brief.")
    found = await answer_to(
        fake,
        "openai_completions",
        Prompt(
            model=prompt.model,
            turns=turns,
            options=options,
            parameters=prompt.parameters,
            system="Be brief.",
        ),
    )

    (message,) = (item for item in found.output if isinstance(item, MessageItem))
    assert "turn 2 of our conversation" in message.content
    assert f"a prompt in the template `{template}`" in message.content
    assert found.ext.status == "completed"
    assert found.ext.vendor == []


@pytest.mark.parametrize(
    ("scene", "status"),
    [
        *(("hello", "completed"), ("unicode", "completed"), ("error", "failed"), ("cut", "cut")),
        *(("tool", "completed"), ("refuse", "completed"), ("long", "completed")),
    ],
)
async def test_scenes_end_as_they_are_meant_to(fake: FakeUpstream, scene: str, status: str) -> None:
    found = await answer_to(fake, "openai_completions", prompt_for(scene))

    assert found.ext.status == status
    assert found.ext.vendor == []


async def test_thinking_comes_between_tags_and_is_taken_out(fake: FakeUpstream) -> None:
    model = "tributary/demo-base-thinker"

    found = await answer_to(fake, "openai_completions", prompt_for("a table", model=model))

    kinds = [type(item) for item in found.output]
    assert kinds == [ReasoningItem, MessageItem]
    assert found.ext.native["text"].startswith("<think>")


def test_prompt_in_no_template_is_one_question() -> None:
    assert questions_in("Once upon a time") == ("", ["Once upon a time"])
    assert json.dumps(questions_in("")) == '["", [""]]'
