"""What the metrics and the log say of a run."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from chat.conversations.actions.conversation import stop_run
from chat.core import metrics
from chat.models import User
from tests.health.helpers import Change, until
from tests.runs.helpers import row_of, threads, until_ended
from tests.support.run_fixtures import (
    Execute,
)
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import (
    Gate,
    answer,
    lmstudio_events,
    lmstudio_run,
    openai_chunks,
    openai_run,
    stream,
)

CANARY = "canary-9b1f77d2c4"
Lines = Callable[[str], list[str]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """What the log says of events that begin like this."""
    caplog.set_level(logging.DEBUG)
    return lambda start: [
        record.getMessage() for record in caplog.records if record.getMessage().startswith(start)
    ]


async def test_run_is_counted_once_and_logged(execute: Execute, lines: Lines) -> None:
    words = ["One ", "two ", "three."]
    change = Change()

    ended = await execute(stream(lmstudio_events(lmstudio_run(*words))), text=CANARY)
    await until(lambda: change.of("tributary_runs_ended_total", status="completed"))

    assert change.of("tributary_runs_ended_total", status="completed") == 1
    assert change.of("tributary_runs_claimed_total") == 1
    assert change.of("tributary_queue_seconds_count") == 1
    assert change.of("tributary_run_seconds_count") == 1
    assert change.of("tributary_first_event_seconds_count", upstream="Demo") == 1
    assert change.of("tributary_upstream_attempts_total", upstream="Demo", outcome="eof") == 1
    assert change.of("tributary_upstream_deltas_total") == len(words)
    assert change.of("tributary_upstream_events_total") >= len(words)
    assert change.of("tributary_upstream_bytes_total") > 0
    assert change.of("tributary_log_events_total") == ended.last_seq
    assert change.of("tributary_commit_seconds_count") == change.of("tributary_commit_runs_count")
    logged = lines("run.")
    assert [line.partition(" ")[0] for line in logged] == [
        "run.claimed",
        "run.sent",
        "run.first_event",
        "run.ended",
    ]
    assert all(f"run={ended.public_id}" in line for line in logged)
    assert CANARY not in " ".join(logged)


async def test_refusal_is_counted_by_its_kind(execute: Execute, lines: Lines) -> None:
    error = {"error": {"message": f"Bad key {CANARY}", "code": CANARY, "type": CANARY}}
    change = Change()

    await execute(answer(error, status=401))
    await until(lambda: change.of("tributary_runs_ended_total", status="failed"))

    assert change.of("tributary_upstream_errors_total", upstream="Demo", kind="auth") == 1
    assert change.of("tributary_upstream_attempts_total", upstream="Demo", outcome="refused") == 1
    assert change.of("tributary_first_event_seconds_count", upstream="Demo") == 0
    assert CANARY not in " ".join(lines(""))


async def test_stop_is_timed_from_the_press(
    begin: Execute,
    fake: FakeUpstream,
    alice: User,
) -> None:
    first_events = lmstudio_events(lmstudio_run("One "))[:200]
    change = Change()
    run = await begin(stream(first_events, Gate(name="never")))
    await until(lambda: fake.waiting == ["never"])

    await threads.call(stop_run, alice, await row_of(run))
    await until_ended(run)
    await until(lambda: change.of("tributary_stop_seconds_count"))

    assert change.of("tributary_stops_total") == 1
    assert change.of("tributary_stop_seconds_count") == 1
    assert change.of("tributary_upstream_attempts_total", upstream="Demo", outcome="stopped") == 1
    assert change.of("tributary_runs_ended_total", status="stopped") == 1


async def test_no_label_comes_from_an_upstream(execute: Execute) -> None:
    strange = b'event: %b\ndata: {"type": "%b", "model": "%b"}\n\n' % ((CANARY.encode(),) * 3)
    change = Change()

    await execute(stream(strange, openai_chunks(openai_run("One."))), dialect="openai_chat")
    await until(lambda: change.of("tributary_unknown_events_total", dialect="openai_chat"))

    assert CANARY not in metrics.exposition().decode()
