"""A chat request becomes a message and a run, and what does not fit is reported."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from chat import events
from chat.accounts.actions import tokens
from chat.conversations.actions import conversation
from chat.dialects import DIALECTS
from chat.models import (
    AccessToken,
    Conversation,
    Membership,
    Project,
    Run,
    RunStatus,
    Team,
    TeamRole,
    Tool,
    Upstream,
    User,
)
from chat.public_api import answers
from chat.public_api.catalogue import find_model, model_list, offers
from chat.public_api.errors import ApiError
from chat.public_api.idempotency import idempotency_key
from chat.public_api.requests import read_request
from chat.public_api.sending import KEPT_ANYWAY, map_parameters, send
from chat.runs.public_events import response_id_of, run_of
from tests.runs.waiting import call, ended, result_of

PIXEL = base64.b64encode(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
).decode()

Ask = Callable[..., Run]


@pytest.fixture
def token(alice: User, team: Team) -> AccessToken:
    return tokens.create_token(alice, team, name="nightly", days=7)[0]


@pytest.fixture
def ask(token: AccessToken, upstream: Upstream) -> Ask:
    """``ask(key, **fields)``: the run of a request with Alice's token."""

    def ask(key: uuid.UUID | None = None, **fields: Any) -> Run:
        body = {"model": "demo/model", "input": "Hello", **fields}
        request = read_request(json.dumps(body).encode())
        run = send(token, request, key or uuid.uuid4())
        return Run.objects.select_related("conversation", "message__parent").get(pk=run.pk)

    return ask


def finish(run: Run) -> Run:
    result = result_of(events.MessageItem(content="There."), status="completed", reason="stop")
    return ended(run, result)


# --- messages ----------------------------------------------------------------------------------


def test_request_starts_a_private_conversation(ask: Ask, alice: User, team: Team) -> None:
    run = ask(input="Where does the river begin?", system_prompt="Be brief.", temperature=0.5)

    room = run.conversation
    assert (room.owner, room.team, room.visibility) == (alice, team, "private")
    assert room.title == "Where does the river begin?"
    assert (run.system_prompt, run.parameters) == ("Be brief.", {"temperature": 0.5})
    assert run.requested_by == alice
    assert run.notes == []


def test_response_id_continues_or_branches(ask: Ask) -> None:
    one = finish(ask(system_prompt="Be brief."))
    two = finish(ask(previous_response_id=response_id_of(one.public_id)))
    branch = ask(previous_response_id=response_id_of(one.public_id), input="Or else?")

    assert {run.conversation_id for run in (one, two, branch)} == {one.conversation_id}
    assert two.message.parent.parent_id == branch.message.parent.parent_id == one.message_id
    # The conversation's prompt need not be sent again.
    assert branch.system_prompt == "Be brief."


def test_unfinished_answer_cannot_be_continued(ask: Ask) -> None:
    live = ask()

    with pytest.raises(ApiError) as refused:
        ask(previous_response_id=response_id_of(live.public_id))

    assert (refused.value.status, refused.value.code) == (409, "response_in_progress")


def test_too_many_runs_at_once_are_refused(ask: Ask, settings: Any) -> None:
    settings.RUNS_PER_PERSON = 1
    ask()

    with pytest.raises(ApiError) as refused:
        ask()

    assert (refused.value.status, refused.value.retry_after_seconds) == (429, 5)


def test_pictures_are_attached(ask: Ask) -> None:
    run = ask(
        input=[
            {"type": "text", "content": "What is this?"},
            {"type": "image", "data_url": f"data:image/png;base64,{PIXEL}"},
            {"type": "text", "content": "In a word."},
        ]
    )

    question = run.message.parent
    assert question.text == "What is this?\n\nIn a word."
    assert [each.file.media_type for each in question.attachments.all()] == ["image/png"]


def test_large_picture_is_refused(ask: Ask, settings: Any) -> None:
    settings.PICTURE_BYTES = 10
    picture = {"type": "image", "data_url": f"data:image/png;base64,{PIXEL}"}

    with pytest.raises(ApiError, match="larger than"):
        ask(input=[{"type": "text", "content": "What is this?"}, picture])


@pytest.mark.parametrize(
    "text", ["resp_", "resp_x", "resp_" + "0" * 31, "RESP_" + "0" * 32, "0" * 32]
)
def test_invalid_response_id_names_no_run(text: str) -> None:
    assert run_of(text) is None


# --- idempotency keys --------------------------------------------------------------------------


def test_same_key_is_one_run_and_refuses_another_request(ask: Ask, token: AccessToken) -> None:
    key = idempotency_key(token, "job-7")

    assert ask(key).pk == ask(key).pk
    assert Conversation.objects.count() == 1
    # How the answer is delivered may differ.
    assert ask(key, stream=True).pk == ask(key).pk
    project = Project.objects.create(team=token.team, name="Bridge")
    others: list[dict[str, Any]] = [
        {"input": "Something else"},
        {"project": str(project.public_id)},
        {"visibility": "team"},
        {"temperature": 0.5},
        {"system_prompt": "Be brief."},
        {"integrations": []},
        {"store": False},
    ]
    for other in others:
        with pytest.raises(ApiError, match="used for a different request"):
            ask(key, **other)
    assert Conversation.objects.count() == 1


def test_keys_of_two_people_differ(token: AccessToken, bob: User, team: Team) -> None:
    other = tokens.create_token(bob, team, name="x", days=1)[0]

    assert idempotency_key(token, "a") != idempotency_key(other, "a")


def test_keys_for_two_teams_differ(token: AccessToken, alice: User, other_team: Team) -> None:
    Membership.objects.create(team=other_team, user=alice, role=TeamRole.MEMBER)
    other = tokens.create_token(alice, other_team, name="x", days=1)[0]

    assert idempotency_key(token, "job-7") != idempotency_key(other, "job-7")


def test_keys_cannot_be_computed_by_others(token: AccessToken, settings: Any) -> None:
    here = idempotency_key(token, "job-7")
    settings.SECRET_KEY = "another installation's"

    assert idempotency_key(token, "job-7") != here


def test_refused_key_changes_nothing(ask: Ask, token: AccessToken, tool: Tool) -> None:
    one = finish(ask())
    previous, key = response_id_of(one.public_id), idempotency_key(token, "job-7")
    ask(key, previous_response_id=previous)

    with pytest.raises(ApiError, match="used for a different request"):
        ask(key, previous_response_id=previous, input="Else", integrations=["tool/weather"])

    assert not one.conversation.tools.exists()


def test_key_of_a_deleted_conversation_is_404(ask: Ask, token: AccessToken, alice: User) -> None:
    key = idempotency_key(token, "job-7")
    conversation.delete(alice, ask(key).conversation)

    with pytest.raises(ApiError) as refused:
        ask(key)

    assert (refused.value.status, refused.value.code) == (404, "job_not_found")


# --- parameters --------------------------------------------------------------------------------


def test_unsupported_fields_are_reported(ask: Ask, upstream: Upstream) -> None:
    Upstream.objects.filter(pk=upstream.pk).update(dialect="bitseek")

    run = ask(
        temperature=9,
        top_k=3,
        context_length=4096,
        reasoning="high",
        store=False,
        integrations=[{"type": "ephemeral_mcp", "server_label": "x", "server_url": "https://x"}],
        colour="blue",
    )

    notes = "\n".join(run.notes)
    for word in ("temperature", "top_k", "context_length", "reasoning", "Integration 1", "colour"):
        assert word in notes
    assert KEPT_ANYWAY in run.notes
    assert run.parameters["temperature"] == 2
    result = answers.result_of(finish(run), result_of(), stores=False)
    assert "response_id" not in result
    assert result["ext"]["notes"] == run.notes


MAPPED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("lmstudio", {"reasoning": "on", "max_output_tokens": 5}, {"reasoning": "on", "max_output_tokens": 5}),
    ("openai_chat", {"reasoning": "off", "repeat_penalty": 1.1}, {"reasoning_effort": "none", "repetition_penalty": 1.1}),
    ("openai_chat deepseek", {"reasoning": "off"}, {"thinking": "disabled"}),
    ("openai_chat", {"max_output_tokens": 9}, {"max_tokens": 9}),
    ("openai_responses", {"reasoning": "low", "max_output_tokens": 9}, {"reasoning_effort": "low", "max_output_tokens": 9}),
    ("anthropic_messages", {"reasoning": "off"}, {"thinking": "disabled"}),
    ("anthropic_messages", {"reasoning": "on"}, {"thinking": "enabled"}),
    ("anthropic_messages", {"reasoning": "medium"}, {"effort": "medium"}),
]  # fmt: skip


def test_parameters_get_the_dialects_names(subtests: pytest.Subtests) -> None:
    for name, given, values in MAPPED:
        dialect, _, extras = name.partition(" ")
        with subtests.test(f"{given} in {name}"):
            parameters = DIALECTS[dialect].parameters_for({"extras": extras or "none"})
            mapped = map_parameters(parameters, given, {})

            assert (mapped.values, mapped.notes) == (values, [])


def test_parameters_of_the_dialect_take_precedence() -> None:
    mapped = map_parameters(
        DIALECTS["openai_chat"].parameters,
        {"reasoning": "low"},
        {"reasoning_effort": "max", "x": 1},
    )

    assert mapped.values == {"reasoning_effort": "max"}
    assert "Parameter “x” was ignored" in mapped.notes[0]


# --- models ------------------------------------------------------------------------------------


def server(name: str, *models: str, detail: dict[str, Any] | None = None) -> Upstream:
    entries = [
        {"id": model, "label": model, "detail": detail or {}, "is_typed": False} for model in models
    ]
    return Upstream.objects.create(
        name=name, dialect="openai_chat", base_url="http://127.0.0.1:9", model_list=entries
    )


def test_model_of_two_servers_is_named_with_its_server(alice: User, upstream: Upstream) -> None:
    cellar = server("Cellar", "demo/model", "own")

    keys = {offer.key: offer.upstream for offer in offers(alice)}
    preferred = find_model(alice, None, "demo/model", preferred=cellar)

    assert keys == {"Demo/demo/model": upstream, "Cellar/demo/model": cellar, "own": cellar}
    assert find_model(alice, None, "Cellar/own").model == "own"
    assert (preferred.upstream, preferred.note != "") == (cellar, True)


def test_ambiguous_keys_name_one_model(alice: User) -> None:
    one, two = server("a", "b"), server("x", "a/b", "b")

    found = {offer.key: (offer.upstream, offer.model) for offer in offers(alice)}

    assert len(found) == 3
    for key, (upstream, model) in found.items():
        chosen = find_model(alice, None, key)
        assert (chosen.upstream, chosen.model) == (upstream, model)
    assert {each for each, _ in found.values()} == {one, two}


def test_server_without_a_list_accepts_any_model(alice: User) -> None:
    plain = server("Plain")

    assert find_model(alice, None, "Plain/what-it-calls-it").upstream == plain
    with pytest.raises(ApiError, match="Model not found"):
        find_model(alice, None, "Plain/")


def test_disabled_server_has_no_models(alice: User, upstream: Upstream) -> None:
    Upstream.objects.update(is_enabled=False)

    assert model_list(alice, None) == {"models": []}
    with pytest.raises(ApiError):
        find_model(alice, None, "Demo/demo/model")


def test_model_list_contains_known_fields_of_their_type(alice: User) -> None:
    detail = {
        "type": "llm",
        "publisher": ["x"],
        "max_context_length": "many",
        "context_length": 4096,
        "size_bytes": True,
        "params_string": "7B",
        "quantization": {"name": 4, "bits_per_weight": 4},
        "loaded_instances": [{"id": "i", "config": {"context_length": 8, "x": {}}}, 5],
        "capabilities": {"vision": True, "trained_for_tool_use": "yes", "reasoning": {"allowed_options": ["on", 3]}},
        "api_key": "not for anybody",
    }  # fmt: skip
    server("Cellar", "m", detail=detail)

    (entry,) = model_list(alice, None)["models"]

    assert entry == {
        "type": "llm",
        "publisher": None,
        "key": "m",
        "display_name": "m",
        "architecture": None,
        "quantization": {"name": None, "bits_per_weight": 4},
        "size_bytes": None,
        "params_string": "7B",
        "loaded_instances": [{"id": "i", "config": {"context_length": 8}}],
        "max_context_length": 4096,
        "format": None,
        "description": None,
        "server": "Cellar",
        "capabilities": {"vision": True, "reasoning": {"allowed_options": ["on"], "default": None}},
    }


# --- answers that wait -------------------------------------------------------------------------


@pytest.fixture
def tool(team: Team) -> Tool:
    return Tool.objects.create(team=team, name="weather", schema={"type": "object"})


def tool_result(call_id: str, content: str) -> dict[str, str]:
    return {"type": "tool_result", "call_id": call_id, "content": content}


def test_answer_continues_with_all_results_together(ask: Ask, tool: Tool) -> None:
    run = ask(integrations=["tool/weather"])
    waiting = ended(run, result_of(call("c1"), call("c2")))
    previous = response_id_of(run.public_id)

    with pytest.raises(ApiError, match="c2"):
        ask(previous_response_id=previous, input=[tool_result("c1", "Rain")])
    assert all(question.is_open for question in waiting.questions.all())
    both = [tool_result("c1", "Rain"), {**tool_result("c2", "No"), "is_error": True}]
    follow_up = ask(previous_response_id=previous, input=both)

    assert [tool["name"] for tool in run.tools] == ["weather"]
    assert (follow_up.message_id, follow_up.position) == (run.message_id, 1)
    assert [each["output"] for each in follow_up.inputs] == ["Rain", "No"]
    # A repetition gets the same run.
    assert ask(previous_response_id=previous, input=both).pk == follow_up.pk


def test_question_is_answered(ask: Ask) -> None:
    run = ask()
    asks = ({"ask_id": "a1", "question": "Which one?", "options": ["Upper", "Lower"]},)
    ended(run, result_of(asks=asks, reason="ask"))

    follow_up = ask(
        previous_response_id=response_id_of(run.public_id),
        input=[{"type": "answer", "ask_id": "a1", "selected": ["Upper"]}],
    )

    assert follow_up.inputs[0]["selected"] == ["Upper"]


@pytest.mark.parametrize("call_id", ["c9", "", "' OR 1=1"])
def test_result_of_an_unknown_call_is_refused(ask: Ask, tool: Tool, call_id: str) -> None:
    run = ask(integrations=["tool/weather"])
    ended(run, result_of(call("c1")))
    previous = response_id_of(run.public_id)

    with pytest.raises(ApiError, match="isn’t waiting for"):
        ask(previous_response_id=previous, input=[tool_result(call_id, "x")])


# --- answers without a stream ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (RunStatus.COMPLETED, None, 200),
        (RunStatus.INCOMPLETE, None, 200),
        (RunStatus.STOPPED, None, 200),
        (RunStatus.FAILED, "rate_limit", 429),
        (RunStatus.FAILED, "auth", 502),
        (RunStatus.FAILED, "answer_limit", 502),
        (RunStatus.FAILED, "context_length", 400),
        (RunStatus.CUT, None, 502),
        (RunStatus.INTERRUPTED, None, 503),
    ],
)
def test_unfinished_answer_is_an_error_with_its_text(
    ask: Ask, status: RunStatus, kind: Any, code: int
) -> None:
    result = result_of(events.MessageItem(content="So far"), status=status.value, reason="stop")
    if kind:
        result.ext.error = events.ErrorInfo(message="It failed.", kind=kind)
    run = ended(ask(), result)

    complete = answers.complete([run.public_id], stores=True)

    body = json.loads(complete.body)
    assert complete.status == code
    assert body.get("result", body)["output"] == [{"type": "message", "content": "So far"}]
    assert ("error" in body) == (code != 200)


@pytest.mark.parametrize("stores", [True, False])
def test_only_a_stored_answer_has_an_id(ask: Ask, stores: bool) -> None:
    run = ended(ask(), result_of(events.MessageItem(content="Here")))

    streamed = answers.final_result([run.public_id], stores=stores)
    whole = json.loads(answers.complete([run.public_id], stores=stores).body)

    assert [("response_id" in result) for result in (streamed, whole)] == [stores] * 2


# --- size --------------------------------------------------------------------------------------


def test_millions_of_values_are_refused_before_they_are_created() -> None:
    body = b'{"model": "m", "input": "x", "parameters": {"a": [%s[]]}}' % (b"[]," * 1_000_000)

    with pytest.raises(ApiError, match="too many values"):
        read_request(body)


@pytest.mark.parametrize(
    "text",
    [",[{" * 100_000, '",' * 100_000, "\\" * 99_999 + "[," * 50_000],
    ids=["brackets", "quotes", "backslashes"],
)
def test_a_text_is_one_value(text: str) -> None:
    assert read_request(json.dumps({"model": "m", "input": text}).encode()).text == text


@pytest.mark.parametrize(
    "body",
    [b'"' * 99_999 + b"[," * 50_000, b'{"' + b"\\" * 99_999 + b"[" * 50_000],
    ids=["quotes", "backslashes"],
)
def test_invalid_json_is_refused(body: bytes) -> None:
    with pytest.raises(ApiError):
        read_request(body)
