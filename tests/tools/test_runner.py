"""Calls that a runner runs: from the model's request to the answer that goes on, and everything that stops it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from uuid import UUID

import msgspec
import pytest
from django.db import DataError
from pytest_django import Settings

from chat import events as canonical
from chat.conversations.actions.conversation import stop_run
from chat.models import CallStatus, Conversation, Run, Team, ToolCall, ToolRule, User
from chat.models import Runner as RunnerRow
from chat.runs import runner as runners
from chat.runs.resume import read_inputs
from chat.runs.runner import Runner
from chat.tools import claims, endings, kinds
from chat.tools.execution import Execution, bounded_progress
from chat.tools.kinds import CallFailed, CallOutput, CallRequest, Continuation
from chat.tools.runner import RUN_CALLS, ToolRunner
from tests.runs.helpers import text_of, threads, until, until_ended
from tests.runs.waiting import calling, saying, wire_call
from tests.support.run_fixtures import MakeRun, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import Gate, Hang, Head, Script, Send, answer
from tests.tools.calling import calls_of, follow_up_of, make_tool, statuses

Begin = Callable[..., Awaitable[Run]]
PATH = "/tool"


@pytest.fixture(autouse=True)
def _frequent_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runners._periodic_tasks, "tool_calls", replace(RUN_CALLS, seconds=0.05))


@pytest.fixture
def begin(fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, team: Team) -> Begin:
    """Queues an answer that calls the tool ``calls`` times, at the fake server, and says "Done." then."""

    async def begin(
        *scripts: Script, calls: int = 1, has_runner: bool = True, **fields: object
    ) -> Run:
        fields = {"rule": ToolRule.AUTO, "method": "POST", "address": f"{fake.url}{PATH}", **fields}
        tool = await threads.call(make_tool, team, **fields)
        wanted = [
            wire_call(number, f"c{number}", "weather", json.dumps({"city": f"City {number}"}))
            for number in range(calls)
        ]
        fake.script(calling(*wanted), saying("Done."), *scripts)
        # Those of a path come first.
        fake.control._scripts.sort(key=lambda script: not script.path)
        run = await threads.call(
            make_run, "Hello", dialect="openai_chat", base_url=f"{fake.url}/v1", tools=[tool]
        )
        if has_runner:
            await start_runner()
        return run

    return begin


def weather(text: str = "Rain") -> Script:
    return answer({"weather": text}, path=PATH)


def slow(gate: str = "tool") -> Script:
    """It has the request, and answers when the gate is released."""
    head = Head(headers={"Content-Type": "text/plain"}, framing="length", length=4)
    return Script(steps=(head, Gate(name=gate), Send(base64=b"Rain")), path=PATH)


def tool_posts(fake: FakeUpstream) -> int:
    return sum(request.path == PATH for request in fake.requests)


def model_posts(fake: FakeUpstream) -> int:
    return sum(request.path == "/v1/chat/completions" for request in fake.requests)


async def until_followed(run: Run) -> Run:
    await until(lambda: follow_up_of(run) is not None)
    follow_up = await threads.call(follow_up_of, run)
    assert follow_up is not None
    return await until_ended(follow_up)


async def until_statuses(run: Run, *expected: tuple[str, str]) -> None:
    await until(lambda: statuses(run) == list(expected))


# --- the loop --------------------------------------------------------------------------------------


async def test_answer_goes_on_with_the_results(begin: Begin, fake: FakeUpstream) -> None:
    run = await begin(weather("Rain"), weather("Sun"), weather("Snow"), calls=3)

    follow_up = await until_followed(run)

    assert (follow_up.status, text_of(follow_up)) == ("completed", "Done.")
    assert (tool_posts(fake), model_posts(fake)) == (3, 2)
    asked = sorted(each.body["city"] for each in fake.requests if each.path == PATH)
    assert asked == ["City 0", "City 1", "City 2"]
    outputs = [json.loads(each.output)["weather"] for each in read_inputs(follow_up)]
    assert sorted(outputs) == ["Rain", "Snow", "Sun"]
    call = (await threads.call(calls_of, run))[0]
    assert call.sent_at is not None
    assert call.finished_at is not None
    assert (call.attempt, call.runner_id) == (1, None)
    item = canonical.decode_result(follow_up.result).output[0]
    assert isinstance(item, canonical.ToolCallItem)
    assert item.execution is not None
    assert (item.execution.executor, item.execution.rule) == ("http", "auto")
    assert (item.execution.attempt, item.execution.approved_by) == (1, "")
    assert item.execution.started_at <= item.execution.ended_at
    assert item.execution.response_bytes == len(item.output or "")


async def test_answer_has_so_many_calls_at_once(
    begin: Begin, fake: FakeUpstream, settings: Settings
) -> None:
    settings.TOOL_CALLS_AT_ONCE = 2
    run = await begin(slow("a"), slow("b"), slow("c"), calls=3)

    await fake.until(lambda fake: len(fake.waiting) == 2)
    queued = ToolCall.objects.filter(status=CallStatus.QUEUED)
    assert await threads.call(queued.count) == 1
    fake.release(fake.waiting[0])
    await fake.until(lambda fake: tool_posts(fake) == 3)
    for gate in ("a", "b", "c"):
        fake.release(gate)

    assert (await until_followed(run)).status == "completed"


async def test_runner_has_so_many_calls_at_once(
    begin: Begin, fake: FakeUpstream, settings: Settings
) -> None:
    settings.TOOL_CALLS_PER_RUNNER = 1
    run = await begin(slow("a"), slow("b"), calls=2)

    await fake.until(lambda fake: len(fake.waiting) == 1)
    fake.release("a")
    fake.release("b")

    assert (await until_followed(run)).status == "completed"
    assert tool_posts(fake) == 2


async def test_error_of_the_tool_is_told_to_the_model(begin: Begin) -> None:
    run = await begin(answer({"detail": "broken"}, status=500, path=PATH))

    follow_up = await until_followed(run)

    (given,) = read_inputs(follow_up)
    assert given.is_error
    assert given.output.startswith("HTTP status 500.")


ANSWERS = 10


@pytest.mark.slow
@pytest.mark.databases
async def test_many_answers_with_several_rounds_all_complete(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, team: Team, alice: User
) -> None:
    tool = await threads.call(
        make_tool, team, rule=ToolRule.AUTO, method="POST", address=f"{fake.url}{PATH}"
    )
    fake.script(answer({"weather": "Rain"}, path=PATH, times=9 * ANSWERS))
    # Each answer asks three times for three calls, and whichever asks next gets the next script.
    wanted = [wire_call(at, f"c{at}", "weather", f'{{"city": "{at}"}}') for at in range(3)]
    fake.script(
        replaced(calling(*wanted), times=3 * ANSWERS), replaced(saying("Done."), times=ANSWERS)
    )
    for _ in range(2):
        await start_runner()
    fields = {"dialect": "openai_chat", "base_url": f"{fake.url}/v1", "concurrency_limit": 100}
    for number in range(ANSWERS):
        await threads.call(make_run, f"Question {number}", tools=[tool], **fields)

    done = Run.objects.filter(status="completed")
    await until(lambda: done.count() == ANSWERS)

    assert tool_posts(fake) == 9 * ANSWERS
    assert model_posts(fake) == 4 * ANSWERS
    assert await threads.call(ToolCall.objects.filter(status=CallStatus.DONE).count) == 9 * ANSWERS


def replaced(script: Script, *, times: int) -> Script:
    return msgspec.structs.replace(script, times=times)


# --- how it ends otherwise -------------------------------------------------------------------------


async def test_stop_closes_the_connection_and_nothing_goes_on(
    begin: Begin, fake: FakeUpstream, alice: User
) -> None:
    run = await begin(slow())
    await fake.until(lambda fake: fake.waiting == ["tool"])

    assert await threads.call(stop_run, alice, run)

    await fake.until(lambda fake: fake.disconnects == 1)
    await until_statuses(run, ("expired", "failed"))
    assert await threads.call(follow_up_of, run) is None
    assert model_posts(fake) == 1


async def test_call_that_is_claimed_again_replaces_its_first_execution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def execute(execution: Execution) -> None:
        await asyncio.Event().wait()

    runner = ToolRunner(client=None, threads=None)
    monkeypatch.setattr(runner, "_execute", execute)
    first, second = (
        SimpleNamespace(pk=1, continuation=Continuation(), name=name)
        for name in ("first", "second")
    )
    runner._start(first)
    _, task = runner._executions[1]
    await asyncio.sleep(0)

    runner._start(second)
    await asyncio.wait([task], timeout=10)
    await asyncio.sleep(0)

    execution, running = runner._executions[1]
    assert task.cancelled()
    assert (execution.call.name, running.done()) == ("second", False)
    running.cancel()
    await asyncio.wait([running], timeout=10)
    await asyncio.sleep(0)
    assert runner._executions == {}


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [({}, ("open", "unknown")), ({"is_read_only": True}, ("answered", "failed"))],
)
async def test_call_that_takes_too_long(
    begin: Begin,
    settings: Settings,
    annotation: dict[str, bool],
    expected: tuple[str, str],
) -> None:
    settings.TOOL_CALL_SECONDS = 2.0
    run = await begin(Script(steps=(Hang(),), path=PATH), **annotation)

    await until_statuses(run, expected)

    (call,) = await threads.call(calls_of, run)
    assert "took longer" in call.error


async def test_failing_executor_ends_its_call(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(request: CallRequest) -> CallOutput:
        raise ZeroDivisionError("what the server sent")

    monkeypatch.setitem(kinds._executors, "http", broken)
    run = await begin()

    follow_up = await until_followed(run)

    (given,) = read_inputs(follow_up)
    assert "error in Tributary" in given.output
    assert "what the server sent" not in given.output


async def test_call_whose_result_the_database_refuses_fails_and_is_not_repeated(
    begin: Begin, fake: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_call = endings.end_call

    def refuses(pk: int, claim: UUID, ending: CallOutput | CallFailed) -> bool:
        if isinstance(ending, CallOutput):
            raise DataError("invalid input syntax")
        return end_call(pk, claim, ending)

    monkeypatch.setattr(endings, "end_call", refuses)
    run = await begin(weather(), is_idempotent=True)

    follow_up = await until_followed(run)

    (given,) = read_inputs(follow_up)
    assert "can’t be stored" in given.output
    assert tool_posts(fake) == 1


# --- runners that end or are lost ------------------------------------------------------------------


async def test_draining_runner_finishes_its_calls(
    begin: Begin, fake: FakeUpstream, start_runner: StartRunner
) -> None:
    run = await begin(slow(), has_runner=False)
    runner = await start_runner()
    await fake.until(lambda fake: fake.waiting == ["tool"])

    draining = asyncio.create_task(runner.drain(30))
    await until(lambda: RunnerRow.objects.filter(is_draining=True).exists())
    fake.release("tool")
    await draining

    await until_statuses(run, ("answered", "done"))
    await start_runner()
    assert (await until_followed(run)).status == "completed"
    assert tool_posts(fake) == 1


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [({}, ("open", "unknown")), ({"is_idempotent": True}, ("running", "queued"))],
)
async def test_interrupted_call_is_repeated_only_if_it_may_be(
    begin: Begin,
    fake: FakeUpstream,
    start_runner: StartRunner,
    annotation: dict[str, bool],
    expected: tuple[str, str],
) -> None:
    run = await begin(slow(), weather("Again"), has_runner=False, **annotation)
    runner: Runner = await start_runner()
    await fake.until(lambda fake: fake.waiting == ["tool"])

    await runner.drain(0)

    await until_statuses(run, expected)
    assert await threads.call(RunnerRow.objects.count) == 0
    await start_runner()
    if annotation:
        assert (await until_followed(run)).status == "completed"
    assert tool_posts(fake) == (2 if annotation else 1)


@pytest.mark.parametrize("is_sent", [False, True])
@pytest.mark.parametrize("is_read_only", [False, True])
async def test_call_of_a_lost_runner(
    begin: Begin,
    fake: FakeUpstream,
    start_runner: StartRunner,
    is_sent: bool,
    is_read_only: bool,
) -> None:
    run = await begin(weather(), has_runner=False, is_read_only=is_read_only)
    first: Runner = await start_runner()
    hold_calls(first)
    await until_ended(run)
    await until(lambda: ToolCall.objects.exists())
    lost = await threads.call(RunnerRow.objects.create, host="gone", pid=1)
    (claimed,) = await threads.call(claims.claim_due, lost.pk, 1)
    if is_sent:
        assert await threads.call(claims.mark_sent, claimed.pk, claimed.claim)

    # As the reaper does when its heartbeat is over.
    await threads.call(lost.delete)
    await start_runner()

    if is_sent and not is_read_only:
        await until_statuses(run, ("open", "unknown"))
        assert tool_posts(fake) == 0
    else:
        assert (await until_followed(run)).status == "completed"
        assert tool_posts(fake) == 1
    # What the lost runner still sends or tells changes nothing.
    assert not await threads.call(claims.mark_sent, claimed.pk, claimed.claim)
    late = CallOutput(text="Late")
    assert not await threads.call(endings.end_call, claimed.pk, claimed.claim, late)


def hold_calls(runner: Runner) -> None:
    """It runs answers only."""
    for work in runner._owning:
        work._is_draining = True  # type: ignore[attr-defined]
        work._identity = None  # type: ignore[attr-defined]


async def test_call_that_loses_its_runner_again_and_again_fails(
    begin: Begin, start_runner: StartRunner
) -> None:
    run = await begin(has_runner=False)
    first: Runner = await start_runner()
    hold_calls(first)
    await until_ended(run)
    await until(lambda: ToolCall.objects.exists())

    def lose() -> None:
        lost = RunnerRow.objects.create(host="gone", pid=1)
        (claimed,) = claims.claim_due(lost.pk, 1)
        claims.give_back(claimed.pk, claimed.claim)

    for _ in range(claims.MOST_ATTEMPTS):
        await threads.call(lose)

    assert await threads.call(statuses, run) == [("answered", "failed")]


# --- progress --------------------------------------------------------------------------------------


async def test_progress_is_shown_while_the_call_runs(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, team: Team
) -> None:
    may_end = asyncio.Event()

    async def reporting(request: CallRequest) -> CallOutput:
        await request.sent()
        request.report({"progress": 1, "total": 4, "message": "Reading\x00", "more": "x" * 10_000})
        await may_end.wait()
        return CallOutput(text="Read")

    monkeypatch.setitem(kinds._executors, "http", reporting)
    run = await begin()

    shown = {"progress": 1, "total": 4, "message": "Reading\u2400"}
    await until(lambda: ToolCall.objects.filter(progress=shown).exists())
    revision = await threads.call(
        lambda: Conversation.objects.values_list("revision", flat=True).get(pk=run.conversation_id)
    )
    assert revision > run.conversation.revision
    may_end.set()
    assert (await until_followed(run)).status == "completed"


def test_progress_is_bounded() -> None:
    hostile = {"progress": float("inf"), "total": True, "message": ["x"]}

    assert bounded_progress(hostile) == {}
    assert bounded_progress({"message": "x" * 999})["message"] == "x" * 200
