"""Requests of LM Studio's native API: bodies, integrations, and continued conversations."""

import json
from functools import partial

import pytest

from chat import dialects
from chat.dialects.base import TOOLS_LEFT_OUT, ToolDefinition, UserTurn
from chat.dialects.lmstudio.dialect import GO_ON, HISTORY_AS_TEXT
from chat.events import ErrorInfo, ProviderInfo, ReasoningItem
from tests.dialects.prompts import (
    HELLO,
    MORE,
    PICTURE,
    SAID,
    body_and_notes,
    body_of,
    make_answer,
    make_call,
    make_prompt,
)

LM = dialects.get("lmstudio")
sent = partial(body_and_notes, LM)
PLUGIN = ProviderInfo(type="plugin", plugin_id="p")
TIDE = ToolDefinition(name="tide")


def test_first_turn_is_plain_text() -> None:
    request = LM.request(make_prompt(system="Be brief.", parameters={"temperature": 0.5}))

    assert request.path == "/api/v1/chat"
    assert body_of(request) == {
        "model": "m",
        "stream": True,
        "temperature": 0.5,
        "system_prompt": "Be brief.",
        "input": "Hello",
    }
    assert request.notes == ()


def test_images_are_items_with_data_urls() -> None:
    body, _ = sent(UserTurn.of("See", PICTURE))

    assert body["input"] == [
        {"type": "text", "content": "See"},
        {"type": "image", "data_url": "data:image/png;base64,aGk="},
    ]


def test_conversation_continues_by_response_id() -> None:
    prompt = make_prompt(HELLO, make_answer(SAID), MORE, previous_response_id="resp_1")

    body = body_of(LM.request(prompt))

    assert body["previous_response_id"] == "resp_1"
    assert body["input"] == "More?"
    assert LM.request(prompt).notes == ()


def test_t36_earlier_turns_become_text() -> None:
    earlier = UserTurn.of("Hello", PICTURE)
    output = (
        ReasoningItem(content="secret thought"),
        make_call("high", provider_info=PLUGIN),
        SAID,
    )

    request = LM.request(make_prompt(earlier, make_answer(*output), MORE))

    text, picture = body_of(request)["input"]
    assert text["content"].endswith("More?")
    assert "Hello\n[picture 1]" in text["content"]
    assert "[Result of tide: high]\n\nHi." in text["content"]
    assert "secret thought" not in text["content"]
    assert picture["type"] == "image"
    assert request.notes == (HISTORY_AS_TEXT,)
    assert "previous_response_id" not in body_of(request)


LOST_RESPONSE = [
    (ErrorInfo(status=404, message="Response resp_1 not found"), True),
    (ErrorInfo(status=400, param="previous_response_id", message="invalid"), True),
    (ErrorInfo(status=400, message="bad temperature"), False),
    (ErrorInfo(status=500, message="previous_response_id"), False),
]


def test_t37_lost_response_id_falls_back_to_text(subtests: pytest.Subtests) -> None:
    for error, is_mended in LOST_RESPONSE:
        with subtests.test(error=error):
            prompt = make_prompt(HELLO, make_answer(SAID), MORE, previous_response_id="resp_1")

            mended = LM.after_refusal(prompt, error)

            assert (mended is not None) == is_mended
            if mended:
                assert LM.request(mended).notes == (HISTORY_AS_TEXT,)
                assert LM.after_refusal(mended, error) is None


def test_unsupported_parameters_are_noted() -> None:
    request = LM.request(make_prompt(tools=(TIDE,), parameters={"seed": 4}))

    assert "tools" not in body_of(request)
    assert TOOLS_LEFT_OUT in request.notes
    assert any("seed" in note for note in request.notes)


def test_unstored_conversation_is_sent_as_text() -> None:
    prompt = make_prompt(
        HELLO, make_answer(SAID), MORE, previous_response_id="resp_1", options={"store": False}
    )

    body = body_of(LM.request(prompt))

    assert body["store"] is False
    assert "previous_response_id" not in body
    assert body["input"].endswith("More?")
    assert LM.request(prompt).notes == (HISTORY_AS_TEXT,)
    assert "store" not in body_of(LM.request(make_prompt()))


SERVER = {
    "type": "ephemeral_mcp",
    "server_label": "river",
    "server_url": "https://river.example/mcp",
    "allowed_tools": ["read_gauge"],
    "headers": {"Authorization": "Bearer test-river-token"},
}


def test_integrations_are_sent() -> None:
    wanted = ["mcp/gauges", {"type": "plugin", "id": "mcp/maps", "allowed_tools": ["find"]}, SERVER]

    request = LM.request(make_prompt(options={"integrations": json.dumps(wanted)}))

    assert body_of(request)["integrations"] == wanted
    assert request.notes == ()


INVALID_INTEGRATIONS = [
    "",
    7,
    {"type": "plugin"},
    {"type": "remote", "id": "x"},
    {**SERVER, "server_url": "file:///etc/passwd"},
    {**SERVER, "server_url": "https://[river"},
    {**SERVER, "server_label": ""},
    {**SERVER, "headers": {"X-Name": "a\nX-Other: b"}},
    {**SERVER, "headers": "Bearer test-river-token"},
    {**SERVER, "allowed_tools": "read_gauge"},
    {"type": "plugin", "id": "mcp/maps", "allowed_tools": [{}]},
]


def test_invalid_integrations_are_left_out_and_not_shown(subtests: pytest.Subtests) -> None:
    for entry in INVALID_INTEGRATIONS:
        with subtests.test(entry=entry):
            request = LM.request(make_prompt(options={"integrations": [entry, "mcp/gauges"]}))

            assert body_of(request)["integrations"] == ["mcp/gauges"]
            (note,) = request.notes
            assert note.startswith("Entry 1 ")
            assert "test-river-token" not in note


def test_integrations_are_a_secret_option() -> None:
    (option,) = (option for option in LM.options if option.name == "integrations")

    assert option.is_secret


REASONING = [
    ({}, "high", 0),
    ({"capabilities": {"reasoning": {"allowed_options": ["low", "high"]}}}, "high", 0),
    ({"capabilities": {"reasoning": {"allowed_options": ["off", "on"]}}}, None, 1),
    ({"capabilities": {"vision": True}}, None, 1),
]


def test_reasoning_fits_the_model(subtests: pytest.Subtests) -> None:
    for detail, expected, notes in REASONING:
        with subtests.test(detail=detail):
            request = LM.request(make_prompt(model_detail=detail, parameters={"reasoning": "high"}))

            assert body_of(request).get("reasoning") == expected
            assert len(request.notes) == notes


def test_context_length_is_capped_by_the_model() -> None:
    prompt = make_prompt(
        model_detail={"max_context_length": 4096}, parameters={"context_length": 100_000}
    )

    assert body_of(LM.request(prompt))["context_length"] == 4096
    assert "4096" in LM.request(prompt).notes[0]


def test_continued_answer_gets_the_tool_result() -> None:
    prompt = make_prompt(HELLO, make_answer(make_call("high")), previous_response_id="resp_1")
    paused = make_prompt(HELLO, make_answer(SAID), previous_response_id="resp_1")

    assert body_of(LM.request(prompt))["input"] == "[Result of tide: high]"
    assert body_of(LM.request(paused))["input"] == GO_ON
