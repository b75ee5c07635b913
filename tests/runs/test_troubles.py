"""What goes wrong in one run, or for a while, costs no other run anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import OperationalError, connections

from chat import events as canonical
from chat.conversations.actions.conversation import stop_run
from chat.models import Attempt, Run, Runner, RunSegment, RunStatus, User
from chat.runs import execution
from chat.runs import writer as log_writer
from chat.runs.segments import read_events
from tests.runs.helpers import (
    HALF,
    HALF_AN_ANSWER,
    PATIENCE_SECONDS,
    REST,
    TEXT,
    has_logged,
    locked_database,
    text_of,
    threads,
    until,
    until_ended,
)
from tests.support.run_fixtures import Execute, MakeRun, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import Flood, Gate, Hang, lmstudio_events, lmstudio_run, stream

FIGURES = {
    "too large": {"input_tokens": 10**30, "total_output_tokens": 10**300},
    "negative": {
        "input_tokens": -1,
        "total_output_tokens": -(10**30),
        "reasoning_output_tokens": -3,
    },
}
BROKEN_LOGS = {
    "cut": b'[{"type":"chat.start"',
    "no JSON": b"\xff\xfe",
    "no list": b'{"type":"chat.start"}',
    "no events": b"[1,2]",
}


def break_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chat.runs.reader.AnswerReader._take", lambda self, frames: 1 / 0)


async def until_idle(runner: Any) -> None:
    # What is recorded beside the log comes after the end that people see.
    async with asyncio.timeout(PATIENCE_SECONDS):
        while runner.executing:
            await asyncio.sleep(0.01)


async def test_figures_that_fit_no_column_are_left_out(
    execute: Execute, subtests: pytest.Subtests
) -> None:
    for label, figures in FIGURES.items():
        with subtests.test(msg=label):
            script = lmstudio_run("All of it.")
            script[-1]["result"]["stats"] |= figures

            odd = await execute(stream(lmstudio_events(script)))
            usual = await execute(stream(TEXT))

            assert [run.status for run in (odd, usual)] == ["completed", "completed"]
            assert [run.input_tokens for run in (odd, usual)] == [None, 12]
            assert [text_of(run) for run in (odd, usual)] == [
                "All of it.",
                "Hello from the river.",
            ]


async def test_unpreparable_request_is_tried_once(
    fake: FakeUpstream,
    queue_run: Execute,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    poisoned, healthy = await queue_run(stream(TEXT)), await queue_run()
    prepare, tries = execution.prepare, []

    def fail(run_pk: int, claimed: Run, **options: bool) -> Any:
        if run_pk != poisoned.pk:
            return prepare(run_pk, claimed, **options)
        tries.append(run_pk)
        raise LookupError("a bug of ours, with a secret in it")

    monkeypatch.setattr(execution, "prepare", fail)
    await start_runner()

    ended = await until_ended(poisoned)
    assert ended.status == "interrupted"
    assert "secret" not in ended.result
    assert (await until_ended(healthy)).status == "completed"
    assert tries == [poisoned.pk]
    assert fake.posts == 1


async def test_broken_parser_ends_only_its_own_run(
    fake: FakeUpstream,
    queue_run: Execute,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    poisoned = await queue_run(stream(HALF, Gate(name="more"), REST, Hang()), stream(TEXT))
    runner = await start_runner()
    await until(lambda: has_logged(poisoned, b"from"))

    with monkeypatch.context() as patch:
        break_the_parser(patch)
        fake.release("more")
        ended = await until_ended(poisoned)
    healthy = await until_ended(await queue_run())

    assert ended.status in ("failed", "interrupted")
    assert text_of(ended) == "Hello from"
    assert healthy.status == "completed"
    assert fake.posts == 2
    await fake.until(lambda fake: fake.disconnects == 1)
    await until_idle(runner)


async def test_run_that_cannot_be_ended_blocks_no_stop(
    fake: FakeUpstream,
    queue_run: Execute,
    start_runner: StartRunner,
    alice: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    poisoned = await queue_run(HALF_AN_ANSWER, stream(Hang()))
    runner = await start_runner()
    await until(lambda: has_logged(poisoned, b"from"))
    healthy = await queue_run()
    await fake.until(lambda fake: fake.posts == 2)

    with monkeypatch.context() as patch:
        break_the_parser(patch)
        patch.setattr("chat.runs.reaper.end_lost", lambda run, runner: 1 / 0)
        fake.release("more")
        await until(lambda: poisoned.pk not in runner._executions)
        await threads.call(stop_run, alice, healthy)
        ended = await until_ended(healthy)

    assert ended.status == "stopped"
    assert (await until_ended(poisoned)).status == "interrupted"


async def test_megabytes_without_an_event_are_read_past(execute: Execute) -> None:
    comment = b": " + b"x" * 65_000 + b"\n\n"

    ended = await execute(stream(Flood(base64=comment, times=140), TEXT))

    assert ended.status == "completed"
    assert text_of(ended) == "Hello from the river."


# --- the database is away ----------------------------------------------------------------


@pytest.mark.skipif(not settings.IS_SQLITE, reason="locks a SQLite file")
async def test_answer_that_ends_in_an_outage_completes_after_it(
    fake: FakeUpstream,
    begin: Execute,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setitem(connections.settings["default"]["OPTIONS"], "timeout", 0.01)
    monkeypatch.setattr(log_writer, "RETRY_SECONDS", (0.01, 0.02))
    run = await begin(HALF_AN_ANSWER)
    await until(lambda: has_logged(run, b"from"))

    with locked_database():
        fake.release("more")
        await fake.until(lambda fake: fake.requests[0].outcome != "open")
        await until(lambda: "log.unavailable" in caplog.text)
    ended = await until_ended(run)

    assert ended.status == "completed"
    assert (await threads.call(Attempt.objects.get, run=run)).outcome == "eof"
    assert text_of(ended) == "Hello from the river."
    assert fake.posts == 1


async def test_outage_before_the_request_only_delays_it(
    fake: FakeUpstream, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, tries = execution.prepare, []

    def fail_once(run_pk: int, claimed: Run | None, **options: bool) -> Any:
        tries.append(run_pk)
        if len(tries) == 1:
            raise OperationalError("away")
        return prepare(run_pk, claimed, **options)

    monkeypatch.setattr(execution, "prepare", fail_once)
    ended = await execute(stream(TEXT))

    assert ended.status == "completed"
    assert len(tries) == 2
    assert fake.posts == 1


# --- a log that cannot be read ----------------------------------------------------------


def make_lost(make_run: Callable[[], Run], body: bytes) -> Run:
    """A run of a dead runner, with this as its log."""
    run = make_run()
    runner = Runner.objects.create(uuid=uuid4(), host="gone", pid=1)
    Run.objects.filter(pk=run.pk).update(
        status=RunStatus.RUNNING, runner=runner, request_sent_at=run.queued_at
    )
    RunSegment.objects.create(run=run, first_seq=1, last_seq=4, body=body)
    return run


async def test_unreadable_logs_do_not_block_the_start(
    make_run: MakeRun, start_runner: StartRunner, subtests: pytest.Subtests
) -> None:
    good = canonical.join_bodies(
        [canonical.encode(canonical.ChatStart(seq=1, model_instance_id="m"))]
    )
    broken = {
        label: await threads.call(make_lost, make_run, body) for label, body in BROKEN_LOGS.items()
    }
    whole = await threads.call(make_lost, make_run, good)
    await threads.call(lambda: RunSegment.objects.filter(run=whole).update(last_seq=1))

    await start_runner(is_alone=True)

    for label, run in broken.items():
        with subtests.test(msg=label):
            ended = await until_ended(run)
            assert ended.status == "interrupted"
            assert ended.last_seq > 4
    ended = await until_ended(whole)
    assert ended.status == "interrupted"
    assert len(await threads.call(read_events, ended)) == 2
