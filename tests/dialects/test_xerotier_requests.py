"""Requests to Xerotier: questions and replies, research tools, modes, errors."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from chat import dialects
from chat.dialects.base import AssistantTurn, Prompt, Reply, Turn, UpstreamRequest, UserTurn
from chat.dialects.errors import read_error
from chat.dialects.history import NO_ANSWER
from chat.dialects.xerotier.history import DECLINED, NOT_ANSWERED, NOT_RUN
from chat.events import ErrorInfo, JsonObject, MessageItem, OutputItem
from tests.dialects.prompts import HELLO, MORE, body_of, make_answer, make_call

XEROTIER = dialects.get("xerotier")
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


def request(
    *turns: Turn, options: Mapping[str, object] | None = None, **chosen: object
) -> UpstreamRequest:
    prompt = Prompt(model="m", turns=turns or (HELLO,), parameters=chosen, options=options or {})
    return XEROTIER.request(prompt)


def body_for(*turns: Turn, **members: Any) -> JsonObject:
    return body_of(request(*turns, **members))


def messages_for(*turns: Turn, **members: Any) -> list[JsonObject]:
    messages: list[JsonObject] = body_for(*turns, **members)["messages"]
    return messages


def asked(
    *replies: Reply,
    asks: list[JsonObject] | None = None,
    state: JsonObject | None = None,
    output: tuple[OutputItem, ...] = (MessageItem(content="So far."),),
    is_native: bool = True,
) -> AssistantTurn:
    """An answer that waits for the answer to its question, with these replies."""
    native: JsonObject = {"role": "assistant", "content": "So far."}
    if state is not None:
        native["pending_state"] = state
    return make_answer(
        *output,
        native=native,
        is_native=is_native,
        replies=replies,
        asks=[ASK] if asks is None else asks,
        status="waiting",
        reason="ask",
    )


def pending(*calls: JsonObject, content: str = "So far, and:") -> JsonObject:
    return {"assistantContent": content, "toolCalls": list(calls)}


def contents(messages: list[JsonObject]) -> list[JsonObject]:
    return [json.loads(message["content"]) for message in messages]


# --- going on after a question -----------------------------------------------------------


def test_reply_is_the_result_of_the_asking_call() -> None:
    messages = messages_for(HELLO, asked(REPLY, state=pending(CALL)))

    assert messages[1] == {"role": "assistant", "content": "So far, and:", "tool_calls": [CALL]}
    assert (messages[2]["role"], messages[2]["tool_call_id"]) == ("tool", "c1")
    assert json.loads(messages[2]["content"]) == {
        "askUserId": "ask_1",
        "answer": "The old weir",
        "selected": ["old"],
        "fields": {},
    }
    assert len(messages) == 3


def test_other_calls_are_answered_too() -> None:
    messages = messages_for(HELLO, asked(REPLY, state=pending(SEARCH, CALL)))

    assert [call["id"] for call in messages[1]["tool_calls"]] == ["c0", "c1"]
    assert [(m["role"], m["tool_call_id"]) for m in messages[2:]] == [
        ("tool", "c0"),
        ("tool", "c1"),
    ]
    assert messages[2]["content"] == NOT_RUN


def test_call_run_by_a_person_has_its_result() -> None:
    ran = make_call("2.31", tool="read_gauge", call_id="c5")
    own = {**CALL, "id": "c5", "function": {"name": "read_gauge", "arguments": "{}"}}
    later = UserTurn.of("Thanks")

    messages = messages_for(HELLO, asked(REPLY, state=pending(own, CALL), output=(ran,)), later)

    assert [m["content"] for m in messages if m.get("tool_call_id") == "c5"] == ["2.31"]


def test_two_questions_send_both_replies() -> None:
    second = {**CALL, "id": "c2"}
    replies = (REPLY, Reply(ask_id="ask_2", fields={"day": "Saturday"}))

    messages = messages_for(
        HELLO, asked(*replies, asks=[ASK, ASK_AGAIN], state=pending(CALL, second))
    )

    assert [content["askUserId"] for content in contents(messages[2:])] == ["ask_1", "ask_2"]
    assert contents(messages[3:])[0]["fields"] == {"day": "Saturday"}


def test_unanswered_question_is_marked_as_such() -> None:
    second = {**CALL, "id": "c2"}

    messages = messages_for(HELLO, asked(REPLY, asks=[ASK, ASK_AGAIN], state=pending(CALL, second)))

    assert contents(messages[3:])[0]["answer"] == NOT_ANSWERED


def test_declined_question_is_marked_as_such() -> None:
    reply = Reply(ask_id="ask_1", is_declined=True)

    (content,) = contents(messages_for(HELLO, asked(reply, state=pending(CALL)))[2:])

    assert (content["answer"], content["declined"]) == (DECLINED, True)


def test_selected_options_are_the_answer_without_text() -> None:
    reply = Reply(ask_id="ask_1", selected=("Saturday", "Sunday"))

    (content,) = contents(messages_for(HELLO, asked(reply, state=pending(CALL)))[2:])

    assert content["answer"] == "Saturday, Sunday"


WITHOUT_STATE = [(ASK, "c1"), ({**ASK, "call_id": None}, "ask_1"), ({"ask_id": "ask_1"}, "ask_1")]


def test_question_without_pending_state_gets_a_call(subtests: pytest.Subtests) -> None:
    for ask, identity in WITHOUT_STATE:
        with subtests.test(ask=ask):
            messages = messages_for(HELLO, asked(REPLY, asks=[ask]))

            (call,) = messages[1]["tool_calls"]
            assert (messages[1]["content"], call["id"], call["function"]["name"]) == (
                *("So far.", identity),
                "x_ask_user",
            )
            assert messages[2]["tool_call_id"] == identity


def test_question_without_call_id_uses_the_asking_call(subtests: pytest.Subtests) -> None:
    for name in ["ask_user", "x_ask_user"]:
        with subtests.test(name):
            call = {**CALL, "id": "c9", "function": {"name": name, "arguments": "{}"}}
            ask = {**ASK, "call_id": None}

            messages = messages_for(HELLO, asked(REPLY, asks=[ask], state=pending(SEARCH, call)))

            assert [m["tool_call_id"] for m in messages[2:]] == ["c0", "c9"]
            assert contents(messages[3:])[0]["askUserId"] == "ask_1"


def test_continued_answer_follows_the_reply() -> None:
    rest = make_answer(MessageItem(content="Then the old weir."))

    messages = messages_for(HELLO, asked(REPLY, state=pending(CALL)), rest, MORE)

    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant", "user"]


def test_unanswered_question_becomes_text() -> None:
    messages = messages_for(HELLO, asked(state=pending(CALL)), MORE)

    assert messages[1] == {"role": "assistant", "content": "So far.\n\nWhich?"}
    assert messages[2] == {"role": "user", "content": "More?"}


def test_reply_can_be_a_user_message(subtests: pytest.Subtests) -> None:
    for is_native in [True, False]:
        with subtests.test(is_native=is_native):
            turn = asked(REPLY, state=pending(CALL), is_native=is_native)

            messages = messages_for(HELLO, turn, options={"resume_style": "user_message"})

            assert [m["role"] for m in messages] == ["user", "assistant", "user"]
            assert messages[1]["content"] == "So far.\n\nWhich?"
            assert "The old weir" in messages[2]["content"]


def test_foreign_question_and_reply_become_text() -> None:
    messages = messages_for(HELLO, asked(REPLY, state=pending(CALL), is_native=False), MORE)

    assert [m["role"] for m in messages] == ["user", "assistant", "user"]
    assert "tool_calls" not in messages[1]
    assert "The old weir" in messages[2]["content"]


def test_pending_state_is_never_sent(subtests: pytest.Subtests) -> None:
    for asks in [[], [ASK]]:
        with subtests.test(asks=asks):
            turn = asked(asks=asks, state=pending(CALL))

            body = json.dumps(body_for(HELLO, turn, MORE))

            assert "pending_state" not in body
            assert "assistantContent" not in body


def test_answer_without_text_gets_a_placeholder() -> None:
    turn = asked(asks=[{"ask_id": "a"}], output=())
    turn.result.ext.native = None

    assert messages_for(HELLO, turn, MORE)[1]["content"] == NO_ANSWER


ASK_IDS = [((REPLY,), "ask_1"), ((REPLY, Reply(ask_id="ask_2")), ["ask_1", "ask_2"])]


def test_ask_id_member_names_the_question(subtests: pytest.Subtests) -> None:
    for replies, expected in ASK_IDS:
        with subtests.test(expected=expected):
            turn = asked(*replies, asks=[ASK, ASK_AGAIN], state=pending(CALL))
            options = {"ask_id_member": "ask_user_id"}

            assert body_for(HELLO, turn, options=options)["ask_user_id"] == expected
            assert "ask_user_id" not in body_for(HELLO, turn, MORE, options=options)
            assert "ask_user_id" not in body_for(HELLO, turn)


REFUSED = ErrorInfo(status=400, message="Unexpected tool message", param="messages")


def test_refused_tool_message_becomes_a_user_message() -> None:
    prompt = Prompt(model="m", turns=(HELLO, asked(REPLY, state=pending(CALL))))

    mended = XEROTIER.after_refusal(prompt, REFUSED)

    assert mended
    messages = json.loads(XEROTIER.request(mended).body)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert XEROTIER.after_refusal(mended, REFUSED) is None


OTHER_REFUSALS = [
    ((HELLO,), REFUSED),
    ((HELLO, asked(REPLY), MORE), REFUSED),
    ((HELLO, asked(REPLY)), ErrorInfo(status=400, message="Bad temperature")),
    ((HELLO, asked(REPLY)), ErrorInfo(status=503, message="No tool today")),
]


def test_other_refusals_are_final(subtests: pytest.Subtests) -> None:
    for turns, error in OTHER_REFUSALS:
        with subtests.test(error=error):
            assert XEROTIER.after_refusal(Prompt(model="m", turns=turns), error) is None


# --- research and modes ---------------------------------------------------------------------


def test_research_tools_are_requested() -> None:
    body = body_for(
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


def test_default_body_has_no_extras() -> None:
    assert set(body_for()) == {"model", "messages", "stream", "stream_options"}


def test_mode_is_merged_into_the_body() -> None:
    modes = {"deep": {"deep_think": {"rounds": 2}, "stream_options": None, "temperature": 1}}

    body = body_for(options={"modes": modes}, mode="deep", temperature=0.2)

    assert body["deep_think"] == {"rounds": 2}
    assert body["temperature"] == 1
    assert "stream_options" not in body
    assert "mode" not in body


def test_mode_is_merged_into_chosen_parameters() -> None:
    modes = {"wide": {"web_search_options": {"x_tools": ["web_search"], "depth": 3}}}

    body = body_for(
        options={"modes": modes}, mode="wide", x_web_search=True, search_context_size="low"
    )

    assert body["web_search_options"] == {
        "search_context_size": "low",
        "x_tools": ["web_search"],
        "depth": 3,
    }


def test_unknown_mode_is_left_out_and_noted(subtests: pytest.Subtests) -> None:
    for modes in [None, {}, {"deep": "yes"}, {"other": {}}, []]:
        with subtests.test(modes=modes):
            options = {} if modes is None else {"modes": modes}

            assert "mode" not in body_for(options=options, mode="deep")
            assert any("deep" in note for note in request(options=options, mode="deep").notes)


def test_no_mode_is_built_in() -> None:
    assert next(o for o in XEROTIER.options if o.name == "modes").default is None


def test_model_is_never_empty() -> None:
    assert json.loads(XEROTIER.request(Prompt(model="", turns=(HELLO,))).body)["model"]


# --- errors before the stream ------------------------------------------------------------------


ERROR_CODES = [
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
]


def test_error_codes_have_kinds(subtests: pytest.Subtests) -> None:
    for status, code, kind in ERROR_CODES:
        with subtests.test(status=status, code=code):
            error = {
                "message": "No.",
                "type": "rate_limit_error" if status == 429 else "x",
                "code": code,
            }

            info = read_error(status, {}, json.dumps({"error": error}).encode())

            assert (info.kind, info.code, info.status) == (kind, code, status)


RETRY_DELAYS = [
    ({"retry_after": 7}, {}, 7.0),
    ({"retry_strategy": {"type": "exponential", "initial_delay_ms": 1500}}, {}, 1.5),
    ({"retry_after": 7, "retry_strategy": {"initial_delay_ms": 1500}}, {}, 7.0),
    ({"retry_after": 7}, {"Retry-After": "9"}, 9.0),
]


def test_retry_delay_is_read(subtests: pytest.Subtests) -> None:
    for members, headers, seconds in RETRY_DELAYS:
        with subtests.test(members=members, headers=headers):
            error = {"message": "Busy.", "code": "capacity_exceeded", **members}

            info = read_error(429, headers, json.dumps({"error": error}).encode())

            assert info.retry_after_seconds == seconds
            assert info.retryable
