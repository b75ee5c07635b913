"""What a program asks becomes what a person's form would send, and what does not fit is told."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from chat import events
from chat.actions import conversations as verbs
from chat.actions import tokens
from chat.dialects import DIALECTS
from chat.models import (
    AccessToken,
    Conversation,
    Membership,
    Run,
    RunStatus,
    Team,
    TeamRole,
    Tool,
    Upstream,
    User,
)
from chat.programs import answers
from chat.programs.catalogue import find_model, model_list, offers
from chat.programs.errors import ApiError
from chat.programs.parameters import map_parameters
from chat.programs.requests import read_request
from chat.programs.sending import KEPT_ANYWAY, idempotency_key, send
from chat.runs.public import response_id_of, run_of
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
    def ask(key: uuid.UUID | None = None, **members: Any) -> Run:
        body = {"model": "demo/model", "input": "Hello", **members}
        request = read_request(json.dumps(body).encode())
        run = send(token, request, key or uuid.uuid4())
        return Run.objects.select_related("conversation", "message__parent").get(pk=run.pk)

    return ask


def finish(run: Run, text: str = "There.", **options: Any) -> Run:
    options = {"status": "completed", "reason": "stop", **options}
    return ended(run, result_of(events.MessageItem(content=text), **options))


def test_a_request_becomes_a_private_conversation_of_its_person_in_its_team(
    ask: Ask, alice: User, team: Team
) -> None:
    run = ask(input="Where does the river begin?", system_prompt="Be brief.", temperature=0.5)

    room = run.conversation
    assert (room.owner, room.team, room.visibility) == (alice, team, "private")
    assert room.title == "Where does the river begin?"
    assert (run.system_prompt, run.parameters) == ("Be brief.", {"temperature": 0.5})
    assert run.requested_by == alice
    assert run.notes == []


def test_a_response_id_continues_and_an_earlier_one_branches(ask: Ask) -> None:
    one = finish(ask(system_prompt="Be brief."))
    two = finish(ask(previous_response_id=response_id_of(one.public_id)))
    branch = ask(previous_response_id=response_id_of(one.public_id), input="Or else?")

    assert {run.conversation_id for run in (one, two, branch)} == {one.conversation_id}
    assert two.message.parent.parent_id == branch.message.parent.parent_id == one.message_id
    # What holds for the conversation need not be said again.
    assert branch.system_prompt == "Be brief."


def test_an_answer_that_is_being_written_cannot_be_followed(ask: Ask) -> None:
    live = ask()

    with pytest.raises(ApiError) as refused:
        ask(previous_response_id=response_id_of(live.public_id))

    assert (refused.value.status, refused.value.code) == (409, "response_in_progress")


def test_too_many_at_once_are_told_to_wait(ask: Ask, settings: Any) -> None:
    settings.RUNS_PER_PERSON = 1
    ask()

    with pytest.raises(ApiError) as refused:
        ask()

    assert (refused.value.status, refused.value.retry_after_seconds) == (429, 5)


def test_the_same_key_is_one_run_and_another_request_with_it_is_refused(
    ask: Ask, token: AccessToken
) -> None:
    key = idempotency_key(token, "job-7")

    assert ask(key).pk == ask(key).pk
    assert Conversation.objects.count() == 1
    with pytest.raises(ApiError, match="another request"):
        ask(key, input="Something else")


def test_keys_of_two_people_do_not_meet(token: AccessToken, bob: User, team: Team) -> None:
    other = tokens.create_token(bob, team, name="x", days=1)[0]

    assert idempotency_key(token, "a") != idempotency_key(other, "a")


def test_a_token_of_another_team_does_not_meet_the_run_of_the_first(
    ask: Ask, token: AccessToken, alice: User, other_team: Team
) -> None:
    Membership.objects.create(team=other_team, user=alice, role=TeamRole.MEMBER)
    other = tokens.create_token(alice, other_team, name="x", days=1)[0]

    assert idempotency_key(token, "job-7") != idempotency_key(other, "job-7")


def test_nobody_can_work_out_the_key_that_a_program_will_use(
    token: AccessToken, settings: Any
) -> None:
    here = idempotency_key(token, "job-7")
    settings.SECRET_KEY = "another installation's"

    assert idempotency_key(token, "job-7") != here


def test_a_key_of_another_request_changes_nothing(ask: Ask, token: AccessToken, tool: Tool) -> None:
    one = finish(ask())
    point, key = response_id_of(one.public_id), idempotency_key(token, "job-7")
    ask(key, previous_response_id=point)

    with pytest.raises(ApiError, match="another request"):
        ask(key, previous_response_id=point, input="Else", integrations=["tool/weather"])

    assert not one.conversation.tools.exists()


def test_a_key_whose_conversation_was_deleted_shows_nothing_of_it(
    ask: Ask, token: AccessToken, alice: User
) -> None:
    key = idempotency_key(token, "job-7")
    verbs.delete(alice, ask(key).conversation)

    with pytest.raises(ApiError) as refused:
        ask(key)

    assert (refused.value.status, refused.value.code) == (404, "job_not_found")


def test_pictures_come_along(ask: Ask) -> None:
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


def test_what_is_not_as_it_was_asked_is_told(ask: Ask, upstream: Upstream) -> None:
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


@pytest.mark.parametrize(
    ("dialect", "asked", "values"),
    [
        ("lmstudio", {"reasoning": "on", "max_output_tokens": 5}, {"reasoning": "on", "max_output_tokens": 5}),
        ("openai_chat", {"reasoning": "off", "repeat_penalty": 1.1}, {"reasoning_effort": "none", "repetition_penalty": 1.1}),
        ("openai_chat", {"max_output_tokens": 9}, {"max_tokens": 9}),
        ("openai_responses", {"reasoning": "low", "max_output_tokens": 9}, {"reasoning_effort": "low", "max_output_tokens": 9}),
        ("anthropic_messages", {"reasoning": "off"}, {"thinking": "disabled"}),
        ("anthropic_messages", {"reasoning": "on"}, {"thinking": "enabled"}),
        ("anthropic_messages", {"reasoning": "medium"}, {"effort": "medium"}),
    ],
)  # fmt: skip
def test_parameters_get_the_names_of_the_server_s_dialect(
    dialect: str, asked: dict[str, Any], values: dict[str, Any]
) -> None:
    mapped = map_parameters(DIALECTS[dialect], asked, {})

    assert (mapped.values, mapped.notes) == (values, [])


def test_parameters_of_the_dialect_itself_can_be_given_too() -> None:
    mapped = map_parameters(
        DIALECTS["openai_chat"], {"reasoning": "low"}, {"reasoning_effort": "max", "x": 1}
    )

    assert mapped.values == {"reasoning_effort": "max"}
    assert "The parameter x" in mapped.notes[0]


# --- models -----------------------------------------------------------------------------------


def server(name: str, *models: str, **fields: Any) -> Upstream:
    entries = [
        {"id": model, "label": model, "detail": fields.get("detail", {}), "is_typed": False}
        for model in models
    ]
    return Upstream.objects.create(
        name=name, dialect="openai_chat", base_url="http://127.0.0.1:9", model_list=entries
    )


def test_a_model_that_two_servers_have_is_told_apart(alice: User, upstream: Upstream) -> None:
    cellar = server("Cellar", "demo/model", "own")

    keys = {offer.key: offer.upstream for offer in offers(alice)}
    preferred = find_model(alice, "demo/model", preferred=cellar)

    assert keys == {"Demo/demo/model": upstream, "Cellar/demo/model": cellar, "own": cellar}
    assert find_model(alice, "Cellar/own").model == "own"
    assert (preferred.upstream, preferred.note != "") == (cellar, True)


def test_keys_that_would_mean_two_things_mean_one(alice: User) -> None:
    one, two = server("a", "b"), server("x", "a/b", "b")

    found = {offer.key: (offer.upstream, offer.model) for offer in offers(alice)}

    assert len(found) == 3
    for key, (upstream, model) in found.items():
        chosen = find_model(alice, key)
        assert (chosen.upstream, chosen.model) == (upstream, model)
    assert {each for each, _ in found.values()} == {one, two}


def test_a_server_without_a_list_takes_any_name(alice: User) -> None:
    plain = server("Plain")

    assert find_model(alice, "Plain/what-it-calls-it").upstream == plain
    with pytest.raises(ApiError, match="Model not found"):
        find_model(alice, "Plain/")


def test_a_server_that_is_switched_off_has_no_models(alice: User, upstream: Upstream) -> None:
    Upstream.objects.update(is_enabled=False)

    assert model_list(alice) == {"models": []}
    with pytest.raises(ApiError):
        find_model(alice, "Demo/demo/model")


def test_the_list_takes_over_what_is_known_and_nothing_of_another_type(alice: User) -> None:
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

    (entry,) = model_list(alice)["models"]

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


def given(name: str, content: str) -> dict[str, str]:
    return {"type": "tool_result", "call_id": name, "content": content}


def test_results_go_on_with_the_answer_all_at_once(ask: Ask, tool: Tool) -> None:
    run = ask(integrations=["tool/weather"])
    waiting = ended(run, result_of(call("c1"), call("c2")))
    point = response_id_of(run.public_id)

    with pytest.raises(ApiError, match="c2"):
        ask(previous_response_id=point, input=[given("c1", "Rain")])
    assert all(question.is_open for question in waiting.questions.all())
    both = [given("c1", "Rain"), {**given("c2", "No"), "is_error": True}]
    follow_up = ask(previous_response_id=point, input=both)

    assert [tool["name"] for tool in run.tools] == ["weather"]
    assert (follow_up.message_id, follow_up.position) == (run.message_id, 1)
    assert [each["output"] for each in follow_up.inputs] == ["Rain", "No"]
    # Sent again, the same is the same.
    assert ask(previous_response_id=point, input=both).pk == follow_up.pk


def test_a_question_is_answered(ask: Ask) -> None:
    run = ask()
    asks = ({"ask_id": "a1", "question": "Which one?", "options": ["Upper", "Lower"]},)
    ended(run, result_of(asks=asks, reason="ask"))

    follow_up = ask(
        previous_response_id=response_id_of(run.public_id),
        input=[{"type": "answer", "ask_id": "a1", "selected": ["Upper"]}],
    )

    assert follow_up.inputs[0]["selected"] == ["Upper"]


@pytest.mark.parametrize("name", ["c9", "", "' OR 1=1"])
def test_what_was_not_asked_is_refused(ask: Ask, tool: Tool, name: str) -> None:
    run = ask(integrations=["tool/weather"])
    ended(run, result_of(call("c1")))

    with pytest.raises(ApiError, match="does not wait"):
        ask(previous_response_id=response_id_of(run.public_id), input=[given(name, "x")])


# --- answers without a stream -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (RunStatus.COMPLETED, None, 200),
        (RunStatus.INCOMPLETE, None, 200),
        (RunStatus.STOPPED, None, 200),
        (RunStatus.FAILED, "rate_limit", 429),
        (RunStatus.FAILED, "auth", 502),
        (RunStatus.FAILED, "context_length", 400),
        (RunStatus.CUT, None, 502),
        (RunStatus.INTERRUPTED, None, 503),
    ],
)
def test_what_is_no_answer_is_an_error_with_what_there_is(
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


@pytest.mark.parametrize(
    "text", ["resp_", "resp_x", "resp_" + "0" * 31, "RESP_" + "0" * 32, "0" * 32]
)
def test_what_is_no_response_id_of_ours_names_nothing(text: str) -> None:
    assert run_of(text) is None
