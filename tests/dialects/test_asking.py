"""Requests: what is sent, what is mended, and how earlier turns go back."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat import dialects
from chat.dialects.base import (
    AssistantTurn,
    Image,
    Prompt,
    Reply,
    ToolDefinition,
    Turn,
    UpstreamRequest,
    UserTurn,
    read_options,
)
from chat.dialects.history import DECLINED, NO_ANSWER, PICTURES_LEFT_OUT, TOOLS_LEFT_OUT
from chat.dialects.lmstudio import GO_ON, HISTORY_AS_TEXT
from chat.events import (
    ErrorInfo,
    Extension,
    JsonObject,
    MessageItem,
    OutputItem,
    ProviderInfo,
    ReasoningItem,
    Result,
    Stats,
    Stop,
    ToolCallItem,
)

LM = dialects.get("lmstudio")
OPENAI = dialects.get("openai_chat")
BITSEEK = dialects.get("bitseek")
PICTURE = Image(media_type="image/png", data="aGk=")
PLUGIN = ProviderInfo(type="plugin", plugin_id="p")
CLIENT = ProviderInfo(type="function")


def body_of(request: UpstreamRequest) -> JsonObject:
    body = json.loads(request.body)
    assert isinstance(body, dict)
    return body


def asking(*turns: Turn, **members: object) -> Prompt:
    return Prompt(model="m", turns=turns or (UserTurn(text="Hello"),), **members)


def answered(*items: OutputItem, native: object = None, is_native: bool = True) -> AssistantTurn:
    ext = Extension(status="completed", stop=Stop(reason="stop"), native=native)
    result = Result(model_instance_id="m", output=list(items), stats=Stats(), ext=ext)
    return AssistantTurn(result=result, is_native=is_native)


def call(output: str | None, **members: object) -> ToolCallItem:
    defaults: dict[str, object] = {
        "call_id": "c1",
        "provider_info": CLIENT,
        "arguments_raw": '{"n": 1}',
    }
    return ToolCallItem(tool="tide", arguments={"n": 1}, output=output, **{**defaults, **members})


HELLO = UserTurn(text="Hello")
MORE = UserTurn(text="More?")
SAID = MessageItem(content="Hi.")


# --- LM Studio ---------------------------------------------------------------------


def test_lm_studio_first_turn_is_plain_text() -> None:
    request = LM.request(asking(system="Be brief.", parameters={"temperature": 0.5}))

    assert request.path == "/api/v1/chat"
    assert body_of(request) == {
        "model": "m",
        "stream": True,
        "temperature": 0.5,
        "system_prompt": "Be brief.",
        "input": "Hello",
    }
    assert request.notes == ()


def test_lm_studio_pictures_are_items_of_the_types_that_it_knows() -> None:
    body = body_of(LM.request(asking(UserTurn(text="See", images=(PICTURE,)))))

    assert body["input"] == [
        {"type": "text", "content": "See"},
        {"type": "image", "data_url": "data:image/png;base64,aGk="},
    ]


def test_lm_studio_continues_by_its_response_id() -> None:
    prompt = asking(HELLO, answered(SAID), MORE, previous_response_id="resp_1")

    body = body_of(LM.request(prompt))

    assert body["previous_response_id"] == "resp_1"
    assert body["input"] == "More?"
    assert LM.request(prompt).notes == ()


def test_lm_studio_gets_earlier_turns_as_text_and_the_run_says_so() -> None:
    earlier = UserTurn(text="Hello", images=(PICTURE,))
    output = (ReasoningItem(content="secret thought"), call("high", provider_info=PLUGIN), SAID)

    request = LM.request(asking(earlier, answered(*output), MORE))

    text, picture = body_of(request)["input"]
    assert text["content"].endswith("More?")
    assert "Hello\n[picture 1]" in text["content"]
    assert "[Result of tide: high]\n\nHi." in text["content"]
    assert "secret thought" not in text["content"]
    assert picture["type"] == "image"
    assert request.notes == (HISTORY_AS_TEXT,)
    assert "previous_response_id" not in body_of(request)


@pytest.mark.parametrize(
    ("error", "is_mended"),
    [
        (ErrorInfo(status=404, message="Response resp_1 not found"), True),
        (ErrorInfo(status=400, param="previous_response_id", message="invalid"), True),
        (ErrorInfo(status=400, message="bad temperature"), False),
        (ErrorInfo(status=500, message="previous_response_id"), False),
    ],
)
def test_lost_response_id_falls_back_to_text(error: ErrorInfo, is_mended: bool) -> None:
    prompt = asking(HELLO, answered(SAID), MORE, previous_response_id="resp_1")

    mended = LM.after_refusal(prompt, error)

    assert (mended is not None) == is_mended
    if mended:
        assert LM.request(mended).notes == (HISTORY_AS_TEXT,)
        assert LM.after_refusal(mended, error) is None


def test_lm_studio_says_what_it_cannot_be_sent() -> None:
    request = LM.request(asking(tools=(TIDE,), parameters={"seed": 4}))

    assert "tools" not in body_of(request)
    assert TOOLS_LEFT_OUT in request.notes
    assert any("seed" in note for note in request.notes)


def test_lm_studio_that_keeps_nothing_gets_the_turns_as_text() -> None:
    prompt = asking(
        HELLO, answered(SAID), MORE, previous_response_id="resp_1", options={"store": False}
    )

    body = body_of(LM.request(prompt))

    assert body["store"] is False
    assert "previous_response_id" not in body
    assert body["input"].endswith("More?")
    assert LM.request(prompt).notes == (HISTORY_AS_TEXT,)
    assert "store" not in body_of(LM.request(asking()))


SERVER = {
    "type": "ephemeral_mcp",
    "server_label": "river",
    "server_url": "https://river.example/mcp",
    "allowed_tools": ["read_gauge"],
    "headers": {"Authorization": "Bearer test-river-token"},
}


def test_lm_studio_is_told_which_tools_to_run() -> None:
    wanted = ["mcp/gauges", {"type": "plugin", "id": "mcp/maps", "allowed_tools": ["find"]}, SERVER]

    request = LM.request(asking(options={"integrations": json.dumps(wanted)}))

    assert body_of(request)["integrations"] == wanted
    assert request.notes == ()


@pytest.mark.parametrize(
    "entry",
    [
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
    ],
)
def test_integration_that_lm_studio_would_refuse_is_left_out_and_not_shown(entry: object) -> None:
    request = LM.request(asking(options={"integrations": [entry, "mcp/gauges"]}))

    assert body_of(request)["integrations"] == ["mcp/gauges"]
    (note,) = request.notes
    assert note.startswith("Entry 1 ")
    assert "test-river-token" not in note


def test_integrations_are_a_secret_of_the_upstream() -> None:
    (option,) = (option for option in LM.options if option.name == "integrations")

    assert option.is_secret


@pytest.mark.parametrize(
    ("detail", "sent", "notes"),
    [
        ({}, "high", 0),
        ({"capabilities": {"reasoning": {"allowed_options": ["low", "high"]}}}, "high", 0),
        ({"capabilities": {"reasoning": {"allowed_options": ["off", "on"]}}}, None, 1),
        ({"capabilities": {"vision": True}}, None, 1),
    ],
)
def test_reasoning_is_asked_for_as_the_model_offers_it(
    detail: JsonObject, sent: str | None, notes: int
) -> None:
    request = LM.request(asking(model_detail=detail, parameters={"reasoning": "high"}))

    assert body_of(request).get("reasoning") == sent
    assert len(request.notes) == notes


def test_context_is_no_longer_than_that_of_the_model() -> None:
    prompt = asking(
        model_detail={"max_context_length": 4096}, parameters={"context_length": 100_000}
    )

    assert body_of(LM.request(prompt))["context_length"] == 4096
    assert "4096" in LM.request(prompt).notes[0]


def test_answer_that_goes_on_at_lm_studio_is_told_what_it_waited_for() -> None:
    prompt = asking(HELLO, answered(call("high")), previous_response_id="resp_1")
    paused = asking(HELLO, answered(SAID), previous_response_id="resp_1")

    assert body_of(LM.request(prompt))["input"] == "[Result of tide: high]"
    assert body_of(LM.request(paused))["input"] == GO_ON


# --- chat completions ----------------------------------------------------------------


def test_openai_request_has_the_conversation() -> None:
    prompt = asking(HELLO, answered(SAID), MORE, system="Be brief.")

    request = OPENAI.request(prompt)

    assert request.path == "/chat/completions"
    assert body_of(request) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hi."},
            {"role": "user", "content": "More?"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_openai_pictures_are_parts() -> None:
    body = body_of(OPENAI.request(asking(UserTurn(text="See", images=(PICTURE,)))))

    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
    ]


def test_openai_picture_without_text_has_no_empty_part() -> None:
    body = body_of(OPENAI.request(asking(UserTurn(text="", images=(PICTURE,)))))

    assert [part["type"] for part in body["messages"][0]["content"]] == ["image_url"]


@pytest.mark.parametrize(
    ("members", "is_sent"),
    [({}, True), ({"options": {"stream_options": False}}, False), ({"stream": False}, False)],
)
def test_stream_options_can_be_switched_off(members: dict[str, object], is_sent: bool) -> None:
    assert ("stream_options" in body_of(OPENAI.request(asking(**members)))) == is_sent


def test_length_limit_goes_under_the_name_that_the_server_knows() -> None:
    options = {"max_tokens_member": "max_completion_tokens"}

    body = body_of(OPENAI.request(asking(parameters={"max_tokens": 9}, options=options)))

    assert body["max_completion_tokens"] == 9
    assert "max_tokens" not in body


def test_stop_texts_are_lines() -> None:
    body = body_of(OPENAI.request(asking(parameters={"stop": "a\n\nb\nc\nd\ne"})))

    assert body["stop"] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("status", "message", "changed"),
    [
        (400, "Unrecognized request argument: stream_options", {"stream_options": False}),
        (422, "extra fields: stream_options", {"stream_options": False}),
        (
            400,
            "Use 'max_completion_tokens' instead.",
            {"max_tokens_member": "max_completion_tokens"},
        ),
        (400, "bad prompt", None),
        (500, "stream_options", None),
    ],
)
def test_refused_member_is_left_out(
    status: int, message: str, changed: dict[str, object] | None
) -> None:
    error = ErrorInfo(status=status, message=message)

    mended = OPENAI.after_refusal(asking(), error)

    assert (dict(mended.options) if mended else None) == changed
    if mended:
        assert OPENAI.after_refusal(mended, error) is None


def messages_of(turn: AssistantTurn, **options: object) -> list[JsonObject]:
    """What an earlier answer becomes."""
    messages = body_of(OPENAI.request(asking(HELLO, turn, MORE, options=options)))["messages"]
    assert isinstance(messages, list)
    return messages[1:-1]


TOOL_MESSAGE = {"role": "tool", "tool_call_id": "c1", "name": "tide", "content": "high"}
WIRE_CALL = {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": '{"n": 1}'}}


def test_answered_calls_go_back_in_pairs_with_their_own_spelling() -> None:
    assert messages_of(answered(MessageItem(content="Look."), call("high"), SAID)) == [
        {"role": "assistant", "content": "Look.", "tool_calls": [WIRE_CALL]},
        TOOL_MESSAGE,
        {"role": "assistant", "content": "Hi."},
    ]


def test_unanswered_call_is_cut_from_the_turn() -> None:
    assert messages_of(answered(SAID, call(None))) == [{"role": "assistant", "content": "Hi."}]


def test_call_that_the_other_server_ran_becomes_text() -> None:
    turn = answered(call("high", provider_info=PLUGIN, call_id=None), SAID, is_native=False)

    assert messages_of(turn) == [{"role": "assistant", "content": "[Result of tide: high]\n\nHi."}]


def test_call_without_an_id_gets_one() -> None:
    first, second = messages_of(answered(call("high", call_id=None)))

    assert first["tool_calls"][0]["id"] == second["tool_call_id"] != ""


@pytest.mark.parametrize("items", [(), (ReasoningItem(content="Only thought."),), (call(None),)])
def test_turn_without_text_is_not_sent_empty(items: tuple[OutputItem, ...]) -> None:
    assert messages_of(answered(*items)) == [{"role": "assistant", "content": NO_ANSWER}]


NATIVE = {
    "role": "assistant",
    "content": "<think>a</think>Hi.",
    "reasoning_content": "why",
    "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}],
}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"role", "content"}),
        ({"replay_reasoning": "never"}, {"role", "content"}),
        ({"replay_reasoning": "tool_turns"}, {"role", "content"}),
        ({"replay_reasoning": "always"}, set(NATIVE)),
        (
            {"replay_reasoning": "always", "reasoning_member": "reasoning"},
            {"role", "content", "reasoning", "reasoning_details"},
        ),
    ],
)
def test_native_turn_goes_back_as_it_was(options: dict[str, object], expected: set[str]) -> None:
    (message,) = messages_of(answered(SAID, native=NATIVE), **options)

    assert set(message) == expected
    assert message["content"] == NATIVE["content"]


def test_native_turn_of_another_server_is_dropped() -> None:
    turn = answered(SAID, native=NATIVE, is_native=False)

    assert messages_of(turn, replay_reasoning="always") == [{"role": "assistant", "content": "Hi."}]


def test_reasoning_goes_back_beside_calls_where_the_server_wants_that() -> None:
    native = {**NATIVE, "tool_calls": [{**WIRE_CALL, "extra_content": {"s": 1}}]}

    first, second = messages_of(
        answered(call("high"), native=native), replay_reasoning="tool_turns"
    )

    assert first == {**NATIVE, "tool_calls": [{**WIRE_CALL, "extra_content": {"s": 1}}]}
    assert second == TOOL_MESSAGE


def test_native_call_without_a_result_is_cut() -> None:
    native = {"role": "assistant", "content": "Hi.", "tool_calls": [WIRE_CALL]}

    assert messages_of(answered(SAID, call(None), native=native)) == [
        {"role": "assistant", "content": "Hi."}
    ]


def test_reasoning_of_items_goes_back_where_no_native_turn_was_kept() -> None:
    turn = answered(ReasoningItem(content="why"), SAID)

    assert messages_of(turn, replay_reasoning="always") == [
        {"role": "assistant", "content": "Hi.", "reasoning_content": "why"}
    ]


def test_legacy_form() -> None:
    native = {"role": "assistant", "content": None, "tool_calls": [{**WIRE_CALL, "legacy": True}]}

    assert messages_of(answered(call("high"), native=native), legacy_functions=True) == [
        {"role": "assistant", "content": None, "function_call": WIRE_CALL["function"]},
        {"role": "function", "name": "tide", "content": "high"},
    ]


def test_mark_of_the_legacy_form_is_ours_and_stays_here() -> None:
    native = {"role": "assistant", "content": None, "tool_calls": [{**WIRE_CALL, "legacy": True}]}

    assert messages_of(answered(call("high"), native=native))[0]["tool_calls"] == [WIRE_CALL]


# --- chat completions: tools, and answers of several runs ------------------------------------

TIDE = ToolDefinition(
    name="tide",
    description="How high the water stands.",
    schema={"type": "object", "properties": {"n": {"type": "integer"}}},
)
LOCK = ToolDefinition(name="lock")


def test_tools_are_functions_with_their_schemas() -> None:
    body = body_of(OPENAI.request(asking(tools=(TIDE, LOCK))))

    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "tide",
                "parameters": TIDE.schema,
                "description": "How high the water stands.",
            },
        },
        {
            "type": "function",
            "function": {"name": "lock", "parameters": {"type": "object", "properties": {}}},
        },
    ]
    assert "tool_choice" not in body
    assert "parallel_tool_calls" not in body


@pytest.mark.parametrize(
    ("chosen", "extras", "sent", "notes"),
    [
        ("auto", "none", "auto", 0),
        ("Required", "none", "required", 0),
        ("any", "none", "required", 0),
        ("required", "mistral", "any", 0),
        ("tide", "none", {"type": "function", "function": {"name": "tide"}}, 0),
        ("sluice", "none", None, 1),
    ],
)
def test_use_of_tools_can_be_chosen(chosen: str, extras: str, sent: object, notes: int) -> None:
    request = OPENAI.request(
        asking(tools=(TIDE,), parameters={"tool_choice": chosen}, options={"extras": extras})
    )

    assert body_of(request).get("tool_choice") == sent
    assert len(request.notes) == notes


def test_use_of_tools_is_not_sent_without_tools() -> None:
    parameters = {"tool_choice": "required", "parallel_tool_calls": False}

    without = body_of(OPENAI.request(asking(parameters=parameters)))
    with_tools = body_of(OPENAI.request(asking(tools=(TIDE,), parameters=parameters)))

    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(without)
    assert with_tools["parallel_tool_calls"] is False


def test_tools_in_the_legacy_form_are_functions() -> None:
    body = body_of(OPENAI.request(asking(tools=(LOCK,), options={"legacy_functions": True})))

    assert [function["name"] for function in body["functions"]] == ["lock"]
    assert "tools" not in body


def test_answer_that_goes_on_ends_with_the_results_of_its_calls() -> None:
    refused = call("Refused by a person.", call_id="c2", status="failed")
    native = {
        "role": "assistant",
        "content": None,
        "tool_calls": [WIRE_CALL, {**WIRE_CALL, "id": "c2"}],
    }

    prompt = asking(HELLO, answered(call("high"), refused, native=native))
    messages = body_of(OPENAI.request(prompt))["messages"]

    assert prompt.goes_on
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
    assert messages[1]["tool_calls"] == native["tool_calls"]
    assert messages[2] == TOOL_MESSAGE
    assert messages[3]["tool_call_id"] == "c2"
    assert messages[3]["content"] == "Refused by a person."


@pytest.mark.parametrize("is_native", [True, False])
def test_each_run_of_an_answer_has_its_calls_though_a_server_numbers_them_alike(
    is_native: bool,
) -> None:
    native = {"role": "assistant", "content": None, "tool_calls": [WIRE_CALL]}
    runs = [answered(call(n), native=native, is_native=is_native) for n in ("high", "low")]

    messages = body_of(OPENAI.request(asking(HELLO, *runs)))["messages"]

    assert [message["role"] for message in messages] == [
        "user",
        *("assistant", "tool", "assistant", "tool"),
    ]
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["high", "low"]


def test_parts_of_one_answer_without_calls_are_one_message() -> None:
    turns = (HELLO, answered(SAID), answered(), answered(MessageItem(content="Bye.")), MORE)

    messages = body_of(OPENAI.request(asking(*turns)))["messages"]

    assert messages[1:-1] == [{"role": "assistant", "content": "Hi.\n\nBye."}]


def test_reply_to_a_question_that_this_server_did_not_ask_becomes_words() -> None:
    turn = answered(SAID)
    turn.result.ext.asks.append({"ask_id": "a1", "question": "Which one?"})
    replies = (
        Reply(ask_id="a1", selected=("red",), text="or rose", fields={"size": "3"}),
        Reply(ask_id="a2", is_declined=True),
    )

    messages = body_of(OPENAI.request(asking(HELLO, replace(turn, replies=replies))))["messages"]

    assert messages[-1]["role"] == "user"
    assert messages[-1]["content"] == (
        f"To your question “Which one?”:\nred\nsize: 3\nor rose\n\n{DECLINED}"
    )


@pytest.mark.parametrize("given", ["c1", "call_0123456789abcdef_0"])
def test_ids_of_calls_can_have_nine_letters(given: str) -> None:
    turn = answered(call("high", call_id=given))

    first, second = messages_of(turn, tool_call_ids="nine_letters")

    assert re.fullmatch("[A-Za-z0-9]{9}", second["tool_call_id"])
    assert first["tool_calls"][0]["id"] == second["tool_call_id"]


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("system", [{"role": "system", "content": "Brief."}, {"role": "user", "content": "Hello"}]),
        (
            "developer",
            [{"role": "developer", "content": "Brief."}, {"role": "user", "content": "Hello"}],
        ),
        ("user", [{"role": "user", "content": "Brief.\n\nHello"}]),
    ],
)
def test_system_prompt_goes_under_the_role_that_the_model_knows(
    role: str, expected: list[JsonObject]
) -> None:
    request = OPENAI.request(asking(system="Brief.", options={"system_role": role}))

    assert body_of(request)["messages"] == expected


def test_system_prompt_before_a_picture_is_a_part() -> None:
    turn = UserTurn(text="", images=(PICTURE,))

    request = OPENAI.request(asking(turn, system="Brief.", options={"system_role": "user"}))

    assert [part["type"] for part in body_of(request)["messages"][0]["content"]] == [
        "text",
        "image_url",
    ]


# --- chat completions: what only some servers know --------------------------------------------


@pytest.mark.parametrize(
    ("extras", "parameters", "sent"),
    [
        ("vllm", {"top_k": 5, "min_tokens": 2}, {"top_k": 5, "min_tokens": 2}),
        ("vllm", {"thinking": "disabled"}, {"chat_template_kwargs": {"enable_thinking": False}}),
        ("llama_cpp", {"repetition_penalty": 1.1}, {"repeat_penalty": 1.1}),
        ("lm_studio", {"repetition_penalty": 1.1}, {"repeat_penalty": 1.1}),
        (
            "openrouter",
            {"thinking": "enabled", "reasoning_budget": 2048},
            {"reasoning": {"enabled": True, "max_tokens": 2048}},
        ),
        ("fireworks", {"thinking": "enabled"}, {"thinking": {"type": "enabled"}}),
        ("fireworks", {"reasoning_budget": 5}, {"reasoning_effort": 1024}),
        (
            "fireworks",
            {"reasoning_history": "preserved", "mirostat_target": 3},
            {"reasoning_history": "preserved", "mirostat_target": 3},
        ),
        ("friendli", {"reasoning_budget": 4096}, {"reasoning_budget": 4096}),
        ("deepseek", {"thinking": "disabled"}, {"thinking": {"type": "disabled"}}),
        ("mistral", {"seed": 4}, {"random_seed": 4}),
        ("none", {"seed": 4}, {"seed": 4}),
    ],
)
def test_parameters_go_under_the_names_of_the_server(
    extras: str, parameters: dict[str, object], sent: JsonObject
) -> None:
    plain = body_of(OPENAI.request(asking()))

    body = body_of(OPENAI.request(asking(parameters=parameters, options={"extras": extras})))

    assert {name: value for name, value in body.items() if name not in plain} == sent


def test_parameter_that_the_server_does_not_know_is_left_out_and_the_run_says_so() -> None:
    request = OPENAI.request(asking(parameters={"top_k": 5, "min_p": 0.1}))
    allowed = OPENAI.request(
        asking(parameters={"top_k": 5, "min_p": 0.1}, options={"extra_members": "min_p, top_k"})
    )

    assert not {"top_k", "min_p"} & set(body_of(request))
    assert ["top_k" in request.notes[0], "min_p" in request.notes[1]] == [True, True]
    assert body_of(allowed)["top_k"] == 5
    assert allowed.notes == ()


def test_settings_can_add_members_but_not_replace_the_conversation() -> None:
    added = {"provider": {"sort": "price"}, "temperature": 1.5, "model": "other", "messages": []}

    body = body_of(
        OPENAI.request(asking(parameters={"temperature": 0.5}, options={"extra_body": added}))
    )

    assert body["provider"] == {"sort": "price"}
    assert body["temperature"] == 0.5
    assert body["model"] == "m"
    assert len(body["messages"]) == 1


def test_member_that_the_settings_added_keeps_its_others() -> None:
    options = {"extras": "vllm", "extra_body": {"chat_template_kwargs": {"a": 1}}}

    body = body_of(OPENAI.request(asking(parameters={"thinking": "enabled"}, options=options)))

    assert body["chat_template_kwargs"] == {"a": 1, "enable_thinking": True}


@pytest.mark.parametrize(
    ("parameters", "sent", "notes"),
    [
        ({"response_format": "json_object"}, {"type": "json_object"}, 0),
        (
            {"response_format": "json_schema", "response_schema": {"type": "object"}},
            {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
            },
            0,
        ),
        ({"response_format": "json_schema"}, None, 1),
        ({"response_schema": {"type": "object"}}, None, 0),
    ],
)
def test_form_of_the_answer(
    parameters: dict[str, object], sent: JsonObject | None, notes: int
) -> None:
    request = OPENAI.request(asking(parameters=parameters))

    assert body_of(request).get("response_format") == sent
    assert len(request.notes) == notes
    assert "response_schema" not in body_of(request)


@pytest.mark.parametrize(
    ("parameters", "sent"),
    [
        ({"top_logprobs": 3}, {"top_logprobs": 3, "logprobs": True}),
        ({"logprobs": False, "top_logprobs": 3}, {"logprobs": False}),
        ({"logprobs": True, "n": 3}, {"logprobs": True, "n": 3}),
        ({"n": 99}, {"n": 8}),
    ],
)
def test_log_probabilities_and_alternatives(parameters: JsonObject, sent: JsonObject) -> None:
    body = body_of(OPENAI.request(asking(parameters=parameters)))

    assert {name: body[name] for name in ("logprobs", "top_logprobs", "n") if name in body} == sent


def test_server_that_wants_its_reasoning_back_gets_it() -> None:
    text = "The `reasoning_content` in the thinking mode must be passed back to the API."
    error = ErrorInfo(status=400, message=text)

    mended = OPENAI.after_refusal(asking(), error)

    assert mended is not None
    assert mended.options["replay_reasoning"] == "tool_turns"
    assert OPENAI.after_refusal(mended, error) is None


# --- Bitseek ---------------------------------------------------------------------------------


def test_bitseek_is_asked_without_a_model() -> None:
    request = BITSEEK.request(asking(system="Brief.", parameters={"temperature": 3}))

    assert request.path == "/chat/completions"
    assert body_of(request) == {
        "messages": [
            {"role": "system", "content": "Brief."},
            {"role": "user", "content": "Hello"},
        ],
        "stream": True,
        "temperature": 2,
    }


@pytest.mark.parametrize(
    ("parameters", "sent"),
    [
        ({"web_search": "off", "web_search_results": 3}, None),
        ({"web_search": "auto"}, {"enabled": True, "mode": "auto"}),
        (
            {
                "web_search": "force",
                "web_search_results": 99,
                "web_search_freshness": "day",
                "web_search_language": "en",
            },
            {"enabled": True, "mode": "force", "maxResults": 8, "freshness": "day", "lang": "en"},
        ),
    ],
)
def test_bitseek_searches_the_web_where_asked(
    parameters: dict[str, object], sent: JsonObject | None
) -> None:
    body = body_of(BITSEEK.request(asking(parameters=parameters)))

    assert body.get("webSearch") == sent
    assert body.get("enableWebSearch") == (None if sent is None else True)


def test_bitseek_takes_tools_and_text_contents_alone() -> None:
    turn = UserTurn(text="See", images=(PICTURE,))

    request = BITSEEK.request(asking(turn, answered(call("high")), tools=(LOCK,)))

    messages = body_of(request)["messages"]
    assert [message["content"] for message in messages] == ["See", "", "high"]
    assert body_of(request)["tools"][0]["function"]["name"] == "lock"
    assert request.notes == (PICTURES_LEFT_OUT,)


@pytest.mark.parametrize(
    ("identity", "headers", "notes"),
    [("conv-1", {"X-Conversation-Id": "conv-1"}, 0), ("a\r\nX-Evil: 1", {}, 1), ("", {}, 0)],
)
def test_bitseek_conversation_goes_in_a_header(
    identity: str, headers: dict[str, str], notes: int
) -> None:
    request = BITSEEK.request(asking(options={"conversation_id": identity}))

    assert dict(request.headers) == headers
    assert len(request.notes) == notes


# --- both ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "sent", "notes"),
    [
        ("temperature", 0.3, 0.3, 0),
        ("temperature", "0.3", 0.3, 0),
        ("temperature", 7, None, 1),
        ("temperature", -1, 0, 1),
        ("temperature", "hot", None, 1),
        ("temperature", float("nan"), None, 1),
        ("temperature", "", None, 0),
        ("temperature", None, None, 0),
        ("top_p", 1, 1, 0),
        ("no_such_thing", 1, None, 1),
    ],
)
@pytest.mark.parametrize(
    ("dialect", "highest"), [(LM, 1), (OPENAI, 2)], ids=["lmstudio", "openai_chat"]
)
def test_parameters_are_typed_and_bounded(
    dialect: dialects.Dialect, highest: float, name: str, value: object, sent: object, notes: int
) -> None:
    request = dialect.request(asking(parameters={name: value}))

    expected = highest if value == 7 else sent
    assert body_of(request).get(name) == expected
    assert len(request.notes) == notes


@pytest.mark.parametrize(
    ("dialect", "name", "value", "sent"),
    [
        (LM, "reasoning", "high", "high"),
        (LM, "reasoning", "extreme", None),
        (LM, "max_output_tokens", "12", 12),
        (LM, "max_output_tokens", 0, 1),
        (OPENAI, "reasoning_effort", "low", "low"),
        (OPENAI, "seed", 42.0, 42),
        (OPENAI, "frequency_penalty", 3, 2),
    ],
)
def test_value_of_each_kind(
    dialect: dialects.Dialect, name: str, value: object, sent: object
) -> None:
    assert body_of(dialect.request(asking(parameters={name: value}))).get(name) == sent


def test_options_have_defaults_and_read_form_values() -> None:
    options = read_options(
        OPENAI.options, {"stream_options": "off", "inline_think": "x", "other": 1}
    )

    assert options["stream_options"] is False
    assert options["inline_think"] == "auto"
    assert "other" not in options


@given(text=st.text(st.characters()), system=st.text(st.characters()))
@pytest.mark.parametrize("dialect", dialects.DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_no_text_raises(dialect: dialects.Dialect, text: str, system: str) -> None:
    prompt = asking(UserTurn(text=text), answered(MessageItem(content=text)), MORE, system=system)

    json.loads(dialect.request(prompt).body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["c1", "assistant", "id", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "tool_calls", "id", "function", "name", "text"]),
            inner,
        )
    ),
    max_leaves=10,
)
NATIVES = JSON | st.fixed_dictionaries(
    {"role": st.just("assistant")},
    optional={"content": JSON, "tool_calls": JSON, "reasoning_details": JSON},
)


@given(native=NATIVES)
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("dialect", [OPENAI, BITSEEK], ids=lambda dialect: dialect.name)
def test_no_turn_that_was_kept_raises(
    dialect: dialects.Dialect, legacy: bool, native: object
) -> None:
    options = {"legacy_functions": legacy, "tool_call_ids": "nine_letters"}
    turns = (HELLO, answered(SAID, call("high"), native=native), MORE)

    json.loads(dialect.request(asking(*turns, options=options)).body)


@pytest.mark.parametrize("dialect", dialects.DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_credential_is_in_the_headers_alone(dialect: dialects.Dialect) -> None:
    without_key = dialect.headers("")
    added = {name: v for name, v in dialect.headers("sk-1").items() if name not in without_key}

    assert added == {"Authorization": "Bearer sk-1"}
    assert "authorization" not in {name.lower() for name in without_key}
    assert "sk-1" not in repr(dialect.request(asking()))


@pytest.mark.parametrize("dialect", dialects.DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_request_without_turns_does_not_raise(dialect: dialects.Dialect) -> None:
    json.loads(dialect.request(Prompt(model="m", turns=())).body)


def test_unknown_dialect_is_named_with_those_there_are() -> None:
    with pytest.raises(KeyError, match=r"no dialect 'nope'.*lmstudio, openai_chat"):
        dialects.get("nope")
