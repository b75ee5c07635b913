"""What people decide about calls: approve, refuse, always, never, again, and what comes too late."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.db import connection
from pytest_django import Settings

from chat import access
from chat.conversations.actions.conversation import delete, stop_run
from chat.core.errors import ActionRefused
from chat.message_queue.reading import facts_of
from chat.message_queue.states import QueueState, state_of
from chat.models import (
    AuditEvent,
    CallStatus,
    Conversation,
    Membership,
    Question,
    Run,
    Runner,
    Team,
    TeamRole,
    Tool,
    ToolCall,
    ToolChoice,
    ToolRequest,
    ToolRule,
    Upstream,
    User,
    Visibility,
)
from chat.questions import actions as questions
from chat.runs.resume import read_inputs
from chat.tools import calls, claims, endings
from chat.tools.actions import HttpRequestValues, change_tool
from chat.tools.kinds import CallFailed, CallOutput, OutputFile
from tests.questions.test_asking import at_once
from tests.tools.calling import (
    calls_of,
    claim,
    follow_up_of,
    give_result,
    make_tool,
    statuses,
    waiting_run,
)

# How the conversations are named in SQL.
ROOMS = connection.ops.quote_name(Conversation._meta.db_table)


@pytest.fixture
def tool(team: Team, conversation: Conversation) -> Tool:
    tool = make_tool(team)
    conversation.tools.add(tool)
    return tool


@pytest.fixture
def run(alice: User, conversation: Conversation, upstream: Upstream, tool: Tool) -> Run:
    """It waits for approval of one call."""
    return waiting_run(alice, conversation, upstream, "weather")


def call_of(run: Run) -> ToolCall:
    (call,) = calls_of(run)
    return call


def given_to(run: Run) -> str:
    follow_up = follow_up_of(run)
    assert follow_up is not None
    return " ".join(each.output for each in read_inputs(follow_up))


def sent(run: Run) -> ToolCall:
    """As when a runner has sent it."""
    (claimed,) = claim(run)
    assert claims.mark_sent(claimed.pk, claimed.claim)
    return call_of(run)


def lost(run: Run) -> ToolCall:
    """Sent, and nobody knows what became of it."""
    call = sent(run)
    assert call.claim is not None
    endings.end_call(call.pk, call.claim, CallFailed("The connection was lost.", may_have_run=True))
    return call_of(run)


# --- approving ---------------------------------------------------------------------------------------


def test_approved_call_runs_and_the_answer_goes_on(run: Run, bob: User) -> None:
    calls.approve(bob, call_of(run))

    call = call_of(run)
    assert statuses(run) == [("running", "queued")]
    assert (call.approved_by, call.arguments) == (bob, {"city": "Oslo"})
    follow_up = give_result(run)
    assert follow_up.requested_by == run.requested_by
    assert given_to(run) == "Rain"
    assert statuses(run) == [("answered", "done")]


def test_approver_edits_the_arguments(run: Run, bob: User) -> None:
    calls.approve(bob, call_of(run), {"city": "Bergen"})

    (claimed,) = claim(run)
    assert claimed.arguments == {"city": "Bergen"}
    claims.mark_sent(claimed.pk, claimed.claim)
    endings.end_call(claimed.pk, claimed.claim, CallOutput(text="Rain"))
    follow_up = follow_up_of(run)
    assert follow_up is not None
    (given,) = read_inputs(follow_up)
    assert given.execution is not None
    assert (given.execution.arguments, given.execution.approved_by) == ({"city": "Bergen"}, "Bob")
    assert run.questions.get().body["arguments"] == {"city": "Oslo"}
    event = AuditEvent.objects.get(verb="tool_call.approved")
    assert (event.actor, event.detail["edited"]) == (bob, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["Oslo"],
        {},
        {"city": 3},
        {"city": "Oslo", "days": "two"},
        {"city": "Oslo", "days": True},
        {"city": "a\x00b"},
        {"city": "x" * 70_000},
    ],
)
def test_edited_arguments_must_fit(run: Run, bob: User, arguments: object) -> None:
    with pytest.raises(ActionRefused):
        calls.approve(bob, call_of(run), arguments)  # type: ignore[arg-type]

    assert statuses(run) == [("open", "approval")]


def test_second_approval_is_refused_and_a_double_click_is_not(
    run: Run, alice: User, bob: User
) -> None:
    call = call_of(run)
    calls.approve(bob, call)

    calls.approve(bob, call)
    with pytest.raises(ActionRefused, match="Bob has already approved"):
        calls.approve(alice, call)
    with pytest.raises(ActionRefused, match="already running"):
        calls.refuse(alice, call)
    assert AuditEvent.objects.filter(verb__startswith="tool_call").count() == 1


@pytest.mark.databases
@pytest.mark.usefixtures("transactional_db")
def test_approvals_at_the_same_moment_make_one_call(run: Run, alice: User, bob: User) -> None:
    decisions = [calls.approve, calls.refuse, questions_result, calls.approve, calls.refuse]
    people = [alice, bob, alice, bob, alice]

    outcomes = at_once(
        *(
            lambda decide=decide, person=person: decide(person, call_of(run))
            for decide, person in zip(decisions, people, strict=True)
        )
    )

    assert sum(isinstance(outcome, ActionRefused) for outcome in outcomes) >= 3
    status, call = statuses(run)[0]
    assert (status, call) in [("running", "queued"), ("declined", "refused"), ("answered", "done")]
    assert Run.objects.filter(message=run.message_id).count() == (1 if status == "running" else 2)


def questions_result(user: User, call: ToolCall) -> Run | None:
    return calls.give_result(user, call, "Rain")


def test_claimed_question_is_the_claimers(run: Run, alice: User, bob: User) -> None:
    questions.claim(alice, run.questions.get())

    with pytest.raises(ActionRefused, match="is answering"):
        calls.approve(bob, call_of(run))
    calls.approve(alice, call_of(run))


def test_refused_call_never_runs(run: Run, bob: User) -> None:
    follow_up = calls.refuse(bob, call_of(run), "Not today")

    assert follow_up is not None
    assert statuses(run) == [("declined", "refused")]
    assert "declined" in given_to(run)
    assert "Not today" in given_to(run)
    assert claim(run) == []


# --- what has changed since ------------------------------------------------------------------------


def _switched_off(tool: Tool, room: Conversation) -> None:
    Tool.objects.filter(pk=tool.pk).update(rule=ToolRule.OFF)


def _removed(tool: Tool, room: Conversation) -> None:
    tool.delete()


def _not_in_conversation(tool: Tool, room: Conversation) -> None:
    room.tools.remove(tool)


def _definition_changed(tool: Tool, room: Conversation) -> None:
    Tool.objects.filter(pk=tool.pk).update(description="Deletes everything")


def _address_changed(tool: Tool, room: Conversation) -> None:
    ToolRequest.objects.filter(tool=tool).update(address="http://elsewhere.example/")


def _approver_may_not_write(tool: Tool, room: Conversation) -> None:
    Membership.objects.filter(user__name="Bob").update(role=TeamRole.VIEWER)


CHANGES = [
    _switched_off,
    _removed,
    _not_in_conversation,
    _definition_changed,
    _address_changed,
    _approver_may_not_write,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("moment", ["before the claim", "before it is sent"])
def test_approved_call_is_checked_again_where_it_is_made(
    run: Run, bob: User, tool: Tool, conversation: Conversation, change: object, moment: str
) -> None:
    assert callable(change)
    calls.approve(bob, call_of(run))
    claimed = claim(run) if moment == "before it is sent" else []

    change(tool, conversation)

    assert claim(run) == []
    assert not any(claims.mark_sent(each.pk, each.claim) for each in claimed)
    assert statuses(run) == [("declined", "refused")]
    assert given_to(run).startswith("This tool call has no result.")


@pytest.mark.parametrize("change", CHANGES[:-1])
def test_changed_tool_can_not_be_approved(
    run: Run, bob: User, tool: Tool, conversation: Conversation, change: object
) -> None:
    assert callable(change)
    call = call_of(run)
    change(tool, conversation)

    with pytest.raises(ActionRefused):
        calls.approve(bob, call)

    assert statuses(run) == [("open", "approval")]


def test_call_waits_for_approval_where_somebody_else_reads_by_now(
    alice: User, team: Team, private_conversation: Conversation, upstream: Upstream
) -> None:
    private_conversation.tools.add(make_tool(team, rule=ToolRule.AUTO_PRIVATE))
    run = waiting_run(alice, private_conversation, upstream, "weather")
    assert statuses(run) == [("running", "queued")]

    Conversation.objects.filter(pk=private_conversation.pk).update(visibility="team")

    assert claim(run) == []
    assert statuses(run) == [("open", "approval")]
    assert access.questions_for(alice).count() == 1


def test_requester_who_may_no_longer_write_lets_nothing_run(
    alice: User, bob: User, team: Team, conversation: Conversation, upstream: Upstream
) -> None:
    conversation.tools.add(make_tool(team, rule=ToolRule.AUTO))
    run = waiting_run(bob, conversation, upstream, "weather")
    Membership.objects.filter(user=bob).update(role=TeamRole.VIEWER)

    assert claim(run) == []
    assert statuses(run) == [("open", "approval")]


# --- always and never ------------------------------------------------------------------------------


def test_always_approves_this_call_and_the_next(
    alice: User, bob: User, conversation: Conversation, upstream: Upstream, tool: Tool
) -> None:
    run = waiting_run(alice, conversation, upstream, "weather", "weather")

    calls.choose(bob, calls_of(run)[1], True)

    assert statuses(run) == [("running", "queued")] * 2
    again = waiting_run(alice, conversation, upstream, "weather")
    assert statuses(again) == [("running", "queued")]
    calls.forget_choice(alice, conversation, tool)
    assert statuses(waiting_run(alice, conversation, upstream, "weather")) == [("open", "approval")]


def test_never_refuses_this_call_and_the_next(
    run: Run, alice: User, bob: User, conversation: Conversation, upstream: Upstream
) -> None:
    follow_up = calls.choose(bob, call_of(run), False)

    assert follow_up is not None
    again = waiting_run(alice, conversation, upstream, "weather")
    assert statuses(again) == [("declined", "refused")]


def test_destructive_tool_is_never_allowed_in_advance(run: Run, bob: User, tool: Tool) -> None:
    Tool.objects.filter(pk=tool.pk).update(is_destructive=True)

    assert not calls.may_always_allow(call_of(run))
    with pytest.raises(ActionRefused, match="each of its calls"):
        calls.choose(bob, call_of(run), True)
    assert not ToolChoice.objects.exists()


def test_choice_about_a_call_that_is_over_changes_nothing(run: Run, alice: User, bob: User) -> None:
    call = call_of(run)
    calls.approve(alice, call)

    with pytest.raises(ActionRefused):
        calls.choose(bob, call, False)

    assert not ToolChoice.objects.exists()
    assert statuses(run) == [("running", "queued")]


@pytest.mark.parametrize(
    ("change", "is_allowed", "stays"),
    [
        ({}, True, True),
        ({"rule": "auto_private"}, True, False),
        ({"description": "Another one"}, True, False),
        ({"address": "http://127.0.0.1:9/other/{city}"}, True, False),
        ({"rule": "auto_private"}, False, True),
    ],
)
def test_change_of_a_tool_withdraws_what_was_allowed(
    run: Run,
    bob: User,
    administrator: User,
    tool: Tool,
    change: dict[str, str],
    is_allowed: bool,
    stays: bool,
) -> None:
    calls.choose(bob, call_of(run), is_allowed)
    said = {"address": tool.request.address, "rule": tool.rule, "description": "", **change}
    request = HttpRequestValues(method="GET", address=said.pop("address"))

    schema = json.dumps(tool.schema)
    change_tool(administrator, tool, name=tool.name, schema=schema, request=request, **said)

    assert ToolChoice.objects.exists() == stays


# --- what runners decide right before a call --------------------------------------------------------


@pytest.mark.databases
@pytest.mark.parametrize("is_claimed", [False, True])
def test_change_that_commits_while_a_runner_waits_for_the_room_counts(
    alice: User,
    team: Team,
    private_conversation: Conversation,
    upstream: Upstream,
    is_claimed: bool,
) -> None:
    private_conversation.tools.add(make_tool(team, rule=ToolRule.AUTO_PRIVATE))
    run = waiting_run(alice, private_conversation, upstream, "weather")
    claimed = claim(run) if is_claimed else []
    rooms = Conversation.objects.filter(pk=private_conversation.pk)

    with before_lock(lambda: rooms.update(visibility=Visibility.TEAM)):
        outcomes = [claims.mark_sent(each.pk, each.claim) for each in claimed] or claim(run)

    assert not any(outcomes)
    assert statuses(run) == [("open", "approval")]


@contextmanager
def before_lock(change: Callable[[], object]) -> Iterator[None]:
    """Makes the change once, as another transaction that has the lock of the conversation when it is asked for."""
    is_made = False

    def execute(run_query: Callable[..., object], sql: str, *rest: object) -> object:
        nonlocal is_made
        is_lock = sql.startswith("SELECT") and sql.partition(" FROM ")[2].startswith(ROOMS)
        if is_lock and not is_made:
            is_made = True
            change()
        return run_query(sql, *rest)

    with connection.execute_wrapper(execute):
        yield
    assert is_made


@pytest.mark.parametrize(
    ("schema", "runs"),
    [
        ({"properties": {"city": {}}}, True),
        ({"properties": {}}, False),
        ({"additionalProperties": True}, True),
        ({"properties": {}, "additionalProperties": False}, False),
    ],
)
def test_runner_knows_which_arguments_a_tool_has(
    alice: User,
    team: Team,
    conversation: Conversation,
    upstream: Upstream,
    schema: dict[str, object],
    runs: bool,
) -> None:
    tool = make_tool(team, rule=ToolRule.AUTO, address="http://127.0.0.1:9/weather")
    Tool.objects.update(schema={"type": "object", **schema})
    conversation.tools.add(tool)

    (claimed,) = claim(waiting_run(alice, conversation, upstream, "weather"))

    names = claimed.address.arguments
    assert (names is None or "city" in names) == runs


# --- whose calls come first -------------------------------------------------------------------------


@pytest.mark.databases
def test_calls_of_others_do_not_wait_for_the_many_of_one_person(
    alice: User,
    bob: User,
    conversation: Conversation,
    upstream: Upstream,
    tool: Tool,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.TOOL_CALLS_AT_ONCE, settings.TOOL_CALLS_PER_RUNNER = 2, 12
    monkeypatch.setattr(claims, "MOST_QUEUED", 4)
    Tool.objects.update(rule=ToolRule.AUTO)
    many = [waiting_run(alice, conversation, upstream, *["weather"] * 4) for _ in range(3)]
    other = waiting_run(bob, conversation, upstream, "weather")
    runner = Runner.objects.create(host="here", pid=1).pk

    # Two of each of Alice's answers fit, but only three of a person.
    first = claims.claim_due(runner, 12)
    second = claims.claim_due(runner, 12)

    assert [ToolCall.objects.get(pk=each.pk).question.run for each in first] == [
        many[0],
        many[0],
        many[1],
    ]
    assert [ToolCall.objects.get(pk=each.pk).question.run for each in second] == [other]


# --- calls that may have run -----------------------------------------------------------------------


def test_call_that_may_have_run_is_a_question(run: Run, alice: User) -> None:
    calls.approve(alice, call_of(run))

    call = lost(run)

    assert statuses(run) == [("open", "unknown")]
    assert call.error == "The connection was lost."
    assert access.questions_for(alice).count() == 1
    assert follow_up_of(run) is None


def test_it_is_run_again_once_somebody_says_so(run: Run, alice: User, bob: User) -> None:
    calls.approve(alice, call_of(run))
    lost(run)

    calls.run_again(bob, call_of(run))

    assert statuses(run) == [("running", "queued")]
    give_result(run, "Snow")
    assert given_to(run) == "Snow"
    assert call_of(run).attempt == 2


def test_somebody_gives_its_result(run: Run, alice: User, bob: User) -> None:
    calls.approve(alice, call_of(run))
    lost(run)

    assert calls.give_result(bob, call_of(run), "Sun") is not None

    assert statuses(run) == [("answered", "done")]
    assert given_to(run) == "Sun"


def test_answer_goes_on_without_it(run: Run, alice: User, bob: User) -> None:
    calls.approve(alice, call_of(run))
    lost(run)

    assert calls.go_on_without(bob, call_of(run)) is not None

    assert statuses(run) == [("expired", "refused")]
    assert "may have run" in given_to(run)


def test_call_that_waits_for_approval_is_not_run_again(run: Run, bob: User) -> None:
    with pytest.raises(ActionRefused):
        calls.run_again(bob, call_of(run))

    assert statuses(run) == [("open", "approval")]


@pytest.mark.parametrize("has_runner", [False, True])
def test_call_of_a_restored_backup_may_have_run(run: Run, alice: User, has_runner: bool) -> None:
    calls.approve(alice, call_of(run))
    if has_runner:
        claim(run)

    assert claims.settle_restored() == 1

    assert statuses(run) == [("open", "unknown")]
    assert claim(run) == []


# --- stopping --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_sent", [False, True])
def test_stop_ends_the_calls_and_the_answer_waits(run: Run, alice: User, is_sent: bool) -> None:
    calls.approve(alice, call_of(run))
    (claimed,) = claim(run)
    if is_sent:
        claims.mark_sent(claimed.pk, claimed.claim)

    assert stop_run(alice, run)

    assert statuses(run) == [("expired", "failed")]
    assert ("may have run" in call_of(run).error) == is_sent
    assert claims.still_held({claimed.pk: claimed.claim}) == set()
    assert not claims.mark_sent(claimed.pk, claimed.claim)
    assert not endings.end_call(claimed.pk, claimed.claim, CallFailed("Late"))
    assert follow_up_of(run) is None
    assert state_of(facts_of([run.message_id])[run.message_id]) == QueueState.STOPPED


def test_stopped_answer_can_be_continued(run: Run, alice: User) -> None:
    calls.approve(alice, call_of(run))
    stop_run(alice, run)

    assert questions.go_on_without(alice, run) is not None

    assert "was stopped" in given_to(run)


def test_running_call_is_not_skipped(run: Run, alice: User) -> None:
    calls.approve(alice, call_of(run))

    with pytest.raises(ActionRefused, match="already running"):
        questions.go_on_without(alice, run)
    with pytest.raises(ActionRefused, match="already running"):
        questions.give_result(alice, run.questions.get(), "Rain")


def test_deleting_the_conversation_stops_its_calls(
    run: Run, alice: User, conversation: Conversation
) -> None:
    calls.approve(alice, call_of(run))

    delete(alice, conversation)

    assert claim(run) == []
    assert call_of(run).status == CallStatus.FAILED


# --- a person's own result -------------------------------------------------------------------------


def test_person_gives_the_result_instead_of_approving(run: Run, bob: User) -> None:
    assert questions.give_result(bob, run.questions.get(), "Fog") is not None

    assert statuses(run) == [("answered", "done")]
    assert claim(run) == []


def test_server_that_is_off_keeps_the_result(run: Run, alice: User, upstream: Upstream) -> None:
    calls.approve(alice, call_of(run))
    (claimed,) = claim(run)
    Upstream.objects.filter(pk=upstream.pk).update(is_enabled=False)
    claims.mark_sent(claimed.pk, claimed.claim)

    assert endings.end_call(claimed.pk, claimed.claim, CallFailed("Not found"))

    assert statuses(run) == [("answered", "failed")]
    assert follow_up_of(run) is None
    run.refresh_from_db()
    assert "disabled" in run.notes[0]
    Upstream.objects.filter(pk=upstream.pk).update(is_enabled=True)
    assert questions.go_on_without(alice, run) is not None
    assert given_to(run) == "Not found"


def test_large_result_becomes_an_error(run: Run, alice: User, settings: Settings) -> None:
    settings.TOOL_RESULT_BYTES = 100
    calls.approve(alice, call_of(run))

    give_result(run, "x" * 101)

    assert "larger than the limit" in given_to(run)
    assert Question.objects.get(run=run).answer["is_error"]


def test_files_of_a_result_become_files_of_the_answer(run: Run, alice: User) -> None:
    calls.approve(alice, call_of(run))
    (claimed,) = claim(run)
    claims.mark_sent(claimed.pk, claimed.claim)
    files = [
        OutputFile(media_type="image/png", content=b"\x89PNG"),
        OutputFile(media_type="text/plain", content=b"notes", name="notes\u202e.txt"),
    ]

    endings.end_call(claimed.pk, claimed.claim, CallOutput(text="A map", files=files))

    stored = [(each.item, each.position, each.file.name) for each in run.files.all()]
    assert stored == [(0, 0, "tool-result-1.png"), (0, 1, "notes.txt")]
    assert given_to(run) == "A map"


def test_result_is_stored_without_what_no_database_takes(run: Run, alice: User) -> None:
    calls.approve(alice, call_of(run))

    give_result(run, "a\x00b\ud800")

    assert given_to(run) == "a\u2400b?"


def test_structured_result_is_stored_without_what_no_database_takes(run: Run, alice: User) -> None:
    calls.approve(alice, call_of(run))
    (claimed,) = claim(run)
    claims.mark_sent(claimed.pk, claimed.claim)
    output = CallOutput(text="Rain", structured={"a\x00": [float("nan"), float("-inf"), 0.5]})

    assert claims.end_call(claimed.pk, claimed.claim, output)

    answer = Question.objects.get(run=run).answer
    assert answer["structured"] == {"a\u2400": [None, None, 0.5]}
