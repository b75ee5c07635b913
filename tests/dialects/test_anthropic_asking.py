"""Requests of the Messages dialect: what is sent, what is mended, and how answers go back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat import dialects
from chat.dialects import anthropic_history as history
from chat.dialects import anthropic_request as asking_for
from chat.dialects.anthropic_messages import SIGNATURES_LEFT_OUT
from chat.dialects.base import AssistantTurn, Image, Prompt, Reply, ToolDefinition, Turn, UserTurn
from chat.dialects.history import NO_ANSWER, PICTURES_LEFT_OUT
from chat.events import (
    ErrorInfo,
    Extension,
    Json,
    JsonObject,
    MessageItem,
    OutputItem,
    ProviderInfo,
    ReasoningItem,
    Result,
    Stats,
    Status,
    Stop,
    StopReason,
    ToolCallItem,
)

MESSAGES = dialects.get("anthropic_messages")
PICTURE = Image(media_type="image/png", data="aGk=")
CLIENT = ProviderInfo(type="function")
BUILTIN = ProviderInfo(type="builtin", name="web_search")
TIDE = ToolDefinition(name="tide", description="Reads the tide.", schema={"properties": {}})
HELLO = UserTurn(text="Hello")
MORE = UserTurn(text="More?")
SAID = MessageItem(content="Hi.")
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "aGlk"}
SAYS = {"type": "text", "text": "Hi."}
USE = {"type": "tool_use", "id": "c1", "name": "tide", "input": {"n": 1}}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}


def asking(*turns: Turn, **members: object) -> Prompt:
    return Prompt(model="m", turns=turns or (HELLO,), **members)


def body_of(prompt: Prompt) -> JsonObject:
    body = json.loads(MESSAGES.request(prompt).body)
    assert isinstance(body, dict)
    return body


def messages_of(*turns: Turn, **members: object) -> list[JsonObject]:
    messages: list[JsonObject] = body_of(asking(*turns, **members))["messages"]
    return messages


def answer(
    *items: OutputItem,
    native: list[JsonObject] | None = None,
    is_native: bool = True,
    reason: StopReason = "stop",
    raw: str | None = None,
    status: Status = "completed",
    meta: JsonObject | None = None,
    **members: object,
) -> AssistantTurn:
    content = {"role": "assistant", "content": native} if native is not None else None
    stop = Stop(reason=reason, raw=raw)
    ext = Extension(status=status, stop=stop, native=content, meta=meta or {})
    result = Result(model_instance_id="m", output=list(items), stats=Stats(), ext=ext)
    return AssistantTurn(result=result, is_native=is_native, **members)


def call(output: str | None = None, **members: object) -> ToolCallItem:
    given: dict[str, object] = {"call_id": "c1", "provider_info": CLIENT, "tool": "tide", **members}
    return ToolCallItem(arguments={"n": 1}, output=output, **given)


def text(words: str) -> JsonObject:
    return {"type": "text", "text": words}


def result_of(identity: str, content: str, **members: Json) -> JsonObject:
    return {"type": "tool_result", "tool_use_id": identity, "content": content, **members}


# --- the body ----------------------------------------------------------------------------


def test_first_turn() -> None:
    request = MESSAGES.request(asking(system="Be brief."))

    assert request.path == "/messages"
    assert request.notes == ()
    assert json.loads(request.body) == {
        "model": "m",
        "max_tokens": asking_for.DEFAULT_MAX_TOKENS,
        "messages": [{"role": "user", "content": [text("Hello")]}],
        "stream": True,
        "system": "Be brief.",
    }


def test_pictures_come_before_the_text() -> None:
    (message,) = messages_of(UserTurn(text="What is it?", images=(PICTURE,)))

    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    assert message["content"] == [{"type": "image", "source": source}, text("What is it?")]


def test_picture_of_another_type_is_left_out_and_noted() -> None:
    turn = UserTurn(text="", images=(Image(media_type="image/bmp", data="aGk="),))
    request = MESSAGES.request(asking(turn))

    assert json.loads(request.body)["messages"][0]["content"] == [text(history.NO_TEXT)]
    assert request.notes == (history.PICTURE_LEFT_OUT.format("image/bmp"),)


def test_parameters_are_sent_under_their_names() -> None:
    body = body_of(
        asking(
            parameters={
                "max_tokens": "900",
                "temperature": 0.5,
                "top_p": "0.9",
                "top_k": 40,
                "effort": "low",
                "stop_sequences": "END\n\nSTOP",
            }
        )
    )

    assert body["max_tokens"] == 900
    assert (body["temperature"], body["top_p"], body["top_k"]) == (0.5, 0.9, 40)
    assert body["output_config"] == {"effort": "low"}
    assert body["stop_sequences"] == ["END", "STOP"]


@pytest.mark.parametrize(
    ("name", "value", "sent"),
    [("temperature", 2, 1), ("max_tokens", 0, 1), ("top_k", -3, 0), ("top_p", 9, 1)],
)
def test_values_out_of_bounds_are_mended(name: str, value: object, sent: object) -> None:
    request = MESSAGES.request(asking(parameters={name: value}))

    assert json.loads(request.body)[name] == sent
    assert len(request.notes) == 1


# --- thinking ----------------------------------------------------------------------------


def thinking_of(options: JsonObject | None = None, **parameters: object) -> JsonObject:
    body = body_of(asking(parameters=parameters, options=options or {}))
    return {"thinking": body.get("thinking"), "max_tokens": body["max_tokens"]}


def test_thinking_has_a_budget_below_the_limit() -> None:
    budget = asking_for.DEFAULT_THINKING_TOKENS
    wire = {"type": "enabled", "budget_tokens": budget}

    found = thinking_of(thinking="enabled")

    assert found == {"thinking": wire, "max_tokens": budget + asking_for.DEFAULT_MAX_TOKENS}


def test_limit_grows_with_a_budget_where_nobody_chose_it() -> None:
    found = thinking_of(thinking="enabled", thinking_budget=30_000)

    assert found["thinking"]["budget_tokens"] == 30_000
    assert found["max_tokens"] > 30_000


def test_budget_is_lowered_below_a_chosen_limit() -> None:
    prompt = asking(parameters={"thinking": "enabled", "thinking_budget": 9000, "max_tokens": 2000})
    request = MESSAGES.request(prompt)

    body = json.loads(request.body)
    assert (body["thinking"]["budget_tokens"], body["max_tokens"]) == (1999, 2000)
    assert request.notes == (asking_for.BUDGET_LOWERED.format(1999),)


def test_limit_without_room_for_thinking_leaves_it_out() -> None:
    request = MESSAGES.request(asking(parameters={"thinking": "enabled", "max_tokens": 1024}))

    assert "thinking" not in json.loads(request.body)
    assert request.notes == (asking_for.NO_ROOM_TO_THINK,)


@pytest.mark.parametrize("kind", ["adaptive", "disabled"])
def test_budget_is_sent_with_enabled_thinking_only(kind: str) -> None:
    assert thinking_of(thinking=kind, thinking_budget=2000)["thinking"] == {"type": kind}


def test_thinking_may_be_hidden() -> None:
    found = thinking_of(thinking="adaptive", thinking_display="omitted")

    assert found["thinking"] == {"type": "adaptive", "display": "omitted"}


@pytest.mark.parametrize(
    ("parameters", "member"),
    [({"thinking": "adaptive"}, "thinking"), ({"effort": "xhigh"}, "output_config")],
)
def test_what_fireworks_does_not_take_is_left_out(parameters: JsonObject, member: str) -> None:
    request = MESSAGES.request(asking(parameters=parameters, options={"server": "fireworks"}))

    assert member not in json.loads(request.body)
    assert len(request.notes) == 1


def test_sampling_is_left_out_beside_thinking_at_anthropic() -> None:
    chosen = {"thinking": "adaptive", "temperature": 0.2, "top_k": 3, "top_p": 0.5}
    request = MESSAGES.request(asking(parameters=chosen, options={"server": "anthropic"}))

    assert not {"temperature", "top_k", "top_p"} & set(json.loads(request.body))
    assert len(request.notes) == 3


# --- what the list says of the model -------------------------------------------------------

YES, NO = {"supported": True}, {"supported": False}


def capable(**capabilities: JsonObject) -> JsonObject:
    return {"capabilities": capabilities}


@pytest.mark.parametrize(
    ("types", "wish", "sent"),
    [
        ({"adaptive": YES, "enabled": NO}, "enabled", "adaptive"),
        ({"adaptive": NO, "enabled": YES}, "adaptive", "enabled"),
        ({"adaptive": NO, "enabled": NO}, "enabled", None),
    ],
)
def test_kind_of_thinking_that_the_model_has(
    types: JsonObject, wish: str, sent: str | None
) -> None:
    detail = capable(thinking={"supported": True, "types": types})
    request = MESSAGES.request(asking(parameters={"thinking": wish}, model_detail=detail))

    assert json.loads(request.body).get("thinking", {}).get("type") == sent
    assert len(request.notes) == 1


@pytest.mark.parametrize("effort", [{"supported": False}, {"supported": True, "xhigh": NO}])
def test_effort_that_the_model_does_not_have_is_left_out(effort: JsonObject) -> None:
    prompt = asking(parameters={"effort": "xhigh"}, model_detail=capable(effort=effort))

    assert "output_config" not in body_of(prompt)
    assert MESSAGES.request(prompt).notes == (asking_for.NOT_TAKEN.format("effort", " (xhigh)"),)


def test_pictures_are_left_out_for_a_model_that_sees_none() -> None:
    turn = UserTurn(text="Look.", images=(PICTURE, PICTURE))
    prompt = asking(turn, model_detail=capable(image_input=NO))

    assert body_of(prompt)["messages"][0]["content"] == [text("Look.")]
    assert MESSAGES.request(prompt).notes == (PICTURES_LEFT_OUT,)


@pytest.mark.parametrize(
    ("chosen", "sent", "notes"), [(None, 4096, 0), (9000, 4096, 1), (50, 50, 0)]
)
def test_longest_answer_is_what_the_model_allows(chosen: int | None, sent: int, notes: int) -> None:
    prompt = asking(parameters={"max_tokens": chosen}, model_detail={"max_tokens": 4096})
    request = MESSAGES.request(prompt)

    assert json.loads(request.body)["max_tokens"] == sent
    assert len(request.notes) == notes


def test_budget_stays_below_what_the_model_allows() -> None:
    chosen = {"thinking": "enabled", "thinking_budget": 50_000}

    body = body_of(asking(parameters=chosen, model_detail={"max_tokens": 32_000}))

    assert (body["max_tokens"], body["thinking"]["budget_tokens"]) == (32_000, 31_999)


# --- tools --------------------------------------------------------------------------------


def test_tools_are_offered_with_their_schema() -> None:
    body = body_of(asking(tools=(TIDE,)))

    schema = {"type": "object", "properties": {}}
    assert body["tools"] == [
        {"name": "tide", "description": "Reads the tide.", "input_schema": schema}
    ]
    assert "tool_choice" not in body


@pytest.mark.parametrize(
    ("parameters", "choice"),
    [
        ({"tool_choice": "any"}, {"type": "any"}),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_name": "tide"}, {"type": "tool", "name": "tide"}),
        ({"tool_name": "ebb"}, None),
        ({"parallel_tools": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        (
            {"parallel_tools": "off", "tool_choice": "any"},
            {"type": "any", "disable_parallel_tool_use": True},
        ),
        ({"tool_choice": "any", "thinking": "adaptive"}, None),
    ],
)
def test_tool_choice(parameters: JsonObject, choice: object) -> None:
    body = body_of(asking(tools=(TIDE,), parameters=parameters))

    assert body.get("tool_choice") == choice


@pytest.mark.parametrize(
    ("parameters", "note"),
    [
        ({"tool_name": "ebb"}, asking_for.NO_SUCH_TOOL.format("ebb")),
        (
            {"tool_choice": "any", "thinking": "adaptive"},
            asking_for.NOT_TAKEN.format("tool_choice", " beside thinking"),
        ),
        ({"stop_sequences": "\n".join("abcdefghijklmnopqr")}, asking_for.STOPS_LEFT_OUT.format(16)),
    ],
)
def test_what_cannot_be_asked_for_is_noted(parameters: JsonObject, note: str) -> None:
    assert MESSAGES.request(asking(tools=(TIDE,), parameters=parameters)).notes == (note,)


def test_tool_choice_is_not_sent_without_tools() -> None:
    assert "tool_choice" not in body_of(asking(parameters={"tool_choice": "any"}))


def test_tools_that_were_switched_off_are_named_and_may_not_be_called() -> None:
    body = body_of(asking(HELLO, answer(call("2 m"), native=[USE]), MORE))

    assert body["tools"] == [{"name": "tide", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "none"}


def test_tools_of_the_server_and_mcp_servers_come_from_the_options() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    server = {"type": "url", "url": "https://mcp.example.org", "authorization_token": "t0psecret"}
    options = {"server_tools": json.dumps([search]), "mcp_servers": [server]}

    body = body_of(asking(tools=(TIDE,), options=options))

    assert [tool["name"] for tool in body["tools"]] == ["tide", "web_search"]
    assert body["mcp_servers"] == [server]


def test_options_for_caching_and_metadata() -> None:
    body = body_of(asking(options={"cache": True, "metadata": {"user_id": "team-7"}}))

    assert body["cache_control"] == {"type": "ephemeral"}
    assert body["metadata"] == {"user_id": "team-7"}


# --- headers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "options", "credential"),
    [
        ("k", {}, {"Authorization": "Bearer k"}),
        ("sk-ant-1", {}, {"x-api-key": "sk-ant-1"}),
        ("k", {"server": "anthropic"}, {"x-api-key": "k"}),
        ("k", {"server": "friendli"}, {"Authorization": "Bearer k"}),
        ("k", {"auth": "x-api-key"}, {"x-api-key": "k"}),
        ("sk-ant-1", {"auth": "bearer"}, {"Authorization": "Bearer sk-ant-1"}),
    ],
)
def test_key_is_sent_as_the_server_wants_it(
    key: str, options: JsonObject, credential: JsonObject
) -> None:
    assert MESSAGES.headers(key, options) == {"anthropic-version": "2023-06-01", **credential}


def test_headers_of_options() -> None:
    options = {"beta": "mcp-client-2025-11-20, compact", "friendli_team": " t1 "}

    assert MESSAGES.headers("", options) == {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "mcp-client-2025-11-20, compact",
        "X-Friendli-Team": "t1",
    }


# --- answers of the same upstream -----------------------------------------------------------


def test_t27_native_answer_goes_back_exactly_and_in_order() -> None:
    cited = {**SAYS, "citations": [{"type": "web_search_result_location", "encrypted_index": "x"}]}
    native = [THOUGHT, HIDDEN, SEARCH, FOUND, cited, {"type": "weather", "wind": 3}]

    messages = messages_of(HELLO, answer(SAID, native=native), MORE)

    assert messages == [
        {"role": "user", "content": [text("Hello")]},
        {"role": "assistant", "content": native},
        {"role": "user", "content": [text("More?")]},
    ]


def test_result_goes_back_beside_its_call_and_nothing_else() -> None:
    turn = answer(call("2 m"), native=[THOUGHT, USE], status="waiting")

    messages = messages_of(HELLO, turn, tools=(TIDE,))

    assert messages[1:] == [
        {"role": "assistant", "content": [THOUGHT, USE]},
        {"role": "user", "content": [result_of("c1", "2 m")]},
    ]


def test_t30_every_result_is_in_one_message_and_first_in_it() -> None:
    second = {**USE, "id": "c2"}
    items = [call("2 m"), call("3 m", call_id="c2", status="failed")]

    messages = messages_of(HELLO, answer(*items, native=[USE, second]), MORE)

    assert messages[2]["content"] == [
        result_of("c1", "2 m"),
        result_of("c2", "3 m", is_error=True),
        text("More?"),
    ]


def test_t29_call_without_a_result_is_cut_out() -> None:
    second = {**USE, "id": "c2"}
    items = [call("2 m"), call(None, call_id="c2")]

    messages = messages_of(HELLO, answer(*items, native=[SAYS, USE, second]), MORE)

    assert messages[1]["content"] == [SAYS, USE]
    assert messages[2]["content"] == [result_of("c1", "2 m"), text("More?")]


def test_result_without_words_has_no_content() -> None:
    messages = messages_of(HELLO, answer(call(""), native=[USE]))

    assert messages[2]["content"] == [{"type": "tool_result", "tool_use_id": "c1"}]


@pytest.mark.parametrize("native", [[THOUGHT], [THOUGHT, HIDDEN], [THOUGHT, USE], [USE]])
def test_t31_answer_without_words_gets_some(native: list[JsonObject]) -> None:
    messages = messages_of(HELLO, answer(call(None), native=native), MORE)

    assert messages[1] == {"role": "assistant", "content": [text(NO_ANSWER)]}


def test_search_of_the_server_without_a_result_is_cut_out() -> None:
    messages = messages_of(HELLO, answer(native=[SAYS, SEARCH], reason="pause"), MORE)

    assert messages[1]["content"] == [SAYS]


def test_result_of_a_search_that_did_not_go_back_is_cut_out() -> None:
    messages = messages_of(HELLO, answer(native=[FOUND, SAYS]), MORE)

    assert messages[1]["content"] == [SAYS]


def test_paused_answer_goes_back_unchanged() -> None:
    paused = answer(native=[THOUGHT, SEARCH], reason="pause", meta={"container": {"id": "box"}})
    body = body_of(asking(HELLO, paused))

    assert body["messages"][1:] == [{"role": "assistant", "content": [THOUGHT, SEARCH]}]
    assert body["container"] == "box"


def test_runs_of_one_answer_become_one_message() -> None:
    first = answer(native=[SAYS, SEARCH], reason="pause")
    second = answer(native=[FOUND, text("There.")])

    messages = messages_of(HELLO, first, second, MORE)

    assert messages[1] == {"role": "assistant", "content": [SAYS, SEARCH, FOUND, text("There.")]}
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]


def test_runs_with_results_between_them_alternate() -> None:
    first = answer(call("2 m"), native=[THOUGHT, USE])
    second = answer(SAID, native=[SAYS])

    messages = messages_of(HELLO, first, second, MORE)

    assert [message["role"] for message in messages] == [
        *("user", "assistant", "user", "assistant", "user"),
    ]
    assert messages[2]["content"] == [result_of("c1", "2 m")]
    assert messages[3]["content"] == [SAYS]


def test_refused_answer_is_left_out_and_noted() -> None:
    refused = answer(SAID, native=[SAYS], reason="refusal", raw="refusal", status="incomplete")
    request = MESSAGES.request(asking(HELLO, refused, MORE))

    assert json.loads(request.body)["messages"] == [
        {"role": "user", "content": [text("Hello"), text("More?")]}
    ]
    assert request.notes == (history.REFUSED_LEFT_OUT,)


@pytest.mark.parametrize(
    ("server", "kept"),
    [
        ("other", [THOUGHT, HIDDEN, SEARCH, FOUND, SAYS]),
        ("anthropic", [THOUGHT, HIDDEN, SEARCH, FOUND, SAYS]),
        ("fireworks", [THOUGHT, HIDDEN, SAYS]),
        ("friendli", [THOUGHT, SAYS]),
    ],
)
def test_only_blocks_that_the_server_takes_go_back(server: str, kept: list[JsonObject]) -> None:
    turn = answer(SAID, native=[THOUGHT, HIDDEN, SEARCH, FOUND, SAYS])

    messages = messages_of(HELLO, turn, MORE, options={"server": server})

    assert messages[1]["content"] == kept


def test_answer_that_only_goes_on_gets_a_word_from_us() -> None:
    messages = messages_of(HELLO, answer(call(None), SAID, native=[SAYS, USE]))

    assert messages[-1] == {"role": "user", "content": [text(history.GO_ON)]}


# --- answers of another upstream --------------------------------------------------------------


def test_t28_foreign_answer_loses_its_thinking_and_keeps_its_calls() -> None:
    items = [
        ReasoningItem(content="Secret."),
        MessageItem(content="Looking."),
        call("2 m", call_id="functions.tide:0"),
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


def test_result_of_another_server_becomes_text() -> None:
    found = call("Herons.", provider_info=BUILTIN, tool="web_search", call_id="s1")

    messages = messages_of(HELLO, answer(found, SAID, is_native=False), MORE)

    assert messages[1]["content"] == [text("[Result of web_search: Herons.]"), text("Hi.")]


def test_result_that_came_after_a_pause_becomes_text() -> None:
    asked = call(None, provider_info=BUILTIN, tool="web_search", call_id="s1")
    found = call("Herons.", provider_info=BUILTIN, tool="web_search", call_id="s1")
    turns = [answer(asked, is_native=False), answer(found, SAID, is_native=False)]

    messages = messages_of(HELLO, *turns, MORE)

    assert text("[Result of web_search: Herons.]") in messages[1]["content"]


def test_foreign_answer_of_reasoning_alone_gets_a_placeholder() -> None:
    foreign = answer(ReasoningItem(content="Hm."), is_native=False)

    assert messages_of(HELLO, foreign, MORE)[1]["content"] == [text(NO_ANSWER)]


def test_ids_of_foreign_calls_are_made_unique() -> None:
    items = [call("1", call_id=None), call("2", call_id="call"), call("3", call_id="a b")]

    messages = messages_of(HELLO, answer(*items, is_native=False), MORE)

    identities = [block["id"] for block in messages[1]["content"]]
    assert identities == ["call", "call_2", "a_b"]
    assert [block["tool_use_id"] for block in messages[2]["content"][:3]] == identities


def test_reply_to_another_servers_question_becomes_words() -> None:
    foreign = answer(SAID, is_native=False, replies=(Reply(ask_id="q", text="Blue."),))

    messages = messages_of(HELLO, foreign)

    assert "Blue." in messages[-1]["content"][0]["text"]
    assert messages[-1]["role"] == "user"


def test_thinking_waits_where_results_are_due_to_an_answer_without_it() -> None:
    prompt = asking(HELLO, answer(call("2 m"), is_native=False), parameters={"thinking": "enabled"})
    request = MESSAGES.request(prompt)

    assert "thinking" not in json.loads(request.body)
    assert request.notes == (asking_for.THINKING_SUSPENDED,)


def test_thinking_goes_on_in_a_loop_that_began_with_it() -> None:
    prompt = asking(
        HELLO, answer(call("2 m"), native=[THOUGHT, USE]), parameters={"thinking": "enabled"}
    )

    assert body_of(prompt)["thinking"]["type"] == "enabled"


# --- after a refusal -------------------------------------------------------------------------


def refusal(message: str, status: int = 400) -> ErrorInfo:
    return ErrorInfo(type="invalid_request", message=message, status=status)


def test_parameter_that_a_model_does_not_take_is_left_out() -> None:
    prompt = asking(parameters={"temperature": 0.5, "top_k": 3})

    mended = MESSAGES.after_refusal(prompt, refusal("`temperature` is deprecated for this model."))

    assert mended is not None
    request = MESSAGES.request(mended)
    assert "temperature" not in json.loads(request.body)
    assert json.loads(request.body)["top_k"] == 3
    assert request.notes == (asking_for.REFUSED.format("temperature"),)
    assert MESSAGES.after_refusal(mended, refusal("`temperature` is deprecated.")) is None


def test_limit_above_the_models_own_is_lowered_to_it() -> None:
    prompt = asking(parameters={"max_tokens": 90_000, "thinking": "enabled"})
    text_of_refusal = (
        "max_tokens: 90000 > 64000, which is the maximum allowed number of output tokens for m"
    )

    mended = MESSAGES.after_refusal(prompt, refusal(text_of_refusal))

    assert mended is not None
    body = body_of(mended)
    assert body["max_tokens"] == 64_000
    assert body["thinking"]["budget_tokens"] < 64_000
    assert MESSAGES.after_refusal(mended, refusal(text_of_refusal)) is None


def test_signature_of_another_model_is_sent_once_only() -> None:
    prompt = asking(HELLO, answer(SAID, native=[THOUGHT, SAYS]), MORE)
    message = "messages.1.content.0: Invalid `signature` in `thinking` block"

    mended = MESSAGES.after_refusal(prompt, refusal(message))

    assert mended is not None
    request = MESSAGES.request(mended)
    assert json.loads(request.body)["messages"][1]["content"] == [text("Hi.")]
    assert request.notes == (SIGNATURES_LEFT_OUT,)
    assert MESSAGES.after_refusal(mended, refusal(message)) is None


@pytest.mark.parametrize(
    "error",
    [
        refusal("`temperature` is deprecated", status=500),
        refusal("temperature is not the problem of messages"),
        refusal("prompt is too long"),
    ],
)
def test_other_refusals_stand(error: ErrorInfo) -> None:
    assert MESSAGES.after_refusal(asking(), error) is None


# --- the list of models ------------------------------------------------------------------------


def test_models_come_with_what_they_can() -> None:
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
        call("2 m"),
        call(None),
        call("3 m", call_id="c2", status="failed"),
        call("x", provider_info=BUILTIN),
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
QUESTIONS = st.sampled_from([HELLO, MORE, UserTurn(text=" ", images=(PICTURE,)), UserTurn(text="")])


@given(
    turns=st.lists(ANSWERS | QUESTIONS, max_size=6), server=st.sampled_from(["other", "friendli"])
)
def test_any_conversation_keeps_the_rules_of_the_api(turns: list[Turn], server: str) -> None:
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
