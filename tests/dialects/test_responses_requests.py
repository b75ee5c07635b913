"""Requests of the Responses dialect: bodies, stored and complete histories, refusals."""

import json
from dataclasses import replace
from functools import partial

import pytest

from chat import dialects
from chat.dialects.base import AssistantTurn, Reply, ToolDefinition, Turn, UserTurn
from chat.dialects.history import NO_ANSWER
from chat.dialects.openai_responses.dialect import HISTORY_SENT_AGAIN
from chat.dialects.openai_responses.input import NOT_RUN
from chat.events import (
    ChatEnd,
    ErrorInfo,
    JsonObject,
    MessageItem,
    OutputItem,
    ProviderInfo,
    ReasoningItem,
    RefusalItem,
)
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
from tests.fixtures import ROOT, decode_recording

RESPONSES = dialects.get("openai_responses")
sent = partial(body_and_notes, RESPONSES)
HELLO_ITEM = {"type": "message", "role": "user", "content": "Hello"}
MORE_ITEM = {"type": "message", "role": "user", "content": "More?"}

THOUGHT = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "eA=="}
WORDS = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hi.", "annotations": []}],
}
FUNCTION = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "c1",
    "name": "tide",
    "arguments": '{"n": 1}',
}
APPROVAL_REQUEST = {
    "id": "mcpr_1",
    "type": "mcp_approval_request",
    "server_label": "river",
    "name": "open_sluice",
    "arguments": "{}",
}


def input_of(*turns: Turn, **members: object) -> list[JsonObject]:
    found = body_of(RESPONSES.request(make_prompt(*turns, **members)))["input"]
    assert isinstance(found, list)
    return found


def test_first_turn_body() -> None:
    request = RESPONSES.request(make_prompt(system="Be brief."))

    assert request.path == "/responses"
    assert request.notes == ()
    assert body_of(request) == {
        "model": "m",
        "stream": True,
        "instructions": "Be brief.",
        "input": [HELLO_ITEM],
    }


def test_images_are_parts() -> None:
    (message,) = input_of(UserTurn.of("See", PICTURE))

    assert message["content"] == [
        {"type": "input_text", "text": "See"},
        {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
    ]


def test_image_alone_has_no_empty_text() -> None:
    (message,) = input_of(UserTurn.of("", PICTURE))

    assert [part["type"] for part in message["content"]] == ["input_image"]


def test_parameters_are_nested_as_in_the_api() -> None:
    parameters = {
        "reasoning_effort": "low",
        "reasoning_summary": "auto",
        "verbosity": "high",
        "max_output_tokens": 90,
        "max_tool_calls": 3,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_logprobs": 2,
        "truncation": "auto",
        "compact_threshold": 9000,
        "service_tier": "flex",
    }

    body, _ = sent(parameters=parameters)

    assert body == {
        "model": "m",
        "stream": True,
        "input": [HELLO_ITEM],
        "reasoning": {"effort": "low", "summary": "auto"},
        # Never without a format: LM Studio refuses that.
        "text": {"format": {"type": "text"}, "verbosity": "high"},
        "max_output_tokens": 90,
        "max_tool_calls": 3,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_logprobs": 2,
        "truncation": "auto",
        "context_management": [{"type": "compaction", "compact_threshold": 9000}],
        "service_tier": "flex",
        "include": ["message.output_text.logprobs"],
    }


def test_text_format_is_sent_unchanged() -> None:
    form = {"type": "json_schema", "name": "place", "schema": {"type": "object"}}

    body, _ = sent(parameters={"text_format": json.dumps(form)})

    assert body["text"] == {"format": form}


BOUNDED = [
    ("top_logprobs", 99, 20),
    ("max_output_tokens", 0, 1),
    ("max_tool_calls", "4", 4),
    ("temperature", 7, 2),
    ("truncation", "sometimes", None),
    ("service_tier", "gold", None),
]


def test_parameters_are_typed_and_bounded(subtests: pytest.Subtests) -> None:
    for name, value, expected in BOUNDED:
        with subtests.test(name=name, value=value):
            request = RESPONSES.request(make_prompt(parameters={name: value}))

            assert body_of(request).get(name) == expected
            assert len(request.notes) == (0 if value == "4" else 1)


TIDE = ToolDefinition(
    name="tide", description="The tide.", schema={"type": "object", "properties": {"n": {}}}
)


def test_functions_and_server_tools_are_offered_together() -> None:
    extra = [{"type": "web_search"}, {"type": "code_interpreter", "container": {"type": "auto"}}]

    body, _ = sent(
        tools=(TIDE,),
        options={"extra_tools": extra},
        parameters={"tool_choice": "required", "parallel_tool_calls": False},
    )

    function = {
        "type": "function",
        "name": "tide",
        "description": "The tide.",
        "parameters": TIDE.schema,
        "strict": False,
    }
    assert body["tools"] == [function, *extra]
    assert body["tool_choice"] == "required"
    assert body["parallel_tool_calls"] is False
    assert body["include"] == ["web_search_call.action.sources", "code_interpreter_call.outputs"]


def test_one_server_tool_needs_no_list() -> None:
    body, _ = sent(options={"extra_tools": '{"type": "web_search"}'})

    assert body["tools"] == [{"type": "web_search"}]


def test_tool_choice(subtests: pytest.Subtests) -> None:
    for choice, expected, notes in [
        ("tide", {"type": "function", "name": "tide"}, 0),
        ("AUTO", "auto", 0),
        ("weather", None, 1),
    ]:
        with subtests.test(choice=choice):
            request = RESPONSES.request(
                make_prompt(tools=(TIDE,), parameters={"tool_choice": choice})
            )

            assert body_of(request).get("tool_choice") == expected
            assert len(request.notes) == notes


def test_tool_parameters_are_not_sent_without_tools() -> None:
    parameters = {"tool_choice": "auto", "parallel_tool_calls": True}

    body, _ = sent(parameters=parameters)

    assert body.keys() == {"model", "stream", "input"}


def test_extra_tools_are_a_secret_option() -> None:
    (extra,) = (option for option in RESPONSES.options if option.name == "extra_tools")

    assert extra.is_secret


# --- the server keeps the history --------------------------------------------------------


def test_stored_history_is_not_sent_again() -> None:
    prompt = make_prompt(
        HELLO,
        make_answer(SAID, native=[WORDS]),
        MORE,
        system="Be brief.",
        previous_response_id="resp_1",
    )

    body = body_of(RESPONSES.request(prompt))

    assert body["previous_response_id"] == "resp_1"
    assert body["input"] == [MORE_ITEM]
    # Not carried over by the id.
    assert body["instructions"] == "Be brief."
    assert "store" not in body


def test_tool_result_continues_stored_history() -> None:
    turn = make_answer(make_call("high"), native=[THOUGHT, FUNCTION])

    assert input_of(HELLO, turn, previous_response_id="resp_1") == [
        {"type": "function_call_output", "call_id": "c1", "output": "high"}
    ]


def test_stored_call_without_result_is_answered() -> None:
    turn = make_answer(make_call(None), native=[FUNCTION])

    assert input_of(HELLO, turn, MORE, previous_response_id="resp_1") == [
        {"type": "function_call_output", "call_id": "c1", "output": NOT_RUN},
        MORE_ITEM,
    ]


def test_approval_names_its_request(subtests: pytest.Subtests) -> None:
    for reply, expected in [
        (
            Reply(ask_id="mcpr_1", style="approval"),
            {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
        ),
        (
            Reply(ask_id="mcpr_1", style="approval", text="Not today.", is_declined=True),
            {
                "type": "mcp_approval_response",
                "approval_request_id": "mcpr_1",
                "approve": False,
                "reason": "Not today.",
            },
        ),
    ]:
        with subtests.test(reply=reply):
            turn = make_answer(SAID, native=[WORDS, APPROVAL_REQUEST], replies=(reply,))

            assert input_of(HELLO, turn, previous_response_id="resp_1") == [expected]


OUTPUT_FORMS = [
    ("custom_tool_call", {}, {}, {"type": "custom_tool_call_output", "output": "high"}),
    ("local_shell_call", {}, {}, {"type": "local_shell_call_output", "id": "c1", "output": "high"}),
    (
        "apply_patch_call",
        {},
        {"status": "failed"},
        {"type": "apply_patch_call_output", "status": "failed", "output": "high"},
    ),
    (
        "shell_call",
        {"environment": {"type": "local"}},
        {},
        {
            "type": "shell_call_output",
            "output": [
                {"stdout": "high", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
            ],
        },
    ),
]


def test_output_form_fits_the_call_type(subtests: pytest.Subtests) -> None:
    for kind, members, call_members, expected in OUTPUT_FORMS:
        with subtests.test(kind=kind):
            native = {**FUNCTION, "type": kind, **members}
            turn = make_answer(make_call("high", **call_members), native=[native])

            (output,) = input_of(HELLO, turn, previous_response_id="resp_1")

            assert {"call_id": "c1", **output} == {"call_id": "c1", **expected}


def test_computer_call_forces_a_stateless_request() -> None:
    turn = make_answer(SAID, native=[{**FUNCTION, "type": "computer_call"}, WORDS])

    body, _ = sent(HELLO, turn, MORE, previous_response_id="resp_1")

    assert "previous_response_id" not in body
    assert body["input"] == [HELLO_ITEM, WORDS, MORE_ITEM]


def test_stateless_request_sends_the_whole_history(subtests: pytest.Subtests) -> None:
    for history in ["stateless", "bare"]:
        with subtests.test(history=history):
            prompt = make_prompt(
                HELLO,
                make_answer(SAID, native=[THOUGHT, WORDS]),
                MORE,
                previous_response_id="resp_1",
                options={"history": history},
            )

            body = body_of(RESPONSES.request(prompt))

            assert "previous_response_id" not in body
            assert body["input"] == [HELLO_ITEM, THOUGHT, WORDS, MORE_ITEM]
            expected = {"store": False, "include": ["reasoning.encrypted_content"]}
            assert {name: body[name] for name in ("store", "include") if name in body} == (
                expected if history == "stateless" else {}
            )


# --- the whole conversation ----------------------------------------------------------------


def kept(*native: JsonObject, items: tuple[OutputItem, ...] = (SAID,)) -> list[JsonObject]:
    return input_of(HELLO, make_answer(*items, native=list(native)), MORE)[1:-1]


def test_tool_result_follows_its_call() -> None:
    assert kept(THOUGHT, FUNCTION, items=(make_call("high"),)) == [
        THOUGHT,
        FUNCTION,
        {"type": "function_call_output", "call_id": "c1", "output": "high"},
    ]


def test_result_for_a_program_repeats_its_caller() -> None:
    call = {**FUNCTION, "caller": {"type": "program", "caller_id": "call_p"}}

    _, result = kept(call, items=(make_call("high"),))

    assert result["caller"] == call["caller"]


def test_call_without_result_is_removed_with_its_thinking() -> None:
    assert kept(WORDS, THOUGHT, FUNCTION, items=(SAID, make_call(None))) == [WORDS]


def test_server_side_call_keeps_its_own_result() -> None:
    result = {"type": "function_call_output", "call_id": "c1", "output": "noon"}

    assert kept(FUNCTION, result, items=(make_call("noon"),)) == [FUNCTION, result]


def test_program_without_a_result_is_left_out_with_its_calls() -> None:
    program = {"id": "p", "type": "program", "call_id": "cp", "code": "tide(1)"}
    called = {**FUNCTION, "caller": {"type": "program", "caller_id": "cp"}}
    output = {"id": "po", "type": "program_output", "call_id": "cp", "result": "2"}
    nameless = {"id": "x", "type": "program", "code": "tide(2)"}
    waiting = make_answer(make_call("2 m"), native=[WORDS, program, called])
    assert [item["type"] for item in kept(WORDS, nameless)] == ["message", "program"]

    def types_of(*turns: Turn) -> list[str]:
        return [item["type"] for item in input_of(*turns)]

    result = "function_call_output"
    sent_back = ["message", "program", "function_call", result]
    assert types_of(HELLO, waiting, MORE) == ["message"] * 3
    assert types_of(HELLO, waiting) == ["message", *sent_back]
    ended = make_answer(SAID, native=[output])
    assert types_of(HELLO, waiting, ended, MORE)[1:] == [*sent_back, "program_output", "message"]


def test_newest_summary_stands_for_everything_before_it() -> None:
    older, newer = (
        {"id": each, "type": "compaction", "encrypted_content": "eA=="} for each in "ab"
    )
    turns = [HELLO, make_answer(SAID, native=[older, WORDS]), MORE]
    turns += [make_answer(SAID, native=[newer, WORDS]), MORE]

    assert input_of(*turns) == [newer, WORDS, MORE_ITEM]


def test_unreadable_thinking_is_dropped() -> None:
    hidden = {"id": "rs_2", "type": "reasoning", "summary": [{"type": "summary_text", "text": "x"}]}
    full = {**hidden, "content": [{"type": "reasoning_text", "text": "y"}]}

    assert kept(hidden, WORDS) == [WORDS]
    assert kept(full, WORDS) == [full, WORDS]


def test_thinking_alone_becomes_a_placeholder() -> None:
    assert kept(THOUGHT, items=(ReasoningItem(content="why"),)) == [
        {"type": "message", "role": "assistant", "content": NO_ANSWER}
    ]


def test_approval_request_is_sent_only_with_a_reply() -> None:
    reply = Reply(ask_id="mcpr_1", style="approval")
    with_reply = make_answer(SAID, native=[WORDS, APPROVAL_REQUEST], replies=(reply,))

    assert kept(WORDS, APPROVAL_REQUEST) == [WORDS]
    assert input_of(HELLO, with_reply)[1:] == [
        WORDS,
        APPROVAL_REQUEST,
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    ]


def test_foreign_answer_is_built_from_its_items() -> None:
    plugin = ProviderInfo(type="plugin", plugin_id="p")
    turn = make_answer(
        ReasoningItem(content="secret thought"),
        MessageItem(content="I look."),
        make_call("high"),
        make_call("deep", provider_info=plugin, call_id=None, tool="sound"),
        make_call(None, call_id="c2"),
        RefusalItem(content="No more."),
        native=[THOUGHT, WORDS],
        is_native=False,
    )

    assert input_of(HELLO, turn, MORE)[1:-1] == [
        {"type": "message", "role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "c1", "name": "tide", "arguments": '{"n": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "high"},
        {"type": "message", "role": "assistant", "content": "[Result of sound: deep]"},
        {"type": "message", "role": "assistant", "content": "No more."},
    ]


def test_foreign_question_and_reply_become_text() -> None:
    turn = make_answer(
        SAID,
        is_native=False,
        asks=({"ask_id": "q", "question": "Which bank?"},),
        replies=(Reply(ask_id="q", selected=("left",)),),
    )

    assert input_of(HELLO, turn)[1:] == [
        {"type": "message", "role": "assistant", "content": "Hi."},
        {"type": "message", "role": "user", "content": "To your question “Which bank?”:\nleft"},
    ]


def test_call_id_fits_the_api(subtests: pytest.Subtests) -> None:
    for call_id in [None, "x" * 99]:
        with subtests.test(call_id=call_id):
            turn = make_answer(make_call("high", call_id=call_id), is_native=False)

            function, output = input_of(HELLO, turn, MORE)[1:-1]

            assert function["call_id"] == output["call_id"]
            assert 0 < len(function["call_id"]) <= 64


def test_recorded_answer_is_sent_back_unchanged() -> None:
    end = decode_recording(ROOT / "openai_responses/reasoning_summary.sse")[-1]
    assert isinstance(end, ChatEnd)
    turn = AssistantTurn(result=end.result, is_native=True)

    assert input_of(HELLO, turn, MORE)[1:-1] == end.result.ext.native


# --- refusals --------------------------------------------------------------------------------


LOST_HISTORY = [
    (ErrorInfo(status=404, message="Response with id 'resp_1' not found."), True),
    (ErrorInfo(status=400, param="previous_response_id", message="not found"), True),
    (ErrorInfo(status=400, code="previous_response_not_found", message="Previous response"), True),
    (ErrorInfo(status=400, message="No tool output found for function call c1."), True),
    (ErrorInfo(status=404, message="No such model."), False),
    (ErrorInfo(status=500, message="previous_response_id"), False),
]


def test_lost_history_is_sent_as_a_whole(subtests: pytest.Subtests) -> None:
    for error, is_mended in LOST_HISTORY:
        with subtests.test(error=error):
            prompt = make_prompt(
                HELLO, make_answer(SAID, native=[WORDS]), MORE, previous_response_id="resp_1"
            )

            mended = RESPONSES.after_refusal(prompt, error)

            assert (mended is not None) == is_mended
            if mended:
                request = RESPONSES.request(mended)
                assert body_of(request)["input"] == [HELLO_ITEM, WORDS, MORE_ITEM]
                assert "previous_response_id" not in body_of(request)
                assert request.notes == (HISTORY_SENT_AGAIN,)


REFUSED = [
    (
        ErrorInfo(
            status=400,
            param="temperature",
            message="Unsupported parameter: 'temperature' is not supported with this model.",
        ),
        "temperature",
        1,
    ),
    (
        ErrorInfo(status=400, message="Encrypted content is not supported with this model."),
        "include",
        0,
    ),
    (ErrorInfo(status=422, message="store: Extra inputs are not permitted"), "store", 0),
    (ErrorInfo(status=400, param="reasoning.summary", message="must be verified"), "reasoning", 1),
    (ErrorInfo(status=400, param="text.verbosity", message="Unsupported value"), "text", 1),
]


def test_refused_parameter_is_left_out(subtests: pytest.Subtests) -> None:
    for error, gone, notes in REFUSED:
        with subtests.test(gone=gone):
            prompt = make_prompt(
                parameters={"temperature": 1, "reasoning_summary": "auto", "verbosity": "low"},
                options={"history": "stateless"},
            )

            mended = RESPONSES.after_refusal(prompt, error)

            assert mended is not None
            before, after = RESPONSES.request(prompt), RESPONSES.request(mended)
            assert body_of(before).keys() - body_of(after).keys() == {gone}
            assert len(after.notes) == notes
            assert RESPONSES.after_refusal(mended, error) is None


def test_other_refusals_are_final(subtests: pytest.Subtests) -> None:
    for error in [
        ErrorInfo(status=400, message="The prompt is bad."),
        ErrorInfo(status=400, param="top_p", message="was not sent"),
        ErrorInfo(status=429, param="temperature", message="slow down"),
    ]:
        with subtests.test(error=error):
            assert (
                RESPONSES.after_refusal(make_prompt(parameters={"temperature": 1}), error) is None
            )


def test_each_parameter_is_dropped_once() -> None:
    prompt = make_prompt(parameters={"temperature": 1, "top_p": 0.5})
    error = ErrorInfo(status=400, message="temperature and top_p are not supported")

    first = RESPONSES.after_refusal(prompt, error)
    assert first is not None
    second = RESPONSES.after_refusal(first, error)
    assert second is not None

    assert RESPONSES.after_refusal(second, error) is None
    assert body_of(RESPONSES.request(replace(second))).keys() == {"model", "stream", "input"}
