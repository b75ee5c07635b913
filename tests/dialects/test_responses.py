"""OpenAI Responses: the table of events, and what is asked."""

import json
from dataclasses import replace

import pytest

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
)
from chat.dialects.history import NO_ANSWER
from chat.dialects.openai_responses import HISTORY_SENT_AGAIN
from chat.dialects.responses_input import NOT_RUN
from chat.dialects.responses_parser import HANDLERS
from chat.events import (
    ErrorInfo,
    Extension,
    JsonObject,
    MessageItem,
    OutputItem,
    ProviderInfo,
    ReasoningItem,
    RefusalItem,
    Result,
    Stats,
    Stop,
    ToolCallItem,
    encode,
)
from chat.result import Fold, finish
from tests.fixtures import RECORDINGS, decode_recording, name_of

RESPONSES = dialects.get("openai_responses")
MINE = {name_of(path): path for path in RECORDINGS if path.parent.name == "openai_responses"}

# The union of OpenAI's own client.
EVENTS = [
    "error",
    *(
        f"response.{name}"
        for name in (
            *("created", "queued", "in_progress", "completed", "incomplete", "failed"),
            *("output_item.added", "output_item.done", "content_part.added", "content_part.done"),
            *("output_text.delta", "output_text.done", "output_text.annotation.added"),
            *("refusal.delta", "refusal.done", "reasoning_text.delta", "reasoning_text.done"),
            *("reasoning_summary_part.added", "reasoning_summary_part.done"),
            *("reasoning_summary_text.delta", "reasoning_summary_text.done"),
            *("function_call_arguments.delta", "function_call_arguments.done"),
            *("custom_tool_call_input.delta", "custom_tool_call_input.done"),
            *("mcp_call_arguments.delta", "mcp_call_arguments.done"),
            *("mcp_call.in_progress", "mcp_call.completed", "mcp_call.failed"),
            *("mcp_list_tools.in_progress", "mcp_list_tools.completed", "mcp_list_tools.failed"),
            *("web_search_call.in_progress", "web_search_call.searching"),
            *("web_search_call.completed", "file_search_call.in_progress"),
            *("file_search_call.searching", "file_search_call.completed"),
            *("code_interpreter_call.in_progress", "code_interpreter_call.interpreting"),
            *("code_interpreter_call.completed", "code_interpreter_call_code.delta"),
            *("code_interpreter_call_code.done", "shell_call_command.added"),
            *("shell_call_command.delta", "shell_call_command.done"),
            *("shell_call_output_content.delta", "shell_call_output_content.done"),
            *("image_generation_call.in_progress", "image_generation_call.generating"),
            *("image_generation_call.completed", "image_generation_call.partial_image"),
            *("audio.delta", "audio.done", "audio.transcript.delta", "audio.transcript.done"),
        )
    ),
]
# Fireworks' spelling, an event newer than the union, and one that is documented as a webhook.
FURTHER = [
    *("response.mcp_call.arguments.delta", "response.mcp_call.arguments.done"),
    *("response.compaction.compacting", "response.cancelled"),
]
# What the mapping names as the canonical event of each group; the recordings must show it.
SHOWN = {
    "web_search": '"family":"web_search"',
    "file_search": '"family":"file_search"',
    "code_interpreter": '"family":"code"',
    "shell": '"family":"shell"',
    "image": '"state":"partial"',
    "mcp": '"step":"list_tools"',
    "mcp_approval": '"style":"approval"',
    "queued": '"step":"queued"',
    "other_items": '"kind":"compaction"',
    "reasoning_summary": '"kind":"reasoning_encrypted"',
    "audio": '"media_type":"audio/*"',
    "citations": '"kind":"container_file_citation"',
    "logprobs": '"type":"logprobs.add"',
    "refusal": '"type":"refusal.delta"',
    "custom_tool": '"arguments":{"input":',
}


def test_the_union_has_58_events() -> None:
    assert len(set(EVENTS)) == 58


@pytest.mark.parametrize("name", [*EVENTS, *FURTHER])
def test_every_event_has_a_handler_and_a_recording(name: str) -> None:
    streams = [path.read_text() for path in MINE.values() if path.suffix == ".sse"]

    assert name in HANDLERS
    assert any(f'"type":"{name}"' in stream for stream in streams)


@pytest.mark.parametrize(("name", "text"), SHOWN.items())
def test_group_of_events_becomes_what_the_mapping_says(name: str, text: str) -> None:
    events = decode_recording(MINE[f"openai_responses/{name}"])

    assert any(text in encode(event).decode() for event in events[:-1])


@pytest.mark.parametrize("name", MINE)
def test_known_events_leave_nothing_unknown(name: str) -> None:
    unknown = [item for item in fold_of(name).ext.vendor if "item" not in str(item.get("event"))]

    assert (unknown != []) == (name in ("openai_responses/t47_unknown",))


def fold_of(name: str) -> Result:
    end = decode_recording(MINE[name])[-1]
    return end.result  # type: ignore[union-attr]


# --- asking ---------------------------------------------------------------------------


CLIENT = ProviderInfo(type="function")
PICTURE = Image(media_type="image/png", data="aGk=")
HELLO = UserTurn(text="Hello")
MORE = UserTurn(text="More?")
SAID = MessageItem(content="Hi.")
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
    "call_id": "call_1",
    "name": "tide",
    "arguments": '{"n": 1}',
}
ASKED = {
    "id": "mcpr_1",
    "type": "mcp_approval_request",
    "server_label": "river",
    "name": "open_sluice",
    "arguments": "{}",
}


def body_of(request: UpstreamRequest) -> JsonObject:
    body = json.loads(request.body)
    assert isinstance(body, dict)
    return body


def asking(*turns: Turn, **members: object) -> Prompt:
    return Prompt(model="m", turns=turns or (HELLO,), **members)  # type: ignore[arg-type]


def answered(
    *items: OutputItem,
    native: object = None,
    is_native: bool = True,
    replies: tuple[Reply, ...] = (),
    asks: tuple[JsonObject, ...] = (),
) -> AssistantTurn:
    ext = Extension(status="completed", stop=Stop(reason="stop"), native=native, asks=list(asks))
    result = Result(model_instance_id="m", output=list(items), stats=Stats(), ext=ext)
    return AssistantTurn(result=result, is_native=is_native, replies=replies)


def call(output: str | None, **members: object) -> ToolCallItem:
    defaults: dict[str, object] = {
        "tool": "tide",
        "call_id": "call_1",
        "provider_info": CLIENT,
        "arguments": {"n": 1},
        "arguments_raw": '{"n": 1}',
    }
    return ToolCallItem(output=output, **{**defaults, **members})  # type: ignore[arg-type]


def input_of(*turns: Turn, **members: object) -> list[JsonObject]:
    found = body_of(RESPONSES.request(asking(*turns, **members)))["input"]
    assert isinstance(found, list)
    return found


def test_first_turn() -> None:
    request = RESPONSES.request(asking(system="Be brief."))

    assert request.path == "/responses"
    assert request.notes == ()
    assert body_of(request) == {
        "model": "m",
        "stream": True,
        "instructions": "Be brief.",
        "input": [HELLO_ITEM],
    }


def test_pictures_are_parts() -> None:
    (message,) = input_of(UserTurn(text="See", images=(PICTURE,)))

    assert message["content"] == [
        {"type": "input_text", "text": "See"},
        {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
    ]


def test_picture_alone_has_no_empty_text() -> None:
    (message,) = input_of(UserTurn(text="", images=(PICTURE,)))

    assert [part["type"] for part in message["content"]] == ["input_image"]


def test_parameters_go_where_the_api_has_them() -> None:
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
        "service_tier": "flex",
    }

    body = body_of(RESPONSES.request(asking(parameters=parameters)))

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
        "service_tier": "flex",
        "include": ["message.output_text.logprobs"],
    }


def test_form_of_the_answer_goes_as_it_is() -> None:
    form = {"type": "json_schema", "name": "place", "schema": {"type": "object"}}

    body = body_of(RESPONSES.request(asking(parameters={"text_format": json.dumps(form)})))

    assert body["text"] == {"format": form}


@pytest.mark.parametrize(
    ("name", "value", "sent"),
    [
        ("top_logprobs", 99, 20),
        ("max_output_tokens", 0, 1),
        ("max_tool_calls", "4", 4),
        ("temperature", 7, 2),
        ("truncation", "sometimes", None),
        ("service_tier", "gold", None),
    ],
)
def test_parameters_are_typed_and_bounded(name: str, value: object, sent: object) -> None:
    request = RESPONSES.request(asking(parameters={name: value}))

    assert body_of(request).get(name) == sent
    assert len(request.notes) == (0 if value == "4" else 1)


TIDE = ToolDefinition(
    name="tide", description="The tide.", schema={"type": "object", "properties": {"n": {}}}
)


def test_functions_and_the_tools_of_the_server_are_offered_together() -> None:
    extra = [{"type": "web_search"}, {"type": "code_interpreter", "container": {"type": "auto"}}]

    body = body_of(
        RESPONSES.request(
            asking(
                tools=(TIDE,),
                options={"extra_tools": extra},
                parameters={"tool_choice": "required", "parallel_tool_calls": False},
            )
        )
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
    assert body["include"] == [
        "web_search_call.action.sources",
        "code_interpreter_call.outputs",
    ]


def test_one_tool_of_the_server_may_stand_alone() -> None:
    body = body_of(RESPONSES.request(asking(options={"extra_tools": '{"type": "web_search"}'})))

    assert body["tools"] == [{"type": "web_search"}]


@pytest.mark.parametrize(
    ("choice", "sent", "notes"),
    [
        ("tide", {"type": "function", "name": "tide"}, 0),
        ("AUTO", "auto", 0),
        ("weather", None, 1),
    ],
)
def test_choice_of_a_tool(choice: str, sent: object, notes: int) -> None:
    request = RESPONSES.request(asking(tools=(TIDE,), parameters={"tool_choice": choice}))

    assert body_of(request).get("tool_choice") == sent
    assert len(request.notes) == notes


def test_without_tools_nothing_is_said_about_them() -> None:
    parameters = {"tool_choice": "auto", "parallel_tool_calls": True}

    body = body_of(RESPONSES.request(asking(parameters=parameters)))

    assert body.keys() == {"model", "stream", "input"}


def test_tools_with_credentials_are_a_secret() -> None:
    (extra,) = (option for option in RESPONSES.options if option.name == "extra_tools")

    assert extra.is_secret


# --- the server keeps the history --------------------------------------------------------


def test_only_what_is_new_is_sent_to_a_server_that_has_the_rest() -> None:
    prompt = asking(
        HELLO,
        answered(SAID, native=[WORDS]),
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


def test_result_of_a_call_is_what_is_new() -> None:
    turn = answered(call("high"), native=[THOUGHT, FUNCTION])

    assert input_of(HELLO, turn, previous_response_id="resp_1") == [
        {"type": "function_call_output", "call_id": "call_1", "output": "high"}
    ]


def test_call_that_nobody_ran_is_answered_before_a_new_turn() -> None:
    turn = answered(call(None), native=[FUNCTION])

    assert input_of(HELLO, turn, MORE, previous_response_id="resp_1") == [
        {"type": "function_call_output", "call_id": "call_1", "output": NOT_RUN},
        MORE_ITEM,
    ]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
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
    ],
)
def test_approval_goes_back_under_the_id_of_its_request(reply: Reply, expected: object) -> None:
    turn = answered(SAID, native=[WORDS, ASKED], replies=(reply,))

    assert input_of(HELLO, turn, previous_response_id="resp_1") == [expected]


@pytest.mark.parametrize(
    ("kind", "members", "call_members", "expected"),
    [
        ("custom_tool_call", {}, {}, {"type": "custom_tool_call_output", "output": "high"}),
        (
            "local_shell_call",
            {},
            {},
            {"type": "local_shell_call_output", "id": "call_1", "output": "high"},
        ),
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
                    {
                        "stdout": "high",
                        "stderr": "",
                        "outcome": {"type": "exit", "exit_code": 0},
                    }
                ],
            },
        ),
    ],
)
def test_output_has_the_form_that_its_call_wants(
    kind: str, members: JsonObject, call_members: JsonObject, expected: JsonObject
) -> None:
    native = {**FUNCTION, "type": kind, **members}
    turn = answered(call("high", **call_members), native=[native])

    (sent,) = input_of(HELLO, turn, previous_response_id="resp_1")

    assert {"call_id": "call_1", **sent} == {"call_id": "call_1", **expected}


def test_call_that_wants_a_picture_means_the_whole_conversation_without_it() -> None:
    turn = answered(SAID, native=[{**FUNCTION, "type": "computer_call"}, WORDS])

    body = body_of(RESPONSES.request(asking(HELLO, turn, MORE, previous_response_id="resp_1")))

    assert "previous_response_id" not in body
    assert body["input"] == [HELLO_ITEM, WORDS, MORE_ITEM]


@pytest.mark.parametrize("history", ["stateless", "bare"])
def test_stateless_sends_everything_whatever_the_server_has(history: str) -> None:
    prompt = asking(
        HELLO,
        answered(SAID, native=[THOUGHT, WORDS]),
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
    return input_of(HELLO, answered(*items, native=list(native)), MORE)[1:-1]


def test_answered_call_goes_back_with_its_result_behind_it() -> None:
    assert kept(THOUGHT, FUNCTION, items=(call("high"),)) == [
        THOUGHT,
        FUNCTION,
        {"type": "function_call_output", "call_id": "call_1", "output": "high"},
    ]


def test_unanswered_call_is_cut_with_the_thinking_before_it() -> None:
    assert kept(WORDS, THOUGHT, FUNCTION, items=(SAID, call(None))) == [WORDS]


def test_call_that_the_server_ran_keeps_its_own_result() -> None:
    result = {"type": "function_call_output", "call_id": "call_1", "output": "noon"}

    assert kept(FUNCTION, result, items=(call("noon"),)) == [FUNCTION, result]


def test_thinking_that_the_server_cannot_read_is_dropped() -> None:
    hidden = {"id": "rs_2", "type": "reasoning", "summary": [{"type": "summary_text", "text": "x"}]}
    full = {**hidden, "content": [{"type": "reasoning_text", "text": "y"}]}

    assert kept(hidden, WORDS) == [WORDS]
    assert kept(full, WORDS) == [full, WORDS]


def test_answer_of_thinking_alone_has_a_placeholder() -> None:
    assert kept(THOUGHT, items=(ReasoningItem(content="why"),)) == [
        {"type": "message", "role": "assistant", "content": NO_ANSWER}
    ]


def test_request_for_approval_goes_back_only_with_a_reply() -> None:
    reply = Reply(ask_id="mcpr_1", style="approval")
    with_reply = answered(SAID, native=[WORDS, ASKED], replies=(reply,))

    assert kept(WORDS, ASKED) == [WORDS]
    assert input_of(HELLO, with_reply)[1:] == [
        WORDS,
        ASKED,
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    ]


def test_answer_of_another_server_is_built_from_its_items() -> None:
    plugin = ProviderInfo(type="plugin", plugin_id="p")
    turn = answered(
        ReasoningItem(content="secret thought"),
        MessageItem(content="I look."),
        call("high"),
        call("deep", provider_info=plugin, call_id=None, tool="sound"),
        call(None, call_id="call_2"),
        RefusalItem(content="No more."),
        native=[THOUGHT, WORDS],
        is_native=False,
    )

    assert input_of(HELLO, turn, MORE)[1:-1] == [
        {"type": "message", "role": "assistant", "content": "I look."},
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "tide",
            "arguments": '{"n": 1}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "high"},
        {"type": "message", "role": "assistant", "content": "[Result of sound: deep]"},
        {"type": "message", "role": "assistant", "content": "No more."},
    ]


def test_question_of_another_server_and_its_reply_are_words() -> None:
    turn = answered(
        SAID,
        is_native=False,
        asks=({"ask_id": "q", "question": "Which bank?"},),
        replies=(Reply(ask_id="q", selected=("left",)),),
    )

    assert input_of(HELLO, turn)[1:] == [
        {"type": "message", "role": "assistant", "content": "Hi."},
        {
            "type": "message",
            "role": "user",
            "content": "To your question “Which bank?”:\nleft",
        },
    ]


@pytest.mark.parametrize("call_id", [None, "x" * 99])
def test_call_has_an_id_that_the_api_takes(call_id: str | None) -> None:
    turn = answered(call("high", call_id=call_id), is_native=False)

    function, output = input_of(HELLO, turn, MORE)[1:-1]

    assert function["call_id"] == output["call_id"]
    assert 0 < len(function["call_id"]) <= 64


def test_recorded_answer_goes_back_exactly() -> None:
    result = fold_of("openai_responses/reasoning_summary")
    turn = AssistantTurn(result=result, is_native=True)

    assert input_of(HELLO, turn, MORE)[1:-1] == result.ext.native


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "is_mended"),
    [
        (ErrorInfo(status=404, message="Response with id 'resp_1' not found."), True),
        (ErrorInfo(status=400, param="previous_response_id", message="not found"), True),
        (
            ErrorInfo(status=400, code="previous_response_not_found", message="Previous response"),
            True,
        ),
        (ErrorInfo(status=400, message="No tool output found for function call call_1."), True),
        (ErrorInfo(status=404, message="No such model."), False),
        (ErrorInfo(status=500, message="previous_response_id"), False),
    ],
)
def test_lost_history_is_sent_as_a_whole(error: ErrorInfo, is_mended: bool) -> None:
    prompt = asking(HELLO, answered(SAID, native=[WORDS]), MORE, previous_response_id="resp_1")

    mended = RESPONSES.after_refusal(prompt, error)

    assert (mended is not None) == is_mended
    if mended:
        request = RESPONSES.request(mended)
        assert body_of(request)["input"] == [HELLO_ITEM, WORDS, MORE_ITEM]
        assert "previous_response_id" not in body_of(request)
        assert request.notes == (HISTORY_SENT_AGAIN,)


@pytest.mark.parametrize(
    ("error", "gone", "notes"),
    [
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
        (
            ErrorInfo(status=400, param="reasoning.summary", message="must be verified"),
            "reasoning",
            1,
        ),
        (ErrorInfo(status=400, param="text.verbosity", message="Unsupported value"), "text", 1),
    ],
)
def test_refused_member_is_left_out_and_the_person_is_told(
    error: ErrorInfo, gone: str, notes: int
) -> None:
    prompt = asking(
        parameters={"temperature": 1, "reasoning_summary": "auto", "verbosity": "low"},
        options={"history": "stateless"},
    )

    mended = RESPONSES.after_refusal(prompt, error)

    assert mended is not None
    before, after = RESPONSES.request(prompt), RESPONSES.request(mended)
    assert body_of(before).keys() - body_of(after).keys() == {gone}
    assert len(after.notes) == notes
    assert RESPONSES.after_refusal(mended, error) is None


@pytest.mark.parametrize(
    "error",
    [
        ErrorInfo(status=400, message="The prompt is bad."),
        ErrorInfo(status=400, param="top_p", message="was not sent"),
        ErrorInfo(status=429, param="temperature", message="slow down"),
    ],
)
def test_other_refusals_are_final(error: ErrorInfo) -> None:
    assert RESPONSES.after_refusal(asking(parameters={"temperature": 1}), error) is None


def test_every_refusal_is_mended_at_most_once() -> None:
    prompt = asking(parameters={"temperature": 1, "top_p": 0.5})
    error = ErrorInfo(status=400, message="temperature and top_p are not supported")

    first = RESPONSES.after_refusal(prompt, error)
    assert first is not None
    second = RESPONSES.after_refusal(first, error)
    assert second is not None

    assert RESPONSES.after_refusal(second, error) is None
    assert body_of(RESPONSES.request(replace(second))).keys() == {"model", "stream", "input"}


# --- what must not be told -----------------------------------------------------------------------


def test_echo_of_the_tools_with_their_credentials_is_in_no_event() -> None:
    response = {
        "id": "resp_1",
        "model": "m",
        "status": "completed",
        "output": [WORDS],
        "instructions": "Be brief.",
        "tools": [{"type": "mcp", "headers": {"Authorization": "Bearer sk-river"}}],
    }
    parser = RESPONSES.parser(model="m", options={})

    events = [*parser.feed_body(json.dumps(response).encode()), *parser.close()]

    assert len(events) > 3
    assert not any(b"sk-river" in encode(event) for event in events)


def test_reason_with_half_a_character_can_be_stored() -> None:
    response = '{"status": "incomplete", "incomplete_details": {"reason": "\\ud83c"}, "output": []}'
    parser = RESPONSES.parser(model="m", options={})
    state = Fold()

    state.extend(parser.feed_body(response.encode()))
    end = finish(parser, state)[-1]

    assert b'"reason":"\xef\xbf\xbd"' in encode(end)
