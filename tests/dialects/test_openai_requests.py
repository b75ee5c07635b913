"""Requests of chat completions, and of Bitseek, which extends them."""

import re
from dataclasses import replace
from functools import partial

import pytest

from chat import dialects
from chat.dialects.base import PARTS_LEFT_OUT, AssistantTurn, Image, Reply, ToolDefinition, UserTurn
from chat.dialects.history import DECLINED, NO_ANSWER
from chat.events import ErrorInfo, JsonObject, MessageItem, ProviderInfo, ReasoningItem
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

OPENAI = dialects.get("openai_chat")
BITSEEK = dialects.get("bitseek")
sent = partial(body_and_notes, OPENAI)
sent_to_bitseek = partial(body_and_notes, BITSEEK)
PLUGIN = ProviderInfo(type="plugin", plugin_id="p")
TIDE = ToolDefinition(
    name="tide",
    description="How high the water stands.",
    schema={"type": "object", "properties": {"n": {"type": "integer"}}},
)
LOCK = ToolDefinition(name="lock")


def test_request_has_the_conversation() -> None:
    prompt = make_prompt(HELLO, make_answer(SAID), MORE, system="Be brief.")

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


def test_images_are_parts() -> None:
    body, _ = sent(UserTurn.of("See", PICTURE))

    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
    ]


def test_image_alone_has_no_empty_text() -> None:
    body, _ = sent(UserTurn.of("", PICTURE))

    assert [part["type"] for part in body["messages"][0]["content"]] == ["image_url"]


def test_stream_options_can_be_disabled(subtests: pytest.Subtests) -> None:
    for members, is_sent in [
        ({}, True),
        ({"options": {"stream_options": False}}, False),
        ({"stream": False}, False),
    ]:
        with subtests.test(members=members):
            assert ("stream_options" in body_of(OPENAI.request(make_prompt(**members)))) == is_sent


def test_max_tokens_member_can_be_renamed() -> None:
    options = {"max_tokens_member": "max_completion_tokens"}

    body, _ = sent(parameters={"max_tokens": 9}, options=options)

    assert body["max_completion_tokens"] == 9
    assert "max_tokens" not in body


def test_stop_texts_are_lines() -> None:
    body, _ = sent(parameters={"stop": "a\n\nb\nc\nd\ne"})

    assert body["stop"] == ["a", "b", "c", "d"]


REFUSED = [
    (400, "Unrecognized request argument: stream_options", {"stream_options": False}),
    (422, "extra fields: stream_options", {"stream_options": False}),
    (400, "Use 'max_completion_tokens' instead.", {"max_tokens_member": "max_completion_tokens"}),
    (400, "bad prompt", None),
    (500, "stream_options", None),
]


def test_refused_parameter_is_left_out(subtests: pytest.Subtests) -> None:
    for status, message, changed in REFUSED:
        with subtests.test(status=status, message=message):
            error = ErrorInfo(status=status, message=message)

            mended = OPENAI.after_refusal(make_prompt(), error)

            assert (dict(mended.options) if mended else None) == changed
            if mended:
                assert OPENAI.after_refusal(mended, error) is None


def messages_of(turn: AssistantTurn, **options: object) -> list[JsonObject]:
    """What an earlier answer becomes."""
    messages = body_of(OPENAI.request(make_prompt(HELLO, turn, MORE, options=options)))["messages"]
    assert isinstance(messages, list)
    return messages[1:-1]


TOOL_MESSAGE = {"role": "tool", "tool_call_id": "c1", "name": "tide", "content": "high"}
WIRE_CALL = {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": '{"n": 1}'}}


def test_answered_calls_are_followed_by_their_results() -> None:
    assert messages_of(make_answer(MessageItem(content="Look."), make_call("high"), SAID)) == [
        {"role": "assistant", "content": "Look.", "tool_calls": [WIRE_CALL]},
        TOOL_MESSAGE,
        {"role": "assistant", "content": "Hi."},
    ]


def test_call_without_result_is_removed() -> None:
    assert messages_of(make_answer(SAID, make_call(None))) == [
        {"role": "assistant", "content": "Hi."}
    ]


def test_foreign_server_side_call_becomes_text() -> None:
    turn = make_answer(make_call("high", provider_info=PLUGIN, call_id=None), SAID, is_native=False)

    assert messages_of(turn) == [{"role": "assistant", "content": "[Result of tide: high]\n\nHi."}]


def test_call_without_id_gets_one() -> None:
    first, second = messages_of(make_answer(make_call("high", call_id=None)))

    assert first["tool_calls"][0]["id"] == second["tool_call_id"] != ""


def test_turn_without_text_gets_a_placeholder(subtests: pytest.Subtests) -> None:
    for items in [(), (ReasoningItem(content="Only thought."),), (make_call(None),)]:
        with subtests.test(items=items):
            assert messages_of(make_answer(*items)) == [{"role": "assistant", "content": NO_ANSWER}]


NATIVE = {
    "role": "assistant",
    "content": "<think>a</think>Hi.",
    "reasoning_content": "why",
    "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}],
}


REPLAYED = [
    ({}, {"role", "content"}),
    ({"replay_reasoning": "never"}, {"role", "content"}),
    ({"replay_reasoning": "tool_turns"}, {"role", "content"}),
    ({"replay_reasoning": "always"}, set(NATIVE)),
    (
        {"replay_reasoning": "always", "reasoning_member": "reasoning"},
        {"role", "content", "reasoning", "reasoning_details"},
    ),
]


def test_native_turn_is_sent_back(subtests: pytest.Subtests) -> None:
    for options, expected in REPLAYED:
        with subtests.test(options=options):
            (message,) = messages_of(make_answer(SAID, native=NATIVE), **options)

            assert set(message) == expected
            assert message["content"] == NATIVE["content"]


def test_foreign_native_turn_is_dropped() -> None:
    turn = make_answer(SAID, native=NATIVE, is_native=False)

    assert messages_of(turn, replay_reasoning="always") == [{"role": "assistant", "content": "Hi."}]


def test_reasoning_of_tool_turns_can_be_sent_back() -> None:
    native = {**NATIVE, "tool_calls": [{**WIRE_CALL, "extra_content": {"s": 1}}]}

    first, second = messages_of(
        make_answer(make_call("high"), native=native), replay_reasoning="tool_turns"
    )

    assert first == {**NATIVE, "tool_calls": [{**WIRE_CALL, "extra_content": {"s": 1}}]}
    assert second == TOOL_MESSAGE


def test_signed_thinking_goes_back_beside_calls() -> None:
    blocks = [{"type": "thinking", "thinking": "Low.", "signature": "c2ln"}]
    called = {**NATIVE, "thinking_blocks": blocks, "tool_calls": [WIRE_CALL]}

    beside_a_call, *_ = messages_of(make_answer(make_call("high"), native=called))
    (alone,) = messages_of(make_answer(SAID, native={**NATIVE, "thinking_blocks": blocks}))

    assert beside_a_call["thinking_blocks"] == blocks
    assert "thinking_blocks" not in alone


def test_progress_of_the_prompt_is_asked_for_where_it_is_known() -> None:
    assert sent(options={"extras": "llama_cpp"})[0]["return_progress"] is True
    assert "return_progress" not in sent(options={"extras": "llama_cpp"}, stream=False)[0]
    assert "return_progress" not in sent(options={"extras": "vllm"})[0]


def test_native_call_without_result_is_removed() -> None:
    native = {"role": "assistant", "content": "Hi.", "tool_calls": [WIRE_CALL]}

    assert messages_of(make_answer(SAID, make_call(None), native=native)) == [
        {"role": "assistant", "content": "Hi."}
    ]


def test_reasoning_items_replace_a_missing_native_turn() -> None:
    turn = make_answer(ReasoningItem(content="why"), SAID)

    assert messages_of(turn, replay_reasoning="always") == [
        {"role": "assistant", "content": "Hi.", "reasoning_content": "why"}
    ]


def test_legacy_functions() -> None:
    native = {"role": "assistant", "content": None, "tool_calls": [{**WIRE_CALL, "legacy": True}]}

    assert messages_of(make_answer(make_call("high"), native=native), legacy_functions=True) == [
        {"role": "assistant", "content": None, "function_call": WIRE_CALL["function"]},
        {"role": "function", "name": "tide", "content": "high"},
    ]


def test_legacy_turn_has_one_call() -> None:
    calls = [make_call("high"), make_call("low", call_id="c2", tool="lock")]

    assert messages_of(make_answer(SAID, *calls), legacy_functions=True) == [
        {"role": "assistant", "content": "Hi.", "function_call": WIRE_CALL["function"]},
        {"role": "function", "name": "tide", "content": "high"},
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "lock", "arguments": '{"n": 1}'},
        },
        {"role": "function", "name": "lock", "content": "low"},
    ]


def test_legacy_mark_is_not_sent() -> None:
    native = {"role": "assistant", "content": None, "tool_calls": [{**WIRE_CALL, "legacy": True}]}

    assert messages_of(make_answer(make_call("high"), native=native))[0]["tool_calls"] == [
        WIRE_CALL
    ]


# --- chat completions: tools, and answers of several runs ------------------------------------


def test_tools_are_functions_with_schemas() -> None:
    body, _ = sent(tools=(TIDE, LOCK))

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


TOOL_CHOICES = [
    ("auto", "none", "auto", 0),
    ("Required", "none", "required", 0),
    ("any", "none", "required", 0),
    ("required", "mistral", "any", 0),
    ("tide", "none", {"type": "function", "function": {"name": "tide"}}, 0),
    ("sluice", "none", None, 1),
]


def test_tool_choice(subtests: pytest.Subtests) -> None:
    for chosen, extras, expected, notes in TOOL_CHOICES:
        with subtests.test(chosen=chosen, extras=extras):
            request = OPENAI.request(
                make_prompt(
                    tools=(TIDE,), parameters={"tool_choice": chosen}, options={"extras": extras}
                )
            )

            assert body_of(request).get("tool_choice") == expected
            assert len(request.notes) == notes


def test_tool_parameters_are_not_sent_without_tools() -> None:
    parameters = {"tool_choice": "required", "parallel_tool_calls": False}

    without, _ = sent(parameters=parameters)
    with_tools, _ = sent(tools=(TIDE,), parameters=parameters)

    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(without)
    assert with_tools["parallel_tool_calls"] is False


def test_legacy_tools_are_functions() -> None:
    body, _ = sent(tools=(LOCK,), options={"legacy_functions": True})

    assert [function["name"] for function in body["functions"]] == ["lock"]
    assert "tools" not in body


def test_continued_answer_ends_with_tool_results() -> None:
    refused = make_call("Refused by a person.", call_id="c2", status="failed")
    native = {
        "role": "assistant",
        "content": None,
        "tool_calls": [WIRE_CALL, {**WIRE_CALL, "id": "c2"}],
    }

    prompt = make_prompt(HELLO, make_answer(make_call("high"), refused, native=native))
    messages = body_of(OPENAI.request(prompt))["messages"]

    assert prompt.goes_on
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
    assert messages[1]["tool_calls"] == native["tool_calls"]
    assert messages[2] == TOOL_MESSAGE
    assert messages[3]["tool_call_id"] == "c2"
    assert messages[3]["content"] == "Refused by a person."


def test_equal_call_ids_of_two_runs_are_kept_apart(subtests: pytest.Subtests) -> None:
    for is_native in [True, False]:
        with subtests.test(is_native=is_native):
            native = {"role": "assistant", "content": None, "tool_calls": [WIRE_CALL]}
            runs = [
                make_answer(make_call(n), native=native, is_native=is_native)
                for n in ("high", "low")
            ]

            messages = sent(HELLO, *runs)[0]["messages"]

            assert [message["role"] for message in messages] == [
                "user",
                *("assistant", "tool", "assistant", "tool"),
            ]
            assert [m["content"] for m in messages if m["role"] == "tool"] == ["high", "low"]


def test_runs_without_calls_are_one_message() -> None:
    turns = (
        HELLO,
        make_answer(SAID),
        make_answer(),
        make_answer(MessageItem(content="Bye.")),
        MORE,
    )

    messages = sent(*turns)[0]["messages"]

    assert messages[1:-1] == [{"role": "assistant", "content": "Hi.\n\nBye."}]


def test_reply_to_a_foreign_question_becomes_text() -> None:
    turn = make_answer(SAID)
    turn.result.ext.asks.append({"ask_id": "a1", "question": "Which one?"})
    replies = (
        Reply(ask_id="a1", selected=("red",), text="or rose", fields={"size": "3"}),
        Reply(ask_id="a2", is_declined=True),
    )

    messages = sent(HELLO, replace(turn, replies=replies))[0]["messages"]

    assert messages[-1]["role"] == "user"
    assert messages[-1]["content"] == (
        f"To your question “Which one?”:\nred\nsize: 3\nor rose\n\n{DECLINED}"
    )


def test_call_ids_can_have_nine_letters(subtests: pytest.Subtests) -> None:
    for given in ["c1", "call_0123456789abcdef_0"]:
        with subtests.test(given=given):
            turn = make_answer(make_call("high", call_id=given))

            first, second = messages_of(turn, tool_call_ids="nine_letters")

            assert re.fullmatch("[A-Za-z0-9]{9}", second["tool_call_id"])
            assert first["tool_calls"][0]["id"] == second["tool_call_id"]


SYSTEM_ROLES = [
    ("system", [{"role": "system", "content": "Brief."}, {"role": "user", "content": "Hello"}]),
    (
        "developer",
        [{"role": "developer", "content": "Brief."}, {"role": "user", "content": "Hello"}],
    ),
    ("user", [{"role": "user", "content": "Brief.\n\nHello"}]),
]


def test_system_role_can_be_chosen(subtests: pytest.Subtests) -> None:
    for role, expected in SYSTEM_ROLES:
        with subtests.test(role=role):
            body, _ = sent(system="Brief.", options={"system_role": role})

            assert body["messages"] == expected


def test_system_prompt_before_an_image_is_a_part() -> None:
    turn = UserTurn.of("", PICTURE)

    body, _ = sent(turn, system="Brief.", options={"system_role": "user"})

    assert [part["type"] for part in body["messages"][0]["content"]] == ["text", "image_url"]


# --- chat completions: what only some servers know --------------------------------------------


EXTRAS = [
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
]


def test_parameter_names_fit_the_server(subtests: pytest.Subtests) -> None:
    for extras, parameters, expected in EXTRAS:
        with subtests.test(extras=extras, parameters=parameters):
            plain, _ = sent(options={"extras": extras})

            body, _ = sent(parameters=parameters, options={"extras": extras})

            assert {name: value for name, value in body.items() if name not in plain} == expected


def test_unknown_parameters_are_left_out_and_noted() -> None:
    request = OPENAI.request(make_prompt(parameters={"top_k": 5, "min_p": 0.1}))
    allowed = OPENAI.request(
        make_prompt(
            parameters={"top_k": 5, "min_p": 0.1}, options={"extra_members": "min_p, top_k"}
        )
    )

    assert not {"top_k", "min_p"} & set(body_of(request))
    assert ["top_k" in request.notes[0], "min_p" in request.notes[1]] == [True, True]
    assert body_of(allowed)["top_k"] == 5
    assert allowed.notes == ()


def test_extra_body_cannot_replace_the_conversation() -> None:
    added = {"provider": {"sort": "price"}, "temperature": 1.5, "model": "other", "messages": []}

    body, _ = sent(parameters={"temperature": 0.5}, options={"extra_body": added})

    assert body["provider"] == {"sort": "price"}
    assert body["temperature"] == 0.5
    assert body["model"] == "m"
    assert len(body["messages"]) == 1


def test_extra_body_is_merged_with_parameters() -> None:
    options = {"extras": "vllm", "extra_body": {"chat_template_kwargs": {"a": 1}}}

    body, _ = sent(parameters={"thinking": "enabled"}, options=options)

    assert body["chat_template_kwargs"] == {"a": 1, "enable_thinking": True}


RESPONSE_FORMATS = [
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
    ({"response_schema": {"type": "object"}}, None, 1),
]


def test_response_format(subtests: pytest.Subtests) -> None:
    for parameters, expected, notes in RESPONSE_FORMATS:
        with subtests.test(parameters=parameters):
            request = OPENAI.request(make_prompt(parameters=parameters))

            assert body_of(request).get("response_format") == expected
            assert len(request.notes) == notes
            assert "response_schema" not in body_of(request)


LOGPROBS = [
    ({"top_logprobs": 3}, {"top_logprobs": 3, "logprobs": True}),
    ({"logprobs": False, "top_logprobs": 3}, {"logprobs": False}),
    ({"logprobs": True, "n": 3}, {"logprobs": True, "n": 3}),
    ({"n": 99}, {"n": 8}),
]


def test_logprobs_and_n(subtests: pytest.Subtests) -> None:
    for parameters, expected in LOGPROBS:
        with subtests.test(parameters=parameters):
            body, _ = sent(parameters=parameters)

            assert {
                name: body[name] for name in ("logprobs", "top_logprobs", "n") if name in body
            } == expected


def test_refusal_without_reasoning_sends_it_back() -> None:
    text = "The `reasoning_content` in the thinking mode must be passed back to the API."
    error = ErrorInfo(status=400, message=text)

    mended = OPENAI.after_refusal(make_prompt(), error)

    assert mended is not None
    assert mended.options["replay_reasoning"] == "tool_turns"
    assert OPENAI.after_refusal(mended, error) is None


# --- Bitseek ---------------------------------------------------------------------------------


def test_bitseek_request_has_no_model() -> None:
    request = BITSEEK.request(make_prompt(system="Brief.", parameters={"temperature": 3}))

    assert request.path == "/chat/completions"
    assert body_of(request) == {
        "messages": [{"role": "system", "content": "Brief."}, {"role": "user", "content": "Hello"}],
        "stream": True,
        "temperature": 2,
    }


WEB_SEARCHES = [
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
]


def test_bitseek_web_search(subtests: pytest.Subtests) -> None:
    for parameters, expected in WEB_SEARCHES:
        with subtests.test(parameters=parameters):
            body, _ = sent_to_bitseek(parameters=parameters)

            assert body.get("webSearch") == expected
            assert body.get("enableWebSearch") == (None if expected is None else True)


def test_bitseek_takes_tools_but_no_images() -> None:
    turn = UserTurn.of("See", PICTURE)

    request = BITSEEK.request(make_prompt(turn, make_answer(make_call("high")), tools=(LOCK,)))

    messages = body_of(request)["messages"]
    assert [message["content"] for message in messages] == ["See", "", "high"]
    assert body_of(request)["tools"][0]["function"]["name"] == "lock"
    assert request.notes == (PARTS_LEFT_OUT[Image],)


CONVERSATION_IDS = [
    ("conv-1", {"X-Conversation-Id": "conv-1"}, 0),
    ("a\r\nX-Evil: 1", {}, 1),
    ("", {}, 0),
]


def test_bitseek_conversation_id_is_a_header(subtests: pytest.Subtests) -> None:
    for identity, headers, notes in CONVERSATION_IDS:
        with subtests.test(identity=identity):
            request = BITSEEK.request(make_prompt(options={"conversation_id": identity}))

            assert dict(request.headers) == headers
            assert len(request.notes) == notes
