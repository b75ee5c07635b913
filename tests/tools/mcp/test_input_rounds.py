"""Answers whose tools ask people in the middle of a call, or go on as tasks, from the model's request to the next."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone
from mcp.server.mcpserver import Context, MCPServer
from pytest_django import Settings

from chat import access
from chat import events as canonical
from chat.conversations.actions.conversation import stop_run
from chat.core.errors import ActionRefused
from chat.models import (
    CallStatus,
    InputSource,
    InputStatus,
    Question,
    QuestionStatus,
    Run,
    Runner,
    Team,
    Tool,
    ToolCall,
    ToolInput,
    User,
)
from chat.questions import actions as questions
from chat.questions import input_actions
from chat.runs import runner as runners
from chat.tools import calls, claims, inputs
from chat.tools.asked_people import AskedPeople
from chat.tools.execution import Execution
from chat.tools.mcp import client, tasks
from chat.tools.runner import RUN_CALLS
from tests.runs.helpers import text_of, threads, until, until_ended
from tests.runs.waiting import calling, saying, wire_call
from tests.support.run_fixtures import MakeRun, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.tools.calling import calls_of, follow_up_of, statuses
from tests.tools.mcp.asking import (
    AskingServer,
    Berth,
    TaskServer,
    address,
    asking,
    completed,
    elicitation,
    input_required,
    working,
)
from tests.tools.mcp.servers import ToldServer, answered, serving, text_result
from tests.tools.mcp.test_rounds import make_tool

BERTH = {"pier": "north", "nights": 2}
Begin = Callable[..., Awaitable[Run]]


@pytest.fixture(autouse=True)
def _frequent_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runners._periodic_tasks, "tool_calls", replace(RUN_CALLS, seconds=0.05))
    monkeypatch.setattr(tasks, "LEAST_POLL_SECONDS", 0.01)
    monkeypatch.setattr(tasks, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(client, "REPEAT_SECONDS", 0)


@pytest.fixture
def begin(fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, team: Team) -> Begin:
    async def begin(url: str, *wanted: tuple[str, dict[str, object]], **fields: object) -> Run:
        """Queues an answer that makes these calls."""
        names = dict.fromkeys(name for name, _ in wanted)
        tools = [await threads.call(make_tool, team, url, name, **fields) for name in names]
        wire = [
            wire_call(at, f"c{at}", name, json.dumps(given))
            for at, (name, given) in enumerate(wanted)
        ]
        fake.script(calling(*wire), saying("Done."))
        run = await threads.call(
            make_run, "Hello", dialect="openai_chat", base_url=f"{fake.url}/v1", tools=tools
        )
        await start_runner()
        return run

    return begin


def open_inputs(run: Run) -> list[ToolInput]:
    rows = ToolInput.objects.filter(call__question__run=run, status=InputStatus.OPEN)
    return list(rows.select_related("call__question__conversation", "call__question__run"))


async def asked(run: Run, number: int = 1) -> list[ToolInput]:
    await until(lambda: len(open_inputs(run)) == number)
    return await threads.call(open_inputs, run)


def answer(user: User, row: ToolInput, action: str = "accept", **content: object) -> None:
    """As the view does, from any process."""
    call = access.get_tool_call(user, row.call.question.public_id, for_write=True)
    input_actions.answer(user, call, row, action, content)


async def result_of(run: Run) -> tuple[str, str]:
    """The output of the call, and what the model says then."""
    await until(lambda: follow_up_of(run) is not None)
    follow_up = await until_ended(await threads.call(follow_up_of, run))
    item = canonical.decode_result(follow_up.result).output[0]
    return item.output, text_of(follow_up)


@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25", "2025-06-18"])
async def test_person_answers_and_the_call_goes_on(begin: Begin, alice: User, era: str) -> None:
    own = AskingServer()
    async with serving(own, era) as url:
        run = await begin(url, ("book", {"ship": "Anna"}))
        (row,) = await asked(run)
        assert await threads.call(statuses, run) == [("open", "input")]
        is_inbox = await threads.call(access.questions_for(alice).filter(run=run).exists)
        await threads.call(answer, alice, row, **BERTH)
        output, said = await result_of(run)

    assert is_inbox
    assert (output, said) == ("Anna: north, 2", "Done.")
    assert own.booked == ["Anna: north, 2"]
    (call,) = await threads.call(calls_of, run)
    assert (call.status, call.rounds, call.sealed_state) == ("done", 1, "")
    is_open_call = row.source == InputSource.OPEN_CALL
    assert is_open_call == (era != "2026-07-28")
    assert (row.expires_at is not None) == is_open_call


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_tool_is_told_that_nobody_answers(begin: Begin, alice: User, action: str) -> None:
    own = AskingServer()
    async with serving(own) as url:
        run = await begin(url, ("book", {"ship": "Anna"}))
        (row,) = await asked(run)
        await threads.call(answer, alice, row, action)
        output, _ = await result_of(run)

    assert output == f"Anna: {action}"
    assert own.booked == []


async def test_two_calls_of_one_tool_have_questions_of_their_own(begin: Begin, alice: User) -> None:
    own = AskingServer()
    async with serving(own) as url:
        run = await begin(url, ("book", {"ship": "Anna"}), ("book", {"ship": "Bert"}))
        first, second = sorted(await asked(run, 2), key=lambda row: row.call.arguments["ship"])
        await threads.call(answer, alice, second, pier="south", nights=1)
        await until(lambda: ("answered", "done") in statuses(run))
        await threads.call(answer, alice, first, pier="north", nights=7)
        await result_of(run)

    assert sorted(own.booked) == ["Anna: north, 7", "Bert: south, 1"]


async def test_several_rounds_and_requests_are_answered_one_by_one(
    begin: Begin, alice: User
) -> None:
    bodies = []
    replies = [
        input_required(
            "s1", a=elicitation("A", x={"type": "string"}), b=address("https://b.test/")
        ),
        input_required("s2", c=elicitation("C", y={"type": "integer"})),
        text_result("finished"),
    ]

    async def reply(peer, message):
        bodies.append(message["params"])
        await peer.send(answered(replies[len(bodies) - 1], message))

    async with ToldServer(tools_call=reply) as server:
        run = await begin(server.url, ("any", {}))
        first, second = await asked(run, 2)
        await threads.call(answer, alice, first, x="one")
        assert await threads.call(statuses, run) == [("open", "input")]
        await threads.call(answer, alice, second)
        await until(lambda: [row.round for row in open_inputs(run)] == [2])
        (third,) = await asked(run)
        await threads.call(answer, alice, third, y=3)
        output, _ = await result_of(run)

    assert output == "finished"
    assert [each.get("requestState") for each in bodies] == [None, "s1", "s2"]
    assert bodies[1]["inputResponses"] == {
        "a": {"action": "accept", "content": {"x": "one"}},
        "b": {"action": "accept"},
    }
    assert bodies[2]["inputResponses"] == {"c": {"action": "accept", "content": {"y": 3}}}


async def test_tool_that_asks_for_ever_fails(
    begin: Begin, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "MOST_ROUNDS", 2)

    async def reply(peer, message):
        await peer.send(answered(input_required(a=elicitation("Again?")), message))

    async with ToldServer(tools_call=reply) as server:
        run = await begin(server.url, ("any", {}))
        for number in (1, 2):
            await until(lambda: [row.round for row in open_inputs(run)] == [number])  # noqa: B023
            (row,) = await asked(run)
            await threads.call(answer, alice, row)
        output, _ = await result_of(run)

    assert output == inputs.TOO_OFTEN
    assert server.calls == 3


async def test_nobody_answers_an_open_call_in_time(begin: Begin, settings: Settings) -> None:
    settings.TOOL_INPUT_SECONDS = 0.2
    own = AskingServer()
    async with serving(own, "2025-06-18") as url:
        run = await begin(url, ("book", {"ship": "Anna"}))
        output, _ = await result_of(run)

    assert output == "Anna: cancel"
    (row,) = await threads.call(lambda: list(ToolInput.objects.all()))
    assert (row.status, row.answered_by) == ("expired", None)


class Repeating:
    """A server of an older version that asks again and again within one call."""

    def __init__(self, times: int) -> None:
        self.actions: list[str] = []
        self.library = MCPServer("Repeating")

        @self.library.tool()
        async def nag(context: Context) -> str:
            for _ in range(times):
                result = await context.elicit("Which berth?", Berth)
                self.actions.append(result.action)
            return "nagged"


@pytest.mark.parametrize("limit", ["time", "requests", "places"])
async def test_open_call_asks_within_limits(
    begin: Begin, settings: Settings, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    settings.TOOL_INPUT_SECONDS = 0.3
    if limit == "requests":
        monkeypatch.setattr(inputs, "MOST_ROUNDS", 0)
    if limit == "places":
        monkeypatch.setattr(AskedPeople, "_may_wait", lambda *_: False)
    own = Repeating(5)
    async with serving(own, "2025-06-18") as url:
        run = await begin(url, ("nag", {}))
        output, _ = await result_of(run)

    assert output == "nagged"
    assert own.actions == ["cancel"] * 5
    # The first request has used up the time of all.
    expected = 1 if limit == "time" else 0
    assert await threads.call(ToolInput.objects.count) == expected


async def test_waiting_calls_leave_places_to_others(settings: Settings) -> None:
    settings.TOOL_CALLS_PER_RUNNER = 16
    executions: list[Execution] = []
    people = AskedPeople(None, executions=lambda: executions, wake=lambda: None)

    def add(person: int, *, waits: bool) -> Execution:
        call = SimpleNamespace(pk=len(executions), person=person)
        executions.append(Execution(call=call, _pauses=int(waits)))
        return executions[-1]

    first = add(1, waits=True)
    new = add(1, waits=False)
    assert people._may_wait(new)
    add(1, waits=True)
    assert not people._may_wait(new)
    assert people._may_wait(first)
    assert people._may_wait(add(2, waits=False))
    for person in range(10, 16):
        add(person, waits=True)
    assert not people._may_wait(add(2, waits=False))


async def test_time_of_a_call_stands_still_while_people_are_asked(
    begin: Begin, alice: User, settings: Settings
) -> None:
    # Enough for a busy machine to begin the call.
    settings.TOOL_CALL_SECONDS = 3
    own = AskingServer()
    async with serving(own, "2025-06-18") as url:
        run = await begin(url, ("book", {"ship": "Anna"}))
        (row,) = await asked(run)
        settings.TOOL_CALL_SECONDS = 600
        await until(lambda: timezone.now() - row.created_at > timedelta(seconds=3.1))
        await threads.call(answer, alice, row, **BERTH)
        output, _ = await result_of(run)

    assert output == "Anna: north, 2"


async def test_answer_goes_on_without_a_call_that_asks(begin: Begin, alice: User) -> None:
    own = AskingServer()
    async with serving(own, "2025-11-25") as url:
        run = await begin(url, ("book", {"ship": "Anna"}))
        (row,) = await asked(run)
        await threads.call(questions.go_on_without, alice, row.call.question.run)
        await until(lambda: follow_up_of(run) is not None)
        with pytest.raises(ActionRefused):
            await threads.call(answer, alice, row, **BERTH)

    assert await threads.call(statuses, run) == [("expired", "failed")]
    assert own.booked == []
    row = await threads.call(ToolInput.objects.get)
    assert row.status == InputStatus.EXPIRED


# --- a runner that is gone ---------------------------------------------------------------------------


def lose_runner(run: Run) -> None:
    """As the reaper does, when a process was killed; the next round of another runner finds the call."""
    ToolCall.objects.filter(question__run=run).update(runner=None)


@pytest.mark.parametrize("is_read_only", [False, True])
async def test_open_call_of_a_lost_runner_is_not_repeated_by_itself(
    begin: Begin, alice: User, is_read_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = AskingServer()
    async with serving(own, "2025-06-18") as url:
        run = await begin(url, ("book", {"ship": "Anna"}), is_read_only=is_read_only)
        (row,) = await asked(run)
        await threads.call(lose_runner, run)
        if is_read_only:
            # Another runner makes the call again, and is asked again.
            await until(lambda: [each.pk for each in open_inputs(run)] not in ([], [row.pk]))
            (row,) = await asked(run)
            await threads.call(answer, alice, row, **BERTH)
            await result_of(run)
        else:
            await until(lambda: statuses(run) == [("open", "unknown")])
            with pytest.raises(ActionRefused):
                await threads.call(answer, alice, row, **BERTH)

    assert own.booked == (["Anna: north, 2"] if is_read_only else [])


async def test_call_that_waits_without_a_runner_survives_all_of_them(
    begin: Begin, alice: User, start_runner: StartRunner
) -> None:
    own = AskingServer()
    async with serving(own) as url:
        run = await begin(url, ("book", {"ship": "Anna"}))
        (row,) = await asked(run)
        await threads.call(lambda: Runner.objects.all().delete())
        await threads.call(claims.settle_restored)
        assert await threads.call(statuses, run) == [("open", "input")]
        await threads.call(answer, alice, row, **BERTH)
        await start_runner()
        await until(lambda: statuses(run) == [("answered", "done")])

    assert own.booked == ["Anna: north, 2"]


async def test_state_of_the_server_is_stored_encrypted(begin: Begin) -> None:
    async def reply(peer, message):
        await peer.send(answered(input_required("sk-canary-state", a=elicitation()), message))

    async with ToldServer(tools_call=reply) as server:
        run = await begin(server.url, ("any", {}))
        await asked(run)

    (call,) = await threads.call(calls_of, run)
    assert "canary" not in call.sealed_state
    assert call.open_state() == "sk-canary-state"


async def test_tool_that_was_turned_off_meanwhile_gets_no_answer(begin: Begin, alice: User) -> None:
    own = AskingServer()
    async with serving(own) as url:
        run = await begin(url, ("book", {"ship": "Anna"}))
        (row,) = await asked(run)
        await threads.call(lambda: Tool.objects.update(rule="off"))
        with pytest.raises(ActionRefused, match="turned off"):
            await threads.call(answer, alice, row, **BERTH)
        # No answer reaches the tool, whatever it is.
        await threads.call(answer, alice, row, "cancel")
        await until(lambda: statuses(run) == [("declined", "refused")])

    assert own.booked == []


# --- tasks ---------------------------------------------------------------------------------------------


async def test_task_of_a_lost_runner_is_continued(begin: Begin) -> None:
    async with TaskServer(working("Half way")) as server:
        run = await begin(server.url, ("any", {}))
        await until(lambda: ToolCall.objects.exclude(progress={}).exists())
        (before,) = await threads.call(calls_of, run)
        await threads.call(lose_runner, run)
        await until(lambda: ToolCall.objects.get().claim not in (None, before.claim))
        server.states = [completed("2.31 m")]
        output, _ = await result_of(run)

    assert output == "2.31 m"
    assert server.calls == 1
    (call,) = await threads.call(calls_of, run)
    assert (call.sent_at, call.sealed_task, call.attempt) == (before.sent_at, "", 2)


async def test_stopped_call_cancels_its_task(begin: Begin, alice: User) -> None:
    async with TaskServer(working("Half way")) as server:
        run = await begin(server.url, ("any", {}))
        await until(lambda: ToolCall.objects.exclude(progress={}).exists())
        assert await threads.call(stop_run, alice, run)
        await server.canceled.wait()

    assert server.sent("tasks/cancel") == [{"taskId": "task-1"}]
    assert await threads.call(statuses, run) == [("expired", "failed")]


async def test_task_that_takes_too_long_is_canceled_and_people_decide(
    begin: Begin, settings: Settings
) -> None:
    settings.TOOL_CALL_SECONDS = 2
    async with TaskServer(working()) as server:
        run = await begin(server.url, ("any", {}))
        await server.canceled.wait()
        await until(lambda: statuses(run) == [("open", "unknown")])

    assert server.calls == 1


async def test_task_that_nobody_could_ask_about_is_not_canceled(
    begin: Begin, settings: Settings
) -> None:
    settings.TOOL_CALL_SECONDS = 3
    down = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
    async with TaskServer({"raw": down}) as server:
        run = await begin(server.url, ("any", {}))
        await until(lambda: statuses(run) == [("open", "unknown")])
        has_work = await threads.call(claims.has_work)

    assert not has_work
    assert "tasks/cancel" not in server.methods
    assert server.methods.count("tasks/get") > 1


async def test_task_asks_people_without_a_runner_and_goes_on(begin: Begin, alice: User) -> None:
    berth = elicitation("Which berth?", pier={"type": "string"})
    async with TaskServer(working(), asking(k1=berth)) as server:
        run = await begin(server.url, ("any", {}))
        (row,) = await asked(run)
        (call,) = await threads.call(calls_of, run)
        server.states = [asking(k1=berth), working(), completed("booked")]
        await threads.call(answer, alice, row, pier="north")
        output, _ = await result_of(run)

    assert (call.status, call.claim, bool(call.sealed_task)) == (CallStatus.INPUT, None, True)
    assert output == "booked"
    answer_of_alice = {"k1": {"action": "accept", "content": {"pier": "north"}}}
    assert server.sent("tasks/update") == [{"taskId": "task-1", "inputResponses": answer_of_alice}]
    assert server.calls == 1


async def test_call_that_may_have_run_starts_a_new_task(begin: Begin, alice: User) -> None:
    berth = elicitation("Which berth?", pier={"type": "string"})
    async with TaskServer(asking(k1=berth)) as server:
        run = await begin(server.url, ("any", {}))
        (row,) = await asked(run)
        server.states = [{"code": -32602}]
        await threads.call(answer, alice, row, pier="north")
        await until(lambda: statuses(run) == [("open", "unknown")])
        server.states = [asking(k1=berth)]
        (call,) = await threads.call(calls_of, run)
        await threads.call(calls.run_again, alice, call)
        (row,) = await asked(run)
        server.states = [completed("booked")]
        await threads.call(answer, alice, row, pier="south")
        output, _ = await result_of(run)

    assert output == "booked"
    assert server.calls == 2
    question = await threads.call(Question.objects.get)
    assert question.status == QuestionStatus.ANSWERED
