"""Requests of the Messages dialect: bodies, headers, history, and retries after a refusal."""

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat import dialects
from chat.dialects.anthropic_messages import history
from chat.dialects.anthropic_messages import request as anthropic_request
from chat.dialects.anthropic_messages.dialect import SIGNATURES_LEFT_OUT
from chat.dialects.base import (
    PARTS_LEFT_OUT,
    AssistantTurn,
    Image,
    Reply,
    ToolDefinition,
    Turn,
    UserTurn,
)
from chat.dialects.history import NO_ANSWER
from chat.events import (
    ErrorInfo,
    Json,
    JsonObject,
    MessageItem,
    OutputItem,
    ProviderInfo,
    ReasoningItem,
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

MESSAGES = dialects.get("anthropic_messages")
BUILTIN = ProviderInfo(type="builtin", name="web_search")
TIDE = ToolDefinition(name="tide", description="Reads the tide.", schema={"properties": {}})
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "aGlk"}
SAYS = {"type": "text", "text": "Hi."}
USE = {"type": "tool_use", "id": "c1", "name": "tide", "input": {"n": 1}}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}


sent = partial(body_and_notes, MESSAGES)


def messages_of(*turns: Turn, **members: object) -> list[JsonObject]:
    messages: list[JsonObject] = sent(*turns, **members)[0]["messages"]
    return messages


def answer(
    *items: OutputItem, native: list[JsonObject] | None = None, **members: object
) -> AssistantTurn:
    content = {"role": "assistant", "content": native} if native is not None else None
    return make_answer(*items, native=content, **members)


def text(words: str) -> JsonObject:
    return {"type": "text", "text": words}


def result_of(identity: str, content: str, **members: Json) -> JsonObject:
    return {"type": "tool_result", "tool_use_id": identity, "content": content, **members}


# --- the body ----------------------------------------------------------------------------


def test_first_turn_body() -> None:
    request = MESSAGES.request(make_prompt(system="Be brief."))

    assert request.path == "/messages"
    assert request.notes == ()
    assert body_of(request) == {
        "model": "m",
        "max_tokens": anthropic_request.DEFAULT_MAX_TOKENS,
        "messages": [{"role": "user", "content": [text("Hello")]}],
        "stream": True,
        "system": "Be brief.",
    }


def test_images_precede_text() -> None:
    (message,) = messages_of(UserTurn.of("What is it?", PICTURE))

    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    assert message["content"] == [{"type": "image", "source": source}, text("What is it?")]


def test_unsupported_image_type_is_left_out() -> None:
    turn = UserTurn.of("", Image(media_type="image/bmp", data="aGk="))

    body, notes = sent(turn)

    assert body["messages"][0]["content"] == [text(history.NO_TEXT)]
    assert notes == (history.PICTURE_LEFT_OUT.format("image/bmp"),)


def test_parameters_keep_their_names() -> None:
    limits = {"max_tokens": "900", "stop_sequences": "END\n\nSTOP", "effort": "low"}
    sampling = {"temperature": 0.5, "top_p": "0.9", "top_k": 40}

    body, _ = sent(parameters={**limits, **sampling})

    assert body["max_tokens"] == 900
    assert (body["temperature"], body["top_p"], body["top_k"]) == (0.5, 0.9, 40)
    assert body["output_config"] == {"effort": "low"}
    assert body["stop_sequences"] == ["END", "STOP"]


def test_values_out_of_bounds_are_clamped(subtests: pytest.Subtests) -> None:
    bounded = [("temperature", 2, 1), ("max_tokens", 0, 1), ("top_k", -3, 0), ("top_p", 9, 1)]
    for name, value, expected in bounded:
        with subtests.test(name):
            body, notes = sent(parameters={name: value})

            assert body[name] == expected
            assert len(notes) == 1


# --- thinking ----------------------------------------------------------------------------


def thinking_of(**parameters: object) -> JsonObject:
    body, _ = sent(parameters=parameters)
    return {"thinking": body.get("thinking"), "max_tokens": body["max_tokens"]}


def test_default_thinking_budget_is_below_max_tokens() -> None:
    budget = anthropic_request.DEFAULT_THINKING_TOKENS

    assert thinking_of(thinking="enabled") == {
        "thinking": {"type": "enabled", "budget_tokens": budget},
        "max_tokens": budget + anthropic_request.DEFAULT_MAX_TOKENS,
    }


def test_default_max_tokens_grows_with_the_budget() -> None:
    found = thinking_of(thinking="enabled", thinking_budget=30_000)

    assert found["thinking"]["budget_tokens"] == 30_000
    assert found["max_tokens"] > 30_000


def test_budget_is_lowered_below_chosen_max_tokens() -> None:
    chosen = {"thinking": "enabled", "thinking_budget": 9000, "max_tokens": 2000}

    body, notes = sent(parameters=chosen)

    assert (body["thinking"]["budget_tokens"], body["max_tokens"]) == (1999, 2000)
    assert notes == (anthropic_request.BUDGET_LOWERED.format(1999),)


def test_small_max_tokens_disables_thinking() -> None:
    body, notes = sent(parameters={"thinking": "enabled", "max_tokens": 1024})

    assert "thinking" not in body
    assert notes == (anthropic_request.NO_ROOM_TO_THINK,)


def test_budget_is_sent_only_with_enabled_thinking(subtests: pytest.Subtests) -> None:
    for kind in ("adaptive", "disabled"):
        with subtests.test(kind):
            assert thinking_of(thinking=kind, thinking_budget=2000)["thinking"] == {"type": kind}


def test_thinking_display_can_be_omitted() -> None:
    found = thinking_of(thinking="adaptive", thinking_display="omitted")

    assert found["thinking"] == {"type": "adaptive", "display": "omitted"}


def test_parameters_unknown_to_fireworks_are_left_out(subtests: pytest.Subtests) -> None:
    for name, value, member in [
        ("thinking", "adaptive", "thinking"),
        ("effort", "xhigh", "output_config"),
    ]:
        with subtests.test(name):
            body, notes = sent(parameters={name: value}, options={"server": "fireworks"})

            assert member not in body
            assert len(notes) == 1


def test_anthropic_thinking_drops_sampling_parameters() -> None:
    chosen = {"thinking": "adaptive", "temperature": 0.2, "top_k": 3, "top_p": 0.5}

    body, notes = sent(parameters=chosen, options={"server": "anthropic"})

    assert not {"temperature", "top_k", "top_p"} & set(body)
    assert len(notes) == 3


# --- what the list says of the model -------------------------------------------------------

YES, NO = {"supported": True}, {"supported": False}


def capable(**capabilities: JsonObject) -> JsonObject:
    return {"capabilities": capabilities}


def test_thinking_type_follows_model_capabilities(subtests: pytest.Subtests) -> None:
    for adaptive, enabled, wish, expected in [
        (YES, NO, "enabled", "adaptive"),
        (NO, YES, "adaptive", "enabled"),
        (NO, NO, "enabled", None),
    ]:
        with subtests.test(adaptive=adaptive, enabled=enabled, wish=wish):
            types = {"adaptive": adaptive, "enabled": enabled}
            detail = capable(thinking={"supported": True, "types": types})

            body, notes = sent(parameters={"thinking": wish}, model_detail=detail)

            assert body.get("thinking", {}).get("type") == expected
            assert len(notes) == 1


def test_unsupported_effort_is_left_out(subtests: pytest.Subtests) -> None:
    for effort in (NO, {"supported": True, "xhigh": NO}):
        with subtests.test(effort=effort):
            body, notes = sent(parameters={"effort": "xhigh"}, model_detail=capable(effort=effort))

            assert "output_config" not in body
            assert notes == (anthropic_request.NOT_TAKEN.format("effort", " (xhigh)"),)


def test_images_are_left_out_for_text_only_models() -> None:
    turn = UserTurn.of("Look.", PICTURE, PICTURE)

    body, notes = sent(turn, model_detail=capable(image_input=NO))

    assert body["messages"][0]["content"] == [text("Look.")]
    assert notes == (PARTS_LEFT_OUT[Image],)


def test_max_tokens_is_capped_by_the_model(subtests: pytest.Subtests) -> None:
    for chosen, expected, count in [(None, 4096, 0), (9000, 4096, 1), (50, 50, 0)]:
        with subtests.test(chosen=chosen):
            detail = {"max_tokens": 4096}

            body, notes = sent(parameters={"max_tokens": chosen}, model_detail=detail)

            assert body["max_tokens"] == expected
            assert len(notes) == count


def test_budget_is_capped_by_the_model() -> None:
    chosen = {"thinking": "enabled", "thinking_budget": 50_000}

    body, _ = sent(parameters=chosen, model_detail={"max_tokens": 32_000})

    assert (body["max_tokens"], body["thinking"]["budget_tokens"]) == (32_000, 31_999)


# --- tools --------------------------------------------------------------------------------


def test_tools_have_their_schema() -> None:
    body, _ = sent(tools=(TIDE,))

    schema = {"type": "object", "properties": {}}
    assert body["tools"] == [
        {"name": "tide", "description": "Reads the tide.", "input_schema": schema}
    ]
    assert "tool_choice" not in body


SEQUENTIAL = {"disable_parallel_tool_use": True}
TOOL_CHOICES = [
    ({"tool_choice": "any"}, {"type": "any"}),
    ({"tool_choice": "none"}, {"type": "none"}),
    ({"tool_name": "tide"}, {"type": "tool", "name": "tide"}),
    ({"tool_name": "ebb"}, None),
    ({"parallel_tools": False}, {"type": "auto", **SEQUENTIAL}),
    ({"parallel_tools": "off", "tool_choice": "any"}, {"type": "any", **SEQUENTIAL}),
    ({"tool_choice": "any", "thinking": "adaptive"}, None),
]


def test_tool_choice(subtests: pytest.Subtests) -> None:
    for parameters, choice in TOOL_CHOICES:
        with subtests.test(parameters=parameters):
            body, _ = sent(tools=(TIDE,), parameters=parameters)

            assert body.get("tool_choice") == choice


def test_dropped_parameters_are_noted(subtests: pytest.Subtests) -> None:
    not_taken = anthropic_request.NOT_TAKEN.format("tool_choice", " together with thinking")
    stops = "\n".join("abcdefghijklmnopqr")
    for parameters, note in [
        ({"tool_name": "ebb"}, anthropic_request.NO_SUCH_TOOL.format("ebb")),
        ({"tool_choice": "any", "thinking": "adaptive"}, not_taken),
        ({"stop_sequences": stops}, anthropic_request.STOPS_LEFT_OUT.format(16)),
    ]:
        with subtests.test(parameters=parameters):
            assert sent(tools=(TIDE,), parameters=parameters)[1] == (note,)


def test_tool_choice_is_not_sent_without_tools() -> None:
    assert "tool_choice" not in sent(parameters={"tool_choice": "any"})[0]


def test_tools_of_earlier_calls_are_declared_but_disabled() -> None:
    body, _ = sent(HELLO, answer(make_call("2 m"), native=[USE]), MORE)

    assert body["tools"] == [{"name": "tide", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "none"}


def test_options_add_server_tools_and_mcp_servers() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    server = {"type": "url", "url": "https://mcp.example.org", "authorization_token": "t0psecret"}
    options = {"server_tools": json.dumps([search]), "mcp_servers": [server]}

    body, _ = sent(tools=(TIDE,), options=options)

    assert [tool["name"] for tool in body["tools"]] == ["tide", "web_search"]
    assert body["mcp_servers"] == [server]


def test_options_add_caching_and_metadata() -> None:
    body, _ = sent(options={"cache": True, "metadata": {"user_id": "team-7"}})

    assert body["cache_control"] == {"type": "ephemeral"}
    assert body["metadata"] == {"user_id": "team-7"}


# --- headers ------------------------------------------------------------------------------


KEY_HEADERS = [
    ("k", {}, {"Authorization": "Bearer k"}),
    ("sk-ant-1", {}, {"x-api-key": "sk-ant-1"}),
    ("k", {"server": "anthropic"}, {"x-api-key": "k"}),
    ("k", {"server": "friendli"}, {"Authorization": "Bearer k"}),
    ("k", {"auth": "x-api-key"}, {"x-api-key": "k"}),
    ("sk-ant-1", {"auth": "bearer"}, {"Authorization": "Bearer sk-ant-1"}),
]


def test_key_header_fits_the_server(subtests: pytest.Subtests) -> None:
    for key, options, credential in KEY_HEADERS:
        with subtests.test(key=key, options=options):
            assert MESSAGES.headers(key, options) == {
                "anthropic-version": "2023-06-01",
                **credential,
            }


def test_options_add_headers() -> None:
    options = {"beta": "mcp-client-2025-11-20, compact", "friendli_team": " t1 "}

    assert MESSAGES.headers("", options) == {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "mcp-client-2025-11-20, compact",
        "X-Friendli-Team": "t1",
    }


# --- answers of the same upstream -----------------------------------------------------------


def test_t27_native_answer_is_sent_back_unchanged() -> None:
    cited = {**SAYS, "citations": [{"type": "web_search_result_location", "encrypted_index": "x"}]}
    native = [THOUGHT, HIDDEN, SEARCH, FOUND, cited, {"type": "weather", "wind": 3}]

    messages = messages_of(HELLO, answer(SAID, native=native), MORE)

    assert messages == [
        {"role": "user", "content": [text("Hello")]},
        {"role": "assistant", "content": native},
        {"role": "user", "content": [text("More?")]},
    ]


def test_tool_result_follows_its_call() -> None:
    turn = answer(make_call("2 m"), native=[THOUGHT, USE], status="waiting")

    messages = messages_of(HELLO, turn, tools=(TIDE,))

    assert messages[1:] == [
        {"role": "assistant", "content": [THOUGHT, USE]},
        {"role": "user", "content": [result_of("c1", "2 m")]},
    ]


def test_t30_tool_results_share_one_message_and_come_first() -> None:
    second = {**USE, "id": "c2"}
    items = [make_call("2 m"), make_call("3 m", call_id="c2", status="failed")]

    messages = messages_of(HELLO, answer(*items, native=[USE, second]), MORE)

    assert messages[2]["content"] == [
        result_of("c1", "2 m"),
        result_of("c2", "3 m", is_error=True),
        text("More?"),
    ]


def test_t29_call_without_result_is_removed() -> None:
    second = {**USE, "id": "c2"}
    items = [make_call("2 m"), make_call(None, call_id="c2")]

    messages = messages_of(HELLO, answer(*items, native=[SAYS, USE, second]), MORE)

    assert messages[1]["content"] == [SAYS, USE]
    assert messages[2]["content"] == [result_of("c1", "2 m"), text("More?")]


def test_empty_tool_result_has_no_content() -> None:
    messages = messages_of(HELLO, answer(make_call(""), native=[USE]))

    assert messages[2]["content"] == [{"type": "tool_result", "tool_use_id": "c1"}]


def test_t31_answer_without_text_gets_a_placeholder(subtests: pytest.Subtests) -> None:
    for native in [[THOUGHT], [THOUGHT, HIDDEN], [THOUGHT, USE], [USE]]:
        with subtests.test(native=native):
            messages = messages_of(HELLO, answer(make_call(None), native=native), MORE)

            assert messages[1] == {"role": "assistant", "content": [text(NO_ANSWER)]}


def test_incomplete_server_search_is_removed(subtests: pytest.Subtests) -> None:
    for label, turn in {
        "without result": answer(native=[SAYS, SEARCH], reason="pause"),
        "without its search": answer(native=[FOUND, SAYS]),
    }.items():
        with subtests.test(label):
            assert messages_of(HELLO, turn, MORE)[1]["content"] == [SAYS]


def test_paused_answer_is_sent_back_unchanged() -> None:
    paused = answer(native=[THOUGHT, SEARCH], reason="pause", meta={"container": {"id": "box"}})

    body, _ = sent(HELLO, paused)

    assert body["messages"][1:] == [{"role": "assistant", "content": [THOUGHT, SEARCH]}]
    assert body["container"] == "box"


def test_runs_of_one_answer_are_one_message() -> None:
    first = answer(native=[SAYS, SEARCH], reason="pause")
    second = answer(native=[FOUND, text("There.")])

    messages = messages_of(HELLO, first, second, MORE)

    assert messages[1] == {"role": "assistant", "content": [SAYS, SEARCH, FOUND, text("There.")]}
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]


def test_runs_with_tool_results_alternate_roles() -> None:
    first = answer(make_call("2 m"), native=[THOUGHT, USE])
    second = answer(SAID, native=[SAYS])

    messages = messages_of(HELLO, first, second, MORE)

    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert messages[2]["content"] == [result_of("c1", "2 m")]
    assert messages[3]["content"] == [SAYS]


def test_refused_answer_is_left_out() -> None:
    refused = answer(SAID, native=[SAYS], reason="refusal", raw="refusal", status="incomplete")

    body, notes = sent(HELLO, refused, MORE)

    assert body["messages"] == [{"role": "user", "content": [text("Hello"), text("More?")]}]
    assert notes == (history.REFUSED_LEFT_OUT,)


def test_block_types_fit_the_server(subtests: pytest.Subtests) -> None:
    for server, kept in [
        ("other", [THOUGHT, HIDDEN, SEARCH, FOUND, SAYS]),
        ("anthropic", [THOUGHT, HIDDEN, SEARCH, FOUND, SAYS]),
        ("fireworks", [THOUGHT, HIDDEN, SAYS]),
        ("friendli", [THOUGHT, SAYS]),
    ]:
        with subtests.test(server=server):
            turn = answer(SAID, native=[THOUGHT, HIDDEN, SEARCH, FOUND, SAYS])

            messages = messages_of(HELLO, turn, MORE, options={"server": server})

            assert messages[1]["content"] == kept


def test_continued_answer_ends_with_a_user_message() -> None:
    messages = messages_of(HELLO, answer(make_call(None), SAID, native=[SAYS, USE]))

    assert messages[-1] == {"role": "user", "content": [text(history.GO_ON)]}


# --- answers of another upstream --------------------------------------------------------------


def test_t28_foreign_answer_keeps_calls_without_thinking() -> None:
    items = [
        ReasoningItem(content="Secret."),
        MessageItem(content="Looking."),
        make_call("2 m", call_id="functions.tide:0"),
        MessageItem(content="It rises."),
    ]
    native = [THOUGHT, SAYS, USE]

    messages = messages_of(HELLO, answer(*items, native=native, is_native=False), MORE)

    use = {**USE, "id": "functions_tide_0"}
    assert messages[1:] == [
        {"role": "assistant", "content": [text("Looking."), use]},
        {"role": "user", "content": [result_of("functions_tide_0", "2 m")]},
        {"role": "assistant", "content": [text("It rises.")]},
        {"role": "user", "content": [text("More?")]},
    ]


def test_foreign_tool_result_becomes_text() -> None:
    found = make_call("Herons.", provider_info=BUILTIN, tool="web_search", call_id="s1")

    messages = messages_of(HELLO, answer(found, SAID, is_native=False), MORE)

    assert messages[1]["content"] == [text("[Result of web_search: Herons.]"), text("Hi.")]


def test_foreign_result_after_a_pause_becomes_text() -> None:
    asked = make_call(None, provider_info=BUILTIN, tool="web_search", call_id="s1")
    found = make_call("Herons.", provider_info=BUILTIN, tool="web_search", call_id="s1")
    turns = [answer(asked, is_native=False), answer(found, SAID, is_native=False)]

    messages = messages_of(HELLO, *turns, MORE)

    assert text("[Result of web_search: Herons.]") in messages[1]["content"]


def test_t31_foreign_reasoning_alone_gets_a_placeholder() -> None:
    foreign = answer(ReasoningItem(content="Hm."), is_native=False)

    assert messages_of(HELLO, foreign, MORE)[1]["content"] == [text(NO_ANSWER)]


def test_foreign_call_ids_are_made_unique() -> None:
    items = [
        make_call("1", call_id=None),
        make_call("2", call_id="call"),
        make_call("3", call_id="a b"),
    ]

    messages = messages_of(HELLO, answer(*items, is_native=False), MORE)

    identities = [block["id"] for block in messages[1]["content"]]
    assert identities == ["call", "call_2", "a_b"]
    assert [block["tool_use_id"] for block in messages[2]["content"][:3]] == identities


def test_reply_to_a_foreign_question_becomes_text() -> None:
    foreign = answer(SAID, is_native=False, replies=(Reply(ask_id="q", text="Blue."),))

    messages = messages_of(HELLO, foreign)

    assert "Blue." in messages[-1]["content"][0]["text"]
    assert messages[-1]["role"] == "user"


def test_thinking_is_suspended_for_a_foreign_call() -> None:
    turn = answer(make_call("2 m"), is_native=False)

    body, notes = sent(HELLO, turn, parameters={"thinking": "enabled"})

    assert "thinking" not in body
    assert notes == (anthropic_request.THINKING_SUSPENDED,)


def test_thinking_continues_in_a_native_tool_loop() -> None:
    turn = answer(make_call("2 m"), native=[THOUGHT, USE])

    body, _ = sent(HELLO, turn, parameters={"thinking": "enabled"})

    assert body["thinking"]["type"] == "enabled"


# --- after a refusal -------------------------------------------------------------------------


def refusal(message: str, status: int = 400) -> ErrorInfo:
    return ErrorInfo(type="invalid_request", message=message, status=status)


def test_refused_parameter_is_left_out() -> None:
    prompt = make_prompt(parameters={"temperature": 0.5, "top_k": 3})

    mended = MESSAGES.after_refusal(prompt, refusal("`temperature` is deprecated for this model."))

    assert mended is not None
    request = MESSAGES.request(mended)
    assert "temperature" not in body_of(request)
    assert body_of(request)["top_k"] == 3
    assert request.notes == (anthropic_request.REFUSED.format("temperature"),)
    assert MESSAGES.after_refusal(mended, refusal("`temperature` is deprecated.")) is None


def test_refused_max_tokens_is_lowered() -> None:
    prompt = make_prompt(parameters={"max_tokens": 90_000, "thinking": "enabled"})
    text_of_refusal = (
        "max_tokens: 90000 > 64000, which is the maximum allowed number of output tokens for m"
    )

    mended = MESSAGES.after_refusal(prompt, refusal(text_of_refusal))

    assert mended is not None
    body = body_of(MESSAGES.request(mended))
    assert body["max_tokens"] == 64_000
    assert body["thinking"]["budget_tokens"] < 64_000
    assert MESSAGES.after_refusal(mended, refusal(text_of_refusal)) is None


def test_refused_signature_is_left_out() -> None:
    prompt = make_prompt(HELLO, answer(SAID, native=[THOUGHT, SAYS]), MORE)
    message = "messages.1.content.0: Invalid `signature` in `thinking` block"

    mended = MESSAGES.after_refusal(prompt, refusal(message))

    assert mended is not None
    request = MESSAGES.request(mended)
    assert body_of(request)["messages"][1]["content"] == [text("Hi.")]
    assert request.notes == (SIGNATURES_LEFT_OUT,)
    assert MESSAGES.after_refusal(mended, refusal(message)) is None


def test_other_refusals_are_final(subtests: pytest.Subtests) -> None:
    for error in [
        refusal("`temperature` is deprecated", status=500),
        refusal("temperature is not the problem of messages"),
        refusal("prompt is too long"),
    ]:
        with subtests.test(error=error):
            assert MESSAGES.after_refusal(make_prompt(), error) is None


# --- the list of models ------------------------------------------------------------------------


def test_models_list_their_capabilities() -> None:
    entry = {
        "type": "model",
        "id": "acme-heron-2",
        "display_name": "Heron 2",
        "max_input_tokens": 200_000,
        "capabilities": {"image_input": {"supported": True}},
    }
    body = json.dumps({"data": [entry], "has_more": False}).encode()

    (model,) = MESSAGES.read_models(body)

    assert (model.id, model.label) == ("acme-heron-2", "Heron 2")
    assert model.detail["capabilities"]["image_input"]["supported"] is True
    assert model.detail["max_input_tokens"] == 200_000


# --- whatever the history holds ------------------------------------------------------------------

BLOCKS = st.sampled_from([THOUGHT, HIDDEN, SAYS, USE, {**USE, "id": "c2"}, SEARCH, FOUND, {}])
ITEMS = st.sampled_from(
    [
        SAID,
        ReasoningItem(content="Hm."),
        make_call("2 m"),
        make_call(None),
        make_call("3 m", call_id="c2", status="failed"),
        make_call("x", provider_info=BUILTIN),
        MessageItem(content=" "),
    ]
)
ANSWERS = st.builds(
    lambda items, native, is_native, reason: answer(
        *items, native=native, is_native=is_native, reason=reason
    ),
    st.lists(ITEMS, max_size=4),
    st.none() | st.lists(BLOCKS, max_size=5, unique_by=lambda b: (b.get("type"), b.get("id"))),
    st.booleans(),
    st.sampled_from(["stop", "pause", "tool_use"]),
)
QUESTIONS = st.sampled_from([HELLO, MORE, UserTurn.of(" ", PICTURE), UserTurn.of("")])


@given(
    turns=st.lists(ANSWERS | QUESTIONS, max_size=6), server=st.sampled_from(["other", "friendli"])
)
def test_any_conversation_is_valid_for_the_api(turns: list[Turn], server: str) -> None:
    messages = messages_of(HELLO, *turns, options={"server": server})

    sides = [message["role"] for message in messages]
    assert sides == ["user" if n % 2 == 0 else "assistant" for n in range(len(sides))]
    for message in messages:
        assert message["content"]
        assert all(block.get("text", "x").strip() for block in message["content"])
    for before, after in zip(messages, [*messages[1:], {"content": []}], strict=True):
        calls = [b["id"] for b in before["content"] if b.get("type") == "tool_use"]
        answers = [b["tool_use_id"] for b in after["content"] if b.get("type") == "tool_result"]
        assert calls == answers
        firsts = [b.get("type") == "tool_result" for b in after["content"][: len(answers)]]
        assert all(firsts)
    assert sides[-1] == "user" or turns[-1].result.ext.stop.reason == "pause"
