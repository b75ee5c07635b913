"""Demo models that imitate other vendors' servers."""

import json

import pytest

from chat.demo.apis.openai.requests import SERVER
from chat.demo.apis.openai.vendors import VENDORS
from chat.demo.fake import FakeUpstream
from chat.dialects.base import ToolDefinition, Turn
from chat.events import JsonObject, MediaItem, MessageItem, ReasoningItem, Result
from tests.demo import texts
from tests.demo.answers import answer_to, calls_in, make_prompt, text_in, with_outputs
from tests.demo.conftest import Ask
from tests.demo.streams import blocks_of

TIDE = ToolDefinition(
    name="tide", schema={"type": "object", "properties": {"place": {"type": "string"}}}
)
OPENROUTER = "tributary/demo-openrouter"
VLLM = "tributary/demo-vllm"
DEEPSEEK = "tributary/demo-deepseek"
GROQ = "tributary/demo-groq"
MISTRAL = "tributary/demo-mistral"
LLAMA_CPP = "tributary/demo-llama-cpp"
OLLAMA = "tributary/demo-ollama"
FIREWORKS = "tributary/demo-fireworks"
GATEWAY = "tributary/demo-gateway"
FRIENDLI = "tributary/demo-friendli"
ALL = (*VENDORS, GATEWAY)
THINKING = tuple(model.id for model in SERVER.models if model.thinks and model.id in VENDORS)
# What these servers demand of a history with calls.
OPTIONS = {
    DEEPSEEK: {"replay_reasoning": "tool_turns"},
    MISTRAL: {"tool_call_ids": "nine_letters"},
}
CALLING = tuple(key for key in ALL if key != FRIENDLI)


async def answer(fake: FakeUpstream, model: str, *turns: Turn | str, **members: object) -> Result:
    return await answer_to(fake, "openai_chat", make_prompt(*turns, model=model, **members))


async def test_vendor_streams_are_understood(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    for model in ALL:
        with subtests.test(model):
            found = await answer(fake, model, "table")

            assert text_in(found) == texts.TABLE
            assert found.ext.status == "completed"
            assert found.ext.vendor == []
            assert found.stats.total_output_tokens
            assert "no_done" not in found.ext.meta


async def test_vendor_reasoning_is_understood(
    fake: FakeUpstream, subtests: pytest.Subtests
) -> None:
    for model in THINKING:
        with subtests.test(model):
            found = await answer(fake, model, "table")

            assert text_in(found, ReasoningItem) == texts.THOUGHT


async def test_vendor_calls_continue_with_the_result(
    fake: FakeUpstream, subtests: pytest.Subtests
) -> None:
    for model in CALLING:
        with subtests.test(model):
            members = {"tools": (TIDE,), "options": OPTIONS.get(model, {})}
            waiting = await answer(fake, model, "tool", **members)
            (call,) = calls_in(waiting)

            found = await answer(fake, model, "tool", with_outputs(waiting, "2.4 m"), **members)

            assert waiting.ext.status == "waiting"
            assert call.arguments == {"place": "October"}
            assert "2.4 m" in text_in(found)
            assert found.ext.status == "completed"


async def test_strict_vendors_refuse_foreign_histories(
    ask_openai: Ask, subtests: pytest.Subtests
) -> None:
    for model in [DEEPSEEK, MISTRAL]:
        with subtests.test(model):
            call = {
                "id": "call_1",
                "type": "function",
                "function": {"name": "tide", "arguments": "{}"},
            }
            messages = [
                {"role": "user", "content": "tool"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_1", "content": "2.4 m"},
            ]

            response = await ask_openai("", model=model, messages=messages)

            assert response.status_code == 400
            assert response.json()["error"]["param"] == "messages"


async def test_invalid_arguments_of_ollama_stay_text(fake: FakeUpstream) -> None:
    found = await answer(fake, OLLAMA, "tool fail", tools=(TIDE,))

    assert [item.__class__.__name__ for item in found.output][-2:] == [
        "ToolCallItem",
        "InvalidToolCallItem",
    ]
    assert found.ext.stop.raw == "stop"


async def test_friendli_runs_its_tools(fake: FakeUpstream) -> None:
    found = await answer(fake, FRIENDLI, "tool fail")

    calls = calls_in(found)
    assert [call.status for call in calls] == ["done", "failed"]
    assert calls[0].arguments["month"] == "2026-10"
    assert any(isinstance(item, MediaItem) for item in found.output)
    assert found.ext.activity[0]["phase"] == "done"
    assert found.ext.status == "completed"


async def test_gateway_adds_sources_and_media(fake: FakeUpstream) -> None:
    found = await answer(fake, GATEWAY, "hello")

    (message,) = (item for item in found.output if isinstance(item, MessageItem))
    assert message.citations[0].url == "https://example.org/reports/third-quarter"
    media = [item for item in found.output if isinstance(item, MediaItem)]
    assert [item.media_type for item in media] == ["image/png", "audio/*"]
    assert media[1].transcript == "A short chime."


async def test_openrouter_error_is_in_a_choice(fake: FakeUpstream) -> None:
    found = await answer(fake, OPENROUTER, "error")

    assert found.ext.status == "failed"
    assert found.ext.error is not None
    assert found.ext.error.status == 502


def chunks_in(body: bytes) -> list[JsonObject]:
    frames = [block for block in blocks_of(body) if not block.startswith(b":")]
    lines = [frame.rpartition(b"data: ")[2] for frame in frames]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


BYTES = [
    (OPENROUTER, b": OPENROUTER PROCESSING"),
    (DEEPSEEK, b": keep-alive"),
    (VLLM, b'"reasoning":"'),
    (GROQ, b'"x_groq":{"id":"req_demo","usage":{'),
    (MISTRAL, b'"content":[{"type":"thinking","thinking":[{"type":"text"'),
    (LLAMA_CPP, b'"timings":{"prompt_ms":80.5'),
    (FIREWORKS, b'"perf_metrics":{"prompt-tokens":'),
    (FRIENDLI, b"event: token\ndata: {"),
]


async def test_bytes_are_those_of_the_vendor(ask_openai: Ask, subtests: pytest.Subtests) -> None:
    for model, expected in BYTES:
        with subtests.test(model):
            usage = {"include_usage": True}
            body = (await ask_openai("hello", model=model, stream_options=usage)).content

            assert expected in body
            assert chunks_in(body)
            assert body.endswith(b"data: [DONE]\n\n")
