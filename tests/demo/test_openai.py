"""OpenAI chat completions, as the demo speaks them."""

import json
from collections import defaultdict

import httpx
import pytest

from chat.demo.apis.openai.requests import SERVER
from tests.demo import texts
from tests.demo.conftest import Ask
from tests.demo.streams import (
    JsonObject,
    blocks_of,
    chunks_in,
    content_of,
    finish_reasons,
    read_until_broken,
)

SCENES = ["hello", "long", "code", "think", "table", "slow", "load", "unicode"]


async def chunks_for(ask: Ask, text: str, **members: object) -> list[JsonObject]:
    return chunks_in(await ask(text, **members))


def calls_in(chunks: list[JsonObject]) -> dict[int, JsonObject]:
    calls: dict[int, JsonObject] = defaultdict(lambda: {"arguments": ""})
    for chunk in chunks:
        for choice in chunk["choices"]:
            for fragment in choice["delta"].get("tool_calls", []):
                call = calls[fragment["index"]]
                call.setdefault("id", fragment.get("id"))
                call.setdefault("name", fragment["function"].get("name"))
                call["arguments"] += fragment["function"]["arguments"]
    return dict(calls)


async def test_scenes_have_one_finish_reason(ask_openai: Ask, subtests: pytest.Subtests) -> None:
    for scene in SCENES:
        with subtests.test(scene):
            chunks = await chunks_for(ask_openai, scene)

            assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
            assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
            assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
            assert finish_reasons(chunks) == ["stop"]
            assert not any("usage" in chunk for chunk in chunks)


async def test_unstreamed_completion_equals_the_chunks(
    ask_openai: Ask, subtests: pytest.Subtests
) -> None:
    for scene in [*SCENES, "refuse", "tool", "tool fail"]:
        with subtests.test(scene):
            chunks = await chunks_for(ask_openai, scene, model="tributary/demo-reasoner")
            response = await ask_openai(scene, model="tributary/demo-reasoner", stream=False)

            whole = response.json()
            message = whole["choices"][0]["message"]
            assert whole["object"] == "chat.completion"
            assert message["content"] == content_of(chunks)
            assert message["reasoning_content"] == content_of(chunks, "reasoning_content")
            assert message.get("refusal", "") == content_of(chunks, "refusal")
            assert whole["choices"][0]["finish_reason"] == finish_reasons(chunks)[0]
            assert [call["function"]["arguments"] for call in message.get("tool_calls", [])] == [
                call["arguments"] for call in calls_in(chunks).values()
            ]
            assert whole["usage"]["total_tokens"] > whole["usage"]["completion_tokens"]


async def test_usage_is_a_last_chunk_on_request(ask_openai: Ask) -> None:
    chunks = await chunks_for(
        ask_openai, "think", model="tributary/demo-reasoner", stream_options={"include_usage": True}
    )

    usage = chunks[-1]["usage"]
    assert chunks[-1]["choices"] == []
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert 0 < usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]


async def test_reasoning_has_its_own_member(ask_openai: Ask) -> None:
    chunks = await chunks_for(ask_openai, "think")

    assert content_of(chunks, "reasoning_content") == texts.REASONING
    assert content_of(chunks) == texts.REASONED_ANSWER


async def test_refusal_has_its_own_member(ask_openai: Ask) -> None:
    chunks = await chunks_for(ask_openai, "refuse")

    assert content_of(chunks, "refusal") == texts.REFUSAL
    assert content_of(chunks) == ""


def tool(name: str, **properties: object) -> JsonObject:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


GAUGE = tool("read_gauge", station={"type": "string"}, hours={"type": "integer"})


async def test_tool_call_ends_the_answer(ask_openai: Ask) -> None:
    chunks = await chunks_for(ask_openai, "tool", tools=[GAUGE])

    (call,) = calls_in(chunks).values()
    assert call["name"] == "read_gauge"
    assert json.loads(call["arguments"]) == {"station": "October", "hours": 12}
    assert finish_reasons(chunks) == ["tool_calls"]


async def test_tools_are_called_only_when_offered(
    ask_openai: Ask, subtests: pytest.Subtests
) -> None:
    for members in [{}, {"tools": [GAUGE], "tool_choice": "none"}]:
        with subtests.test(members=members):
            chunks = await chunks_for(ask_openai, "tool", **members)

            assert calls_in(chunks) == {}
            assert content_of(chunks) == texts.TOOL_MISSING
            assert finish_reasons(chunks) == ["stop"]


TOOL_CHOICES = [
    ("a tool please", "auto", "read_gauge"),
    ("the tool open_sluice please", "auto", "open_sluice"),
    ("hello", "required", "read_gauge"),
    ("hello", {"type": "function", "function": {"name": "open_sluice"}}, "open_sluice"),
]


async def test_named_tool_is_called(ask_openai: Ask, subtests: pytest.Subtests) -> None:
    for text, choice, name in TOOL_CHOICES:
        with subtests.test(text=text, choice=choice):
            chunks = await chunks_for(
                ask_openai, text, tools=[GAUGE, tool("open_sluice")], tool_choice=choice
            )

            assert [call["name"] for call in calls_in(chunks).values()] == [name]


async def test_parallel_tool_calls_can_be_disabled(ask_openai: Ask) -> None:
    chunks = await chunks_for(ask_openai, "tool fail", tools=[GAUGE], parallel_tool_calls=False)

    assert len(calls_in(chunks)) == 1


async def test_choices_interleave(ask_openai: Ask) -> None:
    chunks = await chunks_for(ask_openai, "table", n=3, stream_options={"include_usage": True})

    order = [choice["index"] for chunk in chunks for choice in chunk["choices"]]
    said = [
        content_of([c for c in chunks if c["choices"] and c["choices"][0]["index"] == number])
        for number in range(3)
    ]
    assert order[:6] == [0, 1, 2, 0, 1, 2]
    assert said[0] == texts.TABLE
    assert said[2] == f"*Another answer, number 3.* {texts.TABLE}"
    assert finish_reasons(chunks) == ["stop"] * 3
    assert chunks[-1]["usage"]["completion_tokens"] > 3 * len(texts.TABLE) // 6


async def test_unstreamed_choices_are_one_completion(ask_openai: Ask) -> None:
    whole = (await ask_openai("table", n=2, stream=False, logprobs=True)).json()

    assert [choice["index"] for choice in whole["choices"]] == [0, 1]
    assert whole["choices"][0]["message"]["content"] == texts.TABLE
    tokens = [entry["token"] for entry in whole["choices"][0]["logprobs"]["content"]]
    assert "".join(tokens) == texts.TABLE


async def test_logprobs_on_request(ask_openai: Ask) -> None:
    chunks = await chunks_for(ask_openai, "table", logprobs=True, top_logprobs=2)

    entries = [
        choice["logprobs"]["content"][0]
        for chunk in chunks
        for choice in chunk["choices"]
        if choice["logprobs"]
    ]
    assert "".join(entry["token"] for entry in entries) == texts.TABLE
    assert all(len(entry["top_logprobs"]) == 2 for entry in entries)
    assert all(entry["top_logprobs"][0]["token"] == entry["token"] for entry in entries)
    assert bytes(entries[0]["bytes"]).decode() == entries[0]["token"]


async def test_response_format_is_kept(ask_openai: Ask) -> None:
    schema = {"type": "object", "properties": {"level": {"type": "number"}}}
    form = {"type": "json_schema", "json_schema": {"name": "level", "schema": schema}}

    chunks = await chunks_for(ask_openai, "hello", response_format=form)

    assert json.loads(content_of(chunks)) == {"level": 1.5}


async def test_failing_call_interleaves_with_broken_arguments(ask_openai: Ask) -> None:
    chunks = await chunks_for(ask_openai, "tool fail", tools=[GAUGE])

    order = [
        fragment["index"]
        for chunk in chunks
        for choice in chunk["choices"]
        for fragment in choice["delta"].get("tool_calls", [])
    ]
    calls = calls_in(chunks)
    assert order[:4] == [0, 1, 0, 1]
    assert calls[0]["id"] != calls[1]["id"]
    with pytest.raises(json.JSONDecodeError):
        json.loads(calls[1]["arguments"])


async def test_tool_results_are_cited(ask_openai: Ask) -> None:
    calls = calls_in(await chunks_for(ask_openai, "tool", tools=[GAUGE]))
    call = {
        "id": calls[0]["id"],
        "type": "function",
        "function": {"name": "read_gauge", "arguments": calls[0]["arguments"]},
    }
    messages = [
        {"role": "user", "content": "tool"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "level 4.2 m"},
    ]
    chunks = await chunks_for(ask_openai, "", messages=messages)

    assert "level 4.2 m" in content_of(chunks)
    assert finish_reasons(chunks) == ["stop"]


async def test_error_in_mid_stream_has_no_finish_reason(ask_openai: Ask) -> None:
    chunks = await chunks_for(ask_openai, "error")

    assert chunks[-1]["error"]["code"] == "generation_failed"
    assert finish_reasons(chunks[:-1]) == []
    assert content_of(chunks[:-1])


async def test_unstreamed_error_is_an_http_error(ask_openai: Ask) -> None:
    response = await ask_openai("error", stream=False)

    assert response.status_code == 500
    assert response.json()["error"]["type"] == "server_error"


async def test_cut_ends_without_a_terminator(client: httpx.AsyncClient) -> None:
    body = {
        "model": "tributary/demo-writer",
        "messages": [{"role": "user", "content": "cut"}],
        "stream": True,
    }
    received = await read_until_broken(client, "/v1/chat/completions", body)

    assert b"[DONE]" not in received
    assert b'"content":' in blocks_of(received)[-1]


async def test_slow_scene_sends_keep_alive_comments(ask_openai: Ask) -> None:
    await ask_openai("hello")
    response = await ask_openai("slow")

    assert blocks_of(response.content)[:14] == [b": waiting"] * 14


async def test_history_is_the_list_of_messages(ask_openai: Ask) -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "first?"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": [{"type": "text", "text": "second?"}]},
        {"role": "assistant", "content": "no"},
        {"role": "user", "content": "table"},
    ]
    chunks = await chunks_for(ask_openai, "", messages=messages)

    assert content_of(chunks).startswith(
        "*This is turn 3 of our conversation; before that you asked: “second?”*\n\n# Plan for"
    )


async def test_image_of_the_last_question_is_described(ask_openai: Ask) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/4AAQ"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "hello"}, picture]}]
    chunks = await chunks_for(ask_openai, "", messages=messages, temperature=0.5)

    assert "With this message came a picture (image/jpeg) and `temperature` 0.5." in content_of(
        chunks
    )


async def test_token_limit_gives_finish_reason_length(
    ask_openai: Ask, subtests: pytest.Subtests
) -> None:
    for name in ["max_tokens", "max_completion_tokens"]:
        with subtests.test(name):
            chunks = await chunks_for(ask_openai, "long", **{name: 5})

            assert finish_reasons(chunks) == ["length"]
            assert sum(bool(c["choices"][0]["delta"].get("content")) for c in chunks) == 5


async def test_reasoning_effort_none_disables_reasoning(ask_openai: Ask) -> None:
    chunks = await chunks_for(
        ask_openai, "hello", model="tributary/demo-reasoner", reasoning_effort="none"
    )

    assert content_of(chunks, "reasoning_content") == ""


async def test_model_list_holds_chat_models(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/v1/models")).json()

    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == [model.id for model in SERVER.models]


INVALID = [
    ({"model": None}, 400, "model"),
    ({"model": "acme/unknown"}, 404, "model"),
    ({"messages": None}, 400, "messages"),
    ({"messages": []}, 400, "messages"),
    ({"messages": ["x"]}, 400, "messages[0].role"),
    ({"messages": [{"role": "pilot", "content": "x"}]}, 400, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 7}]}, 400, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "x"}]}]}, 400, "messages[0].content"),
    ({"messages": [{"role": "system", "content": "x"}]}, 400, "messages"),
    ({"max_tokens": "many"}, 400, "max_tokens"),
    ({"n": 9}, 400, "n"),
    ({"n": True}, 400, "n"),
    ({"top_logprobs": 2}, 400, "top_logprobs"),
    ({"response_format": {"type": "json_schema"}}, 400, "response_format"),
]


async def test_invalid_requests_are_refused(ask_openai: Ask, subtests: pytest.Subtests) -> None:
    for members, status, param in INVALID:
        with subtests.test(members=members):
            response = await ask_openai("hello", **members)

            error = response.json()["error"]
            assert response.status_code == status
            assert (error["type"], error["param"]) == ("invalid_request_error", param)
            assert set(error) == {"message", "type", "param", "code"}
