"""Models that speak as other servers do: each in its own way, and all understood."""

import json

import pytest

from chat import dialects
from chat.demo import prose, vendor_models
from chat.demo.fake import FakeUpstream
from chat.dialects.base import AssistantTurn, Prompt, ToolDefinition, Turn, UserTurn
from chat.events import JsonObject, MediaItem, MessageItem, ReasoningItem, Result, ToolCallItem
from tests.demo.conftest import Ask
from tests.demo.streams import blocks_of
from tests.demo.test_dialects import answer_to

CHAT = dialects.get("openai_chat")
TIDE = ToolDefinition(
    name="tide", schema={"type": "object", "properties": {"place": {"type": "string"}}}
)
ALL = tuple(vendor_models.VENDOR_MODELS)
THINKING = tuple(key for key, model in vendor_models.VENDOR_MODELS.items() if model.reasons)
CALLING = tuple(key for key in ALL if key != vendor_models.TOOL_RUNNER)


async def asked(fake: FakeUpstream, model: str, *turns: Turn | str, **members: object) -> Result:
    whole = tuple(UserTurn(text=turn) if isinstance(turn, str) else turn for turn in turns)
    return await answer_to(fake, "openai_chat", Prompt(model=model, turns=whole, **members))


def text_of(found: Result, kind: type[MessageItem] | type[ReasoningItem]) -> str:
    return "".join(item.content for item in found.output if isinstance(item, kind))


@pytest.mark.parametrize("model", ALL)
async def test_each_way_of_speaking_is_understood(fake: FakeUpstream, model: str) -> None:
    found = await asked(fake, model, "table")

    assert text_of(found, MessageItem) == prose.TABLE
    assert found.ext.status == "completed"
    assert found.ext.vendor == []
    assert found.stats.total_output_tokens
    assert "no_done" not in found.ext.meta


@pytest.mark.parametrize("model", THINKING)
async def test_each_way_of_thinking_is_understood(fake: FakeUpstream, model: str) -> None:
    found = await asked(fake, model, "table")

    assert text_of(found, ReasoningItem) == prose.THOUGHT


@pytest.mark.parametrize("model", CALLING)
async def test_each_way_of_calling_goes_on_with_the_result(fake: FakeUpstream, model: str) -> None:
    options: dict[str, object] = {}
    if model == vendor_models.DEEPSEEK:
        options["replay_reasoning"] = "tool_turns"
    if model == vendor_models.MISTRAL:
        options["tool_call_ids"] = "nine_letters"
    waiting = await asked(fake, model, "tool", tools=(TIDE,), options=options)
    (call,) = (item for item in waiting.output if isinstance(item, ToolCallItem))
    call.output, call.status = "2.4 m", "done"

    answer = AssistantTurn(result=waiting, is_native=True)
    found = await asked(fake, model, "tool", answer, tools=(TIDE,), options=options)

    assert waiting.ext.status == "waiting"
    assert call.arguments == {"place": "Mill Bridge"}
    assert "2.4 m" in text_of(found, MessageItem)
    assert found.ext.status == "completed"


@pytest.mark.parametrize("model", [vendor_models.DEEPSEEK, vendor_models.MISTRAL])
async def test_a_server_that_is_particular_refuses_what_others_take(
    ask_openai: Ask, model: str
) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "tool"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "2.4 m"},
    ]

    response = await ask_openai("", model=model, messages=messages)

    assert response.status_code == 400
    assert response.json()["error"]["param"] == "messages"


async def test_broken_arguments_of_ollama_stay_text(fake: FakeUpstream) -> None:
    found = await asked(fake, vendor_models.OLLAMA, "tool fail", tools=(TIDE,))

    assert [item.__class__.__name__ for item in found.output][-2:] == [
        "ToolCallItem",
        "InvalidToolCallItem",
    ]
    assert found.ext.stop.raw == "stop"


async def test_friendli_runs_its_tools_itself(fake: FakeUpstream) -> None:
    found = await asked(fake, vendor_models.TOOL_RUNNER, "tool fail")

    calls = [item for item in found.output if isinstance(item, ToolCallItem)]
    assert [call.status for call in calls] == ["done", "failed"]
    assert calls[0].arguments["station"] == "Mill Bridge"
    assert any(isinstance(item, MediaItem) for item in found.output)
    assert found.ext.activity[0]["phase"] == "done"
    assert found.ext.status == "completed"


async def test_gateway_adds_sources_a_picture_and_a_sound(fake: FakeUpstream) -> None:
    found = await asked(fake, vendor_models.GATEWAY, "hello")

    (message,) = (item for item in found.output if isinstance(item, MessageItem))
    assert message.citations[0].url == "https://example.org/elder/weir"
    media = [item for item in found.output if isinstance(item, MediaItem)]
    assert [item.media_type for item in media] == ["image/png", "audio/*"]
    assert media[1].transcript == "The water murmurs."


async def test_error_of_openrouter_stands_in_a_choice(fake: FakeUpstream) -> None:
    found = await asked(fake, vendor_models.OPENROUTER, "error")

    assert found.ext.status == "failed"
    assert found.ext.error is not None
    assert found.ext.error.status == 502


def chunks_in(body: bytes) -> list[JsonObject]:
    frames = [block for block in blocks_of(body) if not block.startswith(b":")]
    lines = [frame.rpartition(b"data: ")[2] for frame in frames]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (vendor_models.OPENROUTER, b": OPENROUTER PROCESSING"),
        (vendor_models.DEEPSEEK, b": keep-alive"),
        (vendor_models.VLLM, b'"reasoning":"'),
        (vendor_models.GROQ, b'"x_groq":{"id":"req_demo","usage":{'),
        (vendor_models.MISTRAL, b'"content":[{"type":"thinking","thinking":[{"type":"text"'),
        (vendor_models.LLAMA_CPP, b'"timings":{"prompt_ms":80.5'),
        (vendor_models.FIREWORKS, b'"perf_metrics":{"prompt-tokens":'),
        (vendor_models.TOOL_RUNNER, b"event: token\ndata: {"),
    ],
)
async def test_bytes_are_those_of_the_server(ask_openai: Ask, model: str, expected: bytes) -> None:
    usage = {"include_usage": True}
    body = (await ask_openai("hello", model=model, stream_options=usage)).content

    assert expected in body
    assert chunks_in(body)
    assert body.endswith(b"data: [DONE]\n\n")
