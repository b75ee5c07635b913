"""What becomes of the calls in an answer when it ends: they run, wait for approval, or are refused."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from chat import access
from chat.conversations.listing import lines_of_some
from chat.message_queue.reading import facts_of
from chat.message_queue.states import QueueState, state_of
from chat.models import (
    Conversation,
    ConversationRole,
    Membership,
    Participant,
    QuestionStatus,
    Team,
    TeamRole,
    Tool,
    ToolChoice,
    ToolRequest,
    ToolRule,
    Upstream,
    User,
)
from chat.runs.tool_calls import WaitingFor, waiting_for
from chat.tools import calls
from chat.tools.definitions import call_digest
from tests.runs.waiting import call as item
from tests.runs.waiting import ended, result_of
from tests.tools.calling import (
    calls_of,
    follow_up_of,
    give_result,
    make_tool,
    statuses,
    waiting_run,
)

RUNS = [("running", "queued")]
ASKS = [("open", "approval")]
REFUSED = [("declined", "refused")]


def switch_on(conversation: Conversation, *tools: Tool) -> None:
    conversation.tools.add(*tools)


def choose(
    tool: Tool, conversation: Conversation, person: User, *, is_allowed: bool = True
) -> None:
    ToolChoice.objects.create(
        conversation=conversation,
        tool=tool,
        is_allowed=is_allowed,
        chosen_by=person,
        definition_digest=call_digest(tool),
    )


@pytest.mark.parametrize(
    ("rule", "private", "shared"),
    [
        (ToolRule.OFF, REFUSED, REFUSED),
        (ToolRule.ASK, ASKS, ASKS),
        (ToolRule.AUTO_PRIVATE, RUNS, ASKS),
        (ToolRule.AUTO, RUNS, RUNS),
    ],
)
def test_rule_decides(
    alice: User,
    team: Team,
    conversation: Conversation,
    private_conversation: Conversation,
    upstream: Upstream,
    rule: ToolRule,
    private: list[object],
    shared: list[object],
) -> None:
    tool = make_tool(team, rule=rule)
    for room, expected in ((private_conversation, private), (conversation, shared)):
        switch_on(room, tool)

        assert statuses(waiting_run(alice, room, upstream, "weather")) == expected


def test_call_that_runs_is_no_question(
    alice: User, team: Team, conversation: Conversation, upstream: Upstream
) -> None:
    switch_on(conversation, make_tool(team, rule=ToolRule.AUTO))
    run = waiting_run(alice, conversation, upstream, "weather")

    assert not access.questions_for(alice).exists()
    assert waiting_for(run.questions.values_list("status", flat=True)) == WaitingFor.TOOLS
    assert state_of(facts_of([run.message_id])[run.message_id]) == QueueState.ANSWER
    (placed,) = lines_of_some(alice.pk, [conversation.pk])
    assert (placed.line.is_running, placed.line.is_waiting) == (True, False)


def test_answer_waits_for_people_if_one_call_does(
    alice: User, team: Team, conversation: Conversation, upstream: Upstream
) -> None:
    switch_on(
        conversation,
        make_tool(team, rule=ToolRule.AUTO),
        make_tool(team, "book", rule=ToolRule.ASK),
    )
    run = waiting_run(alice, conversation, upstream, "weather", "book")

    assert statuses(run) == [*RUNS, *ASKS]
    assert access.questions_for(alice).count() == 1
    assert state_of(facts_of([run.message_id])[run.message_id]) == QueueState.TOOL


def test_person_typed_tool_is_asked_about_as_before(
    alice: User, team: Team, conversation: Conversation, upstream: Upstream
) -> None:
    switch_on(conversation, Tool.objects.create(team=team, name="look"))
    run = waiting_run(alice, conversation, upstream, "look")

    assert calls_of(run) == []
    assert run.questions.get().status == QuestionStatus.OPEN


# --- names that an answer must not call ------------------------------------------------------------


def _not_switched_on(team: Team, other_team: Team, room: Conversation) -> None:
    make_tool(team, rule=ToolRule.AUTO)


def _of_another_team(team: Team, other_team: Team, room: Conversation) -> None:
    switch_on(room, make_tool(other_team, rule=ToolRule.AUTO))


def _unknown(team: Team, other_team: Team, room: Conversation) -> None:
    """Nothing has this name."""


def _off(team: Team, other_team: Team, room: Conversation) -> None:
    switch_on(room, make_tool(team, rule=ToolRule.OFF))


def _not_offered(team: Team, other_team: Team, room: Conversation) -> None:
    switch_on(room, make_tool(team, rule=ToolRule.AUTO))


@pytest.mark.parametrize(
    ("arrange", "offered"),
    [
        (_not_switched_on, ("weather",)),
        (_of_another_team, ("weather",)),
        (_unknown, ("another",)),
        (_off, ("weather",)),
        (_not_offered, ("another",)),
        (_not_offered, ()),
    ],
)
def test_injected_name_is_refused_and_the_answer_goes_on(
    alice: User,
    team: Team,
    other_team: Team,
    conversation: Conversation,
    upstream: Upstream,
    arrange: object,
    offered: tuple[str, ...],
) -> None:
    assert callable(arrange)
    arrange(team, other_team, conversation)
    run = waiting_run(alice, conversation, upstream, "weather", offered=offered)

    assert statuses(run) == REFUSED
    (call,) = calls_of(run)
    assert call.error
    follow_up = follow_up_of(run)
    assert follow_up is not None
    (given,) = follow_up.inputs
    assert given["output"] == f"This tool call has no result. {call.error}"
    assert given["is_error"]


def test_refused_call_lets_the_answer_wait_for_the_others(
    alice: User, team: Team, conversation: Conversation, upstream: Upstream
) -> None:
    switch_on(conversation, make_tool(team, rule=ToolRule.AUTO))
    run = waiting_run(alice, conversation, upstream, "weather", "other", offered=("weather",))

    assert statuses(run) == [*RUNS, *REFUSED]
    assert follow_up_of(run) is None


# --- people, and what they chose -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "is_allowed", "expected"),
    [
        (ToolRule.OFF, True, REFUSED),
        (ToolRule.ASK, True, RUNS),
        (ToolRule.ASK, False, REFUSED),
        (ToolRule.AUTO, False, REFUSED),
    ],
)
def test_choice_narrows_the_rule(
    alice: User,
    team: Team,
    conversation: Conversation,
    upstream: Upstream,
    rule: ToolRule,
    is_allowed: bool,
    expected: list[object],
) -> None:
    tool = make_tool(team, rule=rule)
    switch_on(conversation, tool)
    choose(tool, conversation, alice, is_allowed=is_allowed)

    assert statuses(waiting_run(alice, conversation, upstream, "weather")) == expected


def test_choice_of_somebody_who_may_no_longer_write_allows_nothing(
    alice: User, bob: User, team: Team, conversation: Conversation, upstream: Upstream
) -> None:
    tool = make_tool(team)
    switch_on(conversation, tool)
    choose(tool, conversation, bob)
    Membership.objects.filter(user=bob, team=team).update(role=TeamRole.VIEWER)

    assert statuses(waiting_run(alice, conversation, upstream, "weather")) == ASKS


@pytest.mark.parametrize(
    ("is_allowed", "change", "expected"),
    [
        (True, {}, RUNS),
        (True, {"tool": {"description": "Another one"}}, ASKS),
        (True, {"tool": {"schema": {"type": "object"}}}, ASKS),
        (True, {"request": {"address": "http://127.0.0.1:9/other/{city}"}}, ASKS),
        (True, {"request": {"method": "DELETE"}}, ASKS),
        (False, {"request": {"method": "DELETE"}}, REFUSED),
    ],
)
def test_choice_allows_only_the_tool_that_the_person_has_seen(
    alice: User,
    team: Team,
    conversation: Conversation,
    upstream: Upstream,
    is_allowed: bool,
    change: dict[str, dict[str, object]],
    expected: list[object],
) -> None:
    tool = make_tool(team)
    switch_on(conversation, tool)
    choose(tool, conversation, alice, is_allowed=is_allowed)
    Tool.objects.update(**change.get("tool", {"name": tool.name}))
    ToolRequest.objects.update(**change.get("request", {"tool": tool}))

    assert statuses(waiting_run(alice, conversation, upstream, "weather")) == expected


def test_participant_makes_a_conversation_shared(
    alice: User, bob: User, team: Team, private_conversation: Conversation, upstream: Upstream
) -> None:
    switch_on(private_conversation, make_tool(team, rule=ToolRule.AUTO_PRIVATE))
    Participant.objects.create(
        conversation=private_conversation, person=bob, role=ConversationRole.READER
    )

    assert statuses(waiting_run(alice, private_conversation, upstream, "weather")) == ASKS


def test_temporary_conversation_asks_as_any_other(
    alice: User, team: Team, private_conversation: Conversation, upstream: Upstream
) -> None:
    ends_at = timezone.now() + timedelta(hours=1)
    Conversation.objects.filter(pk=private_conversation.pk).update(expires_at=ends_at)
    switch_on(private_conversation, make_tool(team))

    assert statuses(waiting_run(alice, private_conversation, upstream, "weather")) == ASKS


# --- how often an answer calls tools by itself -------------------------------------------------------


def test_refusals_do_not_go_on_for_ever(
    alice: User, team: Team, conversation: Conversation, upstream: Upstream, settings: object
) -> None:
    settings.TOOL_ROUNDS = 2  # type: ignore[attr-defined]
    first = waiting_run(alice, conversation, upstream, "unknown", offered=("weather",))
    second = follow_up_of(first)
    assert second is not None

    second = ended(second, result_of(item("c2", "unknown")))

    assert statuses(second) == REFUSED
    assert follow_up_of(second) is None
    second.refresh_from_db()
    assert "too often" in second.notes[0]


def test_calls_beyond_the_limit_ask_to_go_on(
    alice: User, team: Team, conversation: Conversation, upstream: Upstream, settings: object
) -> None:
    settings.TOOL_CALLS = 2  # type: ignore[attr-defined]
    switch_on(conversation, make_tool(team, rule=ToolRule.AUTO))
    run = waiting_run(alice, conversation, upstream, "weather", "weather", "weather")

    assert statuses(run) == [*RUNS, *RUNS, *ASKS]
    assert "many times" in calls_of(run)[2].error


def test_rounds_beyond_the_limit_ask_to_go_on_until_somebody_approves(
    alice: User, team: Team, conversation: Conversation, upstream: Upstream, settings: object
) -> None:
    settings.TOOL_ROUNDS = 1  # type: ignore[attr-defined]
    switch_on(conversation, make_tool(team, rule=ToolRule.AUTO))
    first = waiting_run(alice, conversation, upstream, "weather")
    second = ended(give_result(first), result_of(item("c2", "weather", city="Oslo")))
    assert statuses(second) == ASKS

    calls.approve(alice, calls_of(second)[0])
    third = ended(give_result(second), result_of(item("c3", "weather", city="Oslo")))

    assert statuses(third) == RUNS
