"""What goes wrong in one run, or for a while, costs no other run anything."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import OperationalError, connection, connections

from chat import events as canonical
from chat.actions.conversations import stop_run
from chat.demo.fake import FakeUpstream
from chat.demo.script import Flood, Gate, Hang, lmstudio_events, lmstudio_run, stream
from chat.models import Run, Runner, RunSegment, RunStatus, User
from chat.result import plain_text
from chat.runs import execution
from chat.runs import writer as log_writer
from chat.runs.segments import read_entries, read_events
from tests.runs.conftest import MakeRun, StartRunner, threads
from tests.runs.test_execution import TEXT, until, until_ended

MIDDLE = TEXT.rindex(b"event: ", 0, TEXT.index(b"river"))
BROKEN_LOGS = {
    "cut": b'[{"type":"chat.start"',
    "no JSON": b"\xff\xfe",
    "no list": b'{"type":"chat.start"}',
    "no events": b"[1,2]",
}


def text_of(run: Run) -> str:
    return plain_text(canonical.decode_result(run.result))


def has_logged(run: Run, text: bytes) -> bool:
    return any(text in entry.body for entry in read_entries(run.pk))


@pytest.mark.parametrize(
    "figures",
    [
        {"input_tokens": 10**30, "total_output_tokens": 10**300},
        {"input_tokens": -1, "total_output_tokens": -(10**30), "reasoning_output_tokens": -3},
    ],
    ids=["too large", "negative"],
)
async def test_figures_that_no_column_holds_cost_only_themselves(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, figures: dict[str, Any]
) -> None:
    script = lmstudio_run("All of it.")
    script[-1]["result"]["stats"] |= figures
    fake.script(stream(lmstudio_events(script)), stream(TEXT))
    runs = [await threads.call(make_run, base_url=fake.url) for _ in range(2)]

    await start_runner()
    ended = [await until_ended(run) for run in runs]

    assert [run.status for run in ended] == ["completed", "completed"]
    assert {run.input_tokens for run in ended} == {None, 12}
    assert {text_of(run) for run in ended} == {"All of it.", "Hello from the river."}


async def test_a_request_that_cannot_be_prepared_is_tried_once(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake.script(stream(TEXT))
    poisoned = await threads.call(make_run, base_url=fake.url)
    healthy = await threads.call(make_run)
    prepare, tries = execution.prepare, []

    def fail(run_pk: int) -> Any:
        if run_pk != poisoned.pk:
            return prepare(run_pk)
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


async def test_a_parser_that_breaks_ends_its_own_run_with_the_text_so_far(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake.script(stream(TEXT[:MIDDLE], Gate(name="more"), TEXT[MIDDLE:], Hang()), stream(TEXT))
    poisoned = await threads.call(make_run, base_url=fake.url)
    runner = await start_runner()
    await until(lambda: has_logged(poisoned, b"from"))

    with monkeypatch.context() as patch:
        patch.setattr("chat.runs.reading.AnswerReader._take", lambda self, frames: 1 / 0)
        fake.release("more")
        ended = await until_ended(poisoned)
    healthy = await until_ended(await threads.call(make_run))

    assert ended.status in ("failed", "interrupted")
    assert text_of(ended) == "Hello from"
    assert healthy.status == "completed"
    assert fake.posts == 2
    await fake.until(lambda fake: fake.disconnects == 1)
    async with asyncio.timeout(10):
        # What is recorded beside the log comes after the end that people see.
        while runner._executions:
            await asyncio.sleep(0.01)


async def test_a_run_that_cannot_be_ended_keeps_no_other_from_being_stopped(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    alice: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake.script(stream(TEXT[:MIDDLE], Gate(name="more"), TEXT[MIDDLE:]), stream(Hang()))
    poisoned = await threads.call(make_run, base_url=fake.url)
    runner = await start_runner()
    await until(lambda: has_logged(poisoned, b"from"))
    healthy = await threads.call(make_run)
    await fake.until(lambda fake: fake.posts == 2)

    with monkeypatch.context() as patch:
        patch.setattr("chat.runs.reading.AnswerReader._take", lambda self, frames: 1 / 0)
        patch.setattr("chat.runs.reaper.end_lost", lambda run, runner: 1 / 0)
        fake.release("more")
        while poisoned.pk in runner._executions:
            await asyncio.sleep(0.01)
        await threads.call(stop_run, alice, healthy)
        ended = await until_ended(healthy)

    assert ended.status == "stopped"
    assert (await until_ended(poisoned)).status == "interrupted"


async def test_megabytes_without_an_event_do_not_stall_the_answer_behind_them(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner
) -> None:
    comment = b": " + b"x" * 65_000 + b"\n\n"
    fake.script(stream(Flood(base64=comment, times=140), TEXT))
    run = await threads.call(make_run, base_url=fake.url)

    await start_runner()
    ended = await until_ended(run)

    assert ended.status == "completed"
    assert text_of(ended) == "Hello from the river."


# --- the database is away ----------------------------------------------------------------


@contextlib.contextmanager
def locked_database() -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(connection.settings_dict["NAME"])) as other:
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.rollback()


@pytest.mark.skipif(not settings.IS_SQLITE, reason="locks a SQLite file")
async def test_an_answer_that_ends_while_the_database_is_away_is_completed_when_it_is_back(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setitem(connections.settings["default"]["OPTIONS"], "timeout", 0.01)
    monkeypatch.setattr(log_writer, "RETRY_SECONDS", (0.01, 0.02))
    fake.script(stream(TEXT[:MIDDLE], Gate(name="more"), TEXT[MIDDLE:]))
    run = await threads.call(make_run, base_url=fake.url)
    await start_runner()
    await until(lambda: has_logged(run, b"from"))

    with locked_database():
        fake.release("more")
        await fake.until(lambda fake: fake.requests[0].outcome != "open")
        await until(lambda: "run.unrecorded" in caplog.text)
    ended = await until_ended(run)

    assert ended.status == "completed"
    assert text_of(ended) == "Hello from the river."
    assert fake.posts == 1


async def test_a_database_that_is_away_before_the_request_only_delays_it(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake.script(stream(TEXT))
    prepare, tries = execution.prepare, []

    def fail_once(run_pk: int) -> Any:
        tries.append(run_pk)
        if len(tries) == 1:
            raise OperationalError("away")
        return prepare(run_pk)

    monkeypatch.setattr(execution, "prepare", fail_once)
    monkeypatch.setattr("chat.runs.runner.POLL_SECONDS", 0.05)
    run = await threads.call(make_run, base_url=fake.url)

    await start_runner()

    assert (await until_ended(run)).status == "completed"
    assert len(tries) == 2
    assert fake.posts == 1


# --- a log that cannot be read ----------------------------------------------------------


def lost(make_run: Callable[[], Run], body: bytes) -> Run:
    """A run of a dead runner, with this as its log."""
    run = make_run()
    runner = Runner.objects.create(uuid=uuid4(), host="gone", pid=1)
    Run.objects.filter(pk=run.pk).update(
        status=RunStatus.RUNNING, runner=runner, request_sent_at=run.queued_at
    )
    RunSegment.objects.create(run=run, first_seq=1, last_seq=4, body=body)
    return run


@pytest.mark.parametrize("body", BROKEN_LOGS.values(), ids=BROKEN_LOGS)
async def test_a_log_that_cannot_be_read_keeps_no_server_from_starting(
    make_run: MakeRun, start_runner: StartRunner, body: bytes
) -> None:
    good = canonical.join_bodies(
        [canonical.encode(canonical.ChatStart(seq=1, model_instance_id="m"))]
    )
    broken = await threads.call(lost, make_run, body)
    whole = await threads.call(lost, make_run, good)
    await threads.call(lambda: RunSegment.objects.filter(run=whole).update(last_seq=1))

    await start_runner(is_alone=True)

    ended = [await until_ended(run) for run in (broken, whole)]
    assert [run.status for run in ended] == ["interrupted", "interrupted"]
    assert len(await threads.call(read_events, ended[1])) == 2
    assert ended[0].last_seq > 4
