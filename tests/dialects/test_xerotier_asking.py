"""Requests to Xerotier: research, modes, and answers that go on after a question."""

import json
from collections.abc import Mapping

import pytest

from chat import dialects
from chat.dialects.base import AssistantTurn, Prompt, Reply, Turn, UserTurn
from chat.dialects.errors import read_error
from chat.dialects.history import NO_ANSWER
from chat.dialects.xerotier_turns import DECLINED, NOT_ANSWERED, NOT_RUN
from chat.events import (
    ErrorInfo,
    Extension,
    JsonObject,
    MessageItem,
    OutputItem,
    ProviderInfo,
    Result,
    Stats,
    Stop,
    ToolCallItem,
)

XEROTIER = dialects.get("xerotier")
HELLO, MORE = UserTurn(text="Hello"), UserTurn(text="More?")
CALL: JsonObject = {
    "id": "c1",
    "type": "function",
    "function": {"name": "x_ask_user", "arguments": '{"question": "Which?"}'},
}
SEARCH: JsonObject = {
    "id": "c0",
    "type": "function",
    "function": {"name": "x_web_search", "arguments": "{}"},
}
ASK: JsonObject = {"ask_id": "ask_1", "question": "Which?", "call_id": "c1"}
ASK_AGAIN: JsonObject = {"ask_id": "ask_2", "question": "When?", "call_id": "c2"}
REPLY = Reply(ask_id="ask_1", call_id="c1", text="The old weir", selected=("old",))


def body_of(
    *turns: Turn, options: Mapping[str, object] | None = None, **chosen: object
) -> JsonObject:
    prompt = Prompt(model="m", turns=turns or (HELLO,), parameters=chosen, options=options or {})
    body = json.loads(XEROTIER.request(prompt).body)
    assert isinstance(body, dict)
    return body


def notes_of(options: Mapping[str, object] | None = None, **chosen: object) -> tuple[str, ...]:
    return XEROTIER.request(
        Prompt(model="m", turns=(HELLO,), parameters=chosen, options=options or {})
    ).notes


def asked(
    *replies: Reply,
    asks: list[JsonObject] | None = None,
    state: JsonObject | None = None,
    output: tuple[OutputItem, ...] = (MessageItem(content="So far."),),
    is_native: bool = True,
) -> AssistantTurn:
    native: JsonObject = {"role": "assistant", "content": "So far."}
    if state is not None:
        native["pending_state"] = state
    ext = Extension(
        status="waiting",
        stop=Stop(reason="ask"),
        native=native,
        asks=[ASK] if asks is None else asks,
    )
    result = Result(model_instance_id="m", output=list(output), stats=Stats(), ext=ext)
    return AssistantTurn(result=result, is_native=is_native, replies=replies)


def pending(*calls: JsonObject, content: str = "So far, and:") -> JsonObject:
    return {"assistantContent": content, "toolCalls": list(calls)}


def contents(messages: list[JsonObject]) -> list[JsonObject]:
    return [json.loads(message["content"]) for message in messages]


# --- going on after a question -----------------------------------------------------------


def test_reply_is_the_result_of_the_call_that_asked() -> None:
    messages = body_of(HELLO, asked(REPLY, state=pending(CALL)))["messages"]

    assert messages[1] == {"role": "assistant", "content": "So far, and:", "tool_calls": [CALL]}
    assert (messages[2]["role"], messages[2]["tool_call_id"]) == ("tool", "c1")
    assert json.loads(messages[2]["content"]) == {
        "askUserId": "ask_1",
        "answer": "The old weir",
        "selected": ["old"],
        "fields": {},
    }
    assert len(messages) == 3


def test_every_other_call_is_answered_too() -> None:
    messages = body_of(HELLO, asked(REPLY, state=pending(SEARCH, CALL)))["messages"]

    assert [call["id"] for call in messages[1]["tool_calls"]] == ["c0", "c1"]
    assert [(m["role"], m["tool_call_id"]) for m in messages[2:]] == [
        ("tool", "c0"),
        ("tool", "c1"),
    ]
    assert messages[2]["content"] == NOT_RUN


def test_call_that_a_person_ran_meanwhile_has_its_result() -> None:
    ran = ToolCallItem(
        tool="read_gauge",
        arguments={},
        output="2.31",
        call_id="c5",
        provider_info=ProviderInfo(type="function"),
    )
    own = {**CALL, "id": "c5", "function": {"name": "read_gauge", "arguments": "{}"}}
    later = UserTurn(text="Thanks")

    messages = body_of(HELLO, asked(REPLY, state=pending(own, CALL), output=(ran,)), later)[
        "messages"
    ]

    assert [m["content"] for m in messages if m.get("tool_call_id") == "c5"] == ["2.31"]


def test_two_questions_bring_both_replies() -> None:
    second = {**CALL, "id": "c2"}
    replies = (REPLY, Reply(ask_id="ask_2", fields={"day": "Saturday"}))

    messages = body_of(HELLO, asked(*replies, asks=[ASK, ASK_AGAIN], state=pending(CALL, second)))[
        "messages"
    ]

    assert [content["askUserId"] for content in contents(messages[2:])] == ["ask_1", "ask_2"]
    assert contents(messages[3:])[0]["fields"] == {"day": "Saturday"}


def test_question_that_nobody_answered_is_answered_with_that() -> None:
    second = {**CALL, "id": "c2"}

    messages = body_of(HELLO, asked(REPLY, asks=[ASK, ASK_AGAIN], state=pending(CALL, second)))

    assert contents(messages["messages"][3:])[0]["answer"] == NOT_ANSWERED


def test_declining_is_told() -> None:
    reply = Reply(ask_id="ask_1", is_declined=True)

    (content,) = contents(body_of(HELLO, asked(reply, state=pending(CALL)))["messages"][2:])

    assert (content["answer"], content["declined"]) == (DECLINED, True)


def test_chosen_options_are_the_answer_where_nothing_was_written() -> None:
    reply = Reply(ask_id="ask_1", selected=("Saturday", "Sunday"))

    (content,) = contents(body_of(HELLO, asked(reply, state=pending(CALL)))["messages"][2:])

    assert content["answer"] == "Saturday, Sunday"


@pytest.mark.parametrize(
    ("ask", "identity"),
    [(ASK, "c1"), ({**ASK, "call_id": None}, "ask_1"), ({"ask_id": "ask_1"}, "ask_1")],
)
def test_question_without_a_pending_state_makes_its_own_call(
    ask: JsonObject, identity: str
) -> None:
    messages = body_of(HELLO, asked(REPLY, asks=[ask]))["messages"]

    (call,) = messages[1]["tool_calls"]
    assert (messages[1]["content"], call["id"], call["function"]["name"]) == (
        *("So far.", identity),
        "x_ask_user",
    )
    assert messages[2]["tool_call_id"] == identity


@pytest.mark.parametrize("name", ["ask_user", "x_ask_user"])
def test_question_that_names_no_call_belongs_to_the_one_that_asks(name: str) -> None:
    call = {**CALL, "id": "c9", "function": {"name": name, "arguments": "{}"}}
    ask = {**ASK, "call_id": None}

    messages = body_of(HELLO, asked(REPLY, asks=[ask], state=pending(SEARCH, call)))["messages"]

    assert [m["tool_call_id"] for m in messages[2:]] == ["c0", "c9"]
    assert contents(messages[3:])[0]["askUserId"] == "ask_1"


def test_answer_that_went_on_is_followed_by_the_rest() -> None:
    ext = Extension(status="completed", stop=Stop(reason="stop"))
    rest = AssistantTurn(
        is_native=True,
        result=Result(
            model_instance_id="m",
            stats=Stats(),
            ext=ext,
            output=[MessageItem(content="Then the old weir.")],
        ),
    )

    messages = body_of(HELLO, asked(REPLY, state=pending(CALL)), rest, MORE)["messages"]

    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant", "user"]


def test_conversation_that_went_on_without_a_reply_keeps_the_question_as_text() -> None:
    messages = body_of(HELLO, asked(state=pending(CALL)), MORE)["messages"]

    assert messages[1] == {"role": "assistant", "content": "So far.\n\nWhich?"}
    assert messages[2] == {"role": "user", "content": "More?"}


@pytest.mark.parametrize("is_native", [True, False])
def test_reply_as_a_message_of_the_person(is_native: bool) -> None:
    turn = asked(REPLY, state=pending(CALL), is_native=is_native)

    messages = body_of(HELLO, turn, options={"resume_style": "user_message"})["messages"]

    assert [m["role"] for m in messages] == ["user", "assistant", "user"]
    assert messages[1]["content"] == "So far.\n\nWhich?"
    assert "The old weir" in messages[2]["content"]


def test_another_server_is_told_in_words() -> None:
    messages = body_of(HELLO, asked(REPLY, state=pending(CALL), is_native=False), MORE)["messages"]

    assert [m["role"] for m in messages] == ["user", "assistant", "user"]
    assert "tool_calls" not in messages[1]
    assert "The old weir" in messages[2]["content"]


@pytest.mark.parametrize("asks", [[], [ASK]])
def test_pending_state_itself_never_goes_back(asks: list[JsonObject]) -> None:
    turn = asked(asks=asks, state=pending(CALL))

    body = json.dumps(body_of(HELLO, turn, MORE))

    assert "pending_state" not in body
    assert "assistantContent" not in body


def test_answer_that_only_asked_is_not_sent_as_nothing() -> None:
    turn = asked(asks=[{"ask_id": "a"}], output=())
    turn.result.ext.native = None

    assert body_of(HELLO, turn, MORE)["messages"][1]["content"] == NO_ANSWER


@pytest.mark.parametrize(
    ("replies", "expected"),
    [((REPLY,), "ask_1"), ((REPLY, Reply(ask_id="ask_2")), ["ask_1", "ask_2"])],
)
def test_question_is_named_where_the_server_wants_it(
    replies: tuple[Reply, ...], expected: object
) -> None:
    turn = asked(*replies, asks=[ASK, ASK_AGAIN], state=pending(CALL))
    options = {"ask_id_member": "ask_user_id"}

    assert body_of(HELLO, turn, options=options)["ask_user_id"] == expected
    assert "ask_user_id" not in body_of(HELLO, turn, MORE, options=options)
    assert "ask_user_id" not in body_of(HELLO, turn)


REFUSED = ErrorInfo(status=400, message="Unexpected tool message", param="messages")


def test_reply_that_is_refused_as_a_result_goes_back_as_a_message() -> None:
    prompt = Prompt(model="m", turns=(HELLO, asked(REPLY, state=pending(CALL))))

    mended = XEROTIER.after_refusal(prompt, REFUSED)

    assert mended
    messages = json.loads(XEROTIER.request(mended).body)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert XEROTIER.after_refusal(mended, REFUSED) is None


@pytest.mark.parametrize(
    ("turns", "error"),
    [
        ((HELLO,), REFUSED),
        ((HELLO, asked(REPLY), MORE), REFUSED),
        ((HELLO, asked(REPLY)), ErrorInfo(status=400, message="Bad temperature")),
        ((HELLO, asked(REPLY)), ErrorInfo(status=503, message="No tool today")),
    ],
)
def test_other_refusals_are_not_mended(turns: tuple[Turn, ...], error: ErrorInfo) -> None:
    assert XEROTIER.after_refusal(Prompt(model="m", turns=turns), error) is None


# --- research and modes ---------------------------------------------------------------------


def test_research_tools_are_asked_for() -> None:
    body = body_of(
        x_web_search=True,
        x_calculator=True,
        x_fetch_url=False,
        search_context_size="high",
        temperature=0.5,
    )

    assert body["web_search_options"] == {
        "search_context_size": "high",
        "x_tools": ["x_web_search", "x_calculator"],
    }
    assert body["temperature"] == 0.5
    assert "x_web_search" not in body


def test_nothing_is_asked_for_that_nobody_chose() -> None:
    assert set(body_of()) == {"model", "messages", "stream", "stream_options"}


def test_mode_is_merged_into_the_request() -> None:
    modes = {"deep": {"deep_think": {"rounds": 2}, "stream_options": None, "temperature": 1}}

    body = body_of(options={"modes": modes}, mode="deep", temperature=0.2)

    assert body["deep_think"] == {"rounds": 2}
    assert body["temperature"] == 1
    assert "stream_options" not in body
    assert "mode" not in body


def test_mode_reaches_into_what_the_person_chose() -> None:
    modes = {"wide": {"web_search_options": {"x_tools": ["web_search"], "depth": 3}}}

    body = body_of(
        options={"modes": modes}, mode="wide", x_web_search=True, search_context_size="low"
    )

    assert body["web_search_options"] == {
        "search_context_size": "low",
        "x_tools": ["web_search"],
        "depth": 3,
    }


@pytest.mark.parametrize("modes", [None, {}, {"deep": "yes"}, {"other": {}}, []])
def test_unknown_mode_is_left_out_and_the_person_is_told(modes: object) -> None:
    options = {} if modes is None else {"modes": modes}

    assert "mode" not in body_of(options=options, mode="deep")
    assert any("deep" in note for note in notes_of(options, mode="deep"))


def test_no_mode_is_shipped() -> None:
    assert next(o for o in XEROTIER.options if o.name == "modes").default is None


def test_model_is_never_empty() -> None:
    assert json.loads(XEROTIER.request(Prompt(model="", turns=(HELLO,))).body)["model"]


# --- errors before the stream ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_request", "bad_request"),
        (400, "json_parse_error", "bad_request"),
        (401, "authentication_error", "auth"),
        (404, "model_not_found", "not_found"),
        (404, "project_not_found", "not_found"),
        (404, "endpoint_not_found", "not_found"),
        (404, "completion_not_found", "not_found"),
        (404, "response_not_found", "not_found"),
        (429, "capacity_exceeded", "rate_limit"),
        (429, "quota_exceeded", "quota"),
        (503, "endpoint_inactive", "overloaded"),
    ],
)
def test_code_says_what_kind_of_error_it_is(status: int, code: str, kind: str) -> None:
    error = {"message": "No.", "type": "rate_limit_error" if status == 429 else "x", "code": code}

    info = read_error(status, {}, json.dumps({"error": error}).encode())

    assert (info.kind, info.code, info.status) == (kind, code, status)


@pytest.mark.parametrize(
    ("members", "headers", "seconds"),
    [
        ({"retry_after": 7}, {}, 7.0),
        ({"retry_strategy": {"type": "exponential", "initial_delay_ms": 1500}}, {}, 1.5),
        ({"retry_after": 7, "retry_strategy": {"initial_delay_ms": 1500}}, {}, 7.0),
        ({"retry_after": 7}, {"Retry-After": "9"}, 9.0),
    ],
)
def test_pause_before_the_next_attempt_is_read(
    members: JsonObject, headers: dict[str, str], seconds: float
) -> None:
    error = {"message": "Busy.", "code": "capacity_exceeded", **members}

    info = read_error(429, headers, json.dumps({"error": error}).encode())

    assert info.retry_after_seconds == seconds
    assert info.retryable
