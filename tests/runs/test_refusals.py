"""Refused attempts: which are retried, how often, how long apart, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat import events as canonical
from chat.models import Attempt, Run, User
from chat.models import Runner as RunnerRow
from chat.runs import execution, queue, reaper
from chat.upstreams.failures import UpstreamRefused
from tests.runs.helpers import TEXT, row_of, threads, until, until_ended
from tests.support.run_fixtures import Execute, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import Script, answer, stream

pytestmark = pytest.mark.databases(slow=True)

ERROR = {"error": {"message": "So.", "type": "x"}}
# Statuses of a server that may have begun.
FINAL_STATUSES = (400, 401, 404, 408, 409, 413, 500, 502, 504, 529)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "BACKOFF_SECONDS", (0.0, 0.0))


def refused(status: int, *, times: int = 5, **headers: str) -> Script:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return answer(ERROR, status=status, headers=named, times=times)


FINAL_REFUSALS = {
    "the server says not to retry": refused(429, x_should_retry="false"),
    "a longer pause than a person waits": refused(429, retry_after="31"),
    "no quota left": answer(
        {"error": {"message": "So.", "code": "insufficient_quota"}}, status=429
    ),
}


def attempts_of(run: Run) -> list[Attempt]:
    return list(Attempt.objects.filter(run=run).order_by("number"))


async def test_busy_server_is_asked_at_most_three_times(
    fake: FakeUpstream, execute: Execute, subtests: pytest.Subtests
) -> None:
    for status in (429, 503):
        with subtests.test(msg=str(status)):
            fake.clear()

            ended = await execute(refused(status))

            attempts = await threads.call(attempts_of, ended)
            assert ended.status == "failed"
            assert fake.posts == 3
            assert [(attempt.outcome, attempt.error_message) for attempt in attempts] == [
                ("refused", "So.")
            ] * 3


async def test_server_that_may_have_begun_is_asked_once(
    fake: FakeUpstream, execute: Execute, subtests: pytest.Subtests
) -> None:
    for status in FINAL_STATUSES:
        with subtests.test(msg=str(status)):
            fake.clear()

            ended = await execute(refused(status, x_should_retry="true"), stream(TEXT))

            assert ended.status == "failed"
            assert fake.posts == 1


async def test_final_refusal_is_not_retried(
    fake: FakeUpstream, execute: Execute, subtests: pytest.Subtests
) -> None:
    for label, script in FINAL_REFUSALS.items():
        with subtests.test(msg=label):
            fake.clear()

            ended = await execute(script, stream(TEXT))

            assert ended.status == "failed"
            assert fake.posts == 1


@pytest.mark.databases(only="sqlite")
@pytest.mark.parametrize(
    ("asked", "pauses"),
    [(None, [1.0, 4.0]), (7.0, [7.0, 7.0]), (0.0, [0.0, 0.0])],
    ids=["growing", "as the server asked", "at once"],
)
def test_pause_grows_unless_the_server_names_one(
    monkeypatch: pytest.MonkeyPatch, asked: float | None, pauses: list[float]
) -> None:
    monkeypatch.setattr(execution, "BACKOFF_SECONDS", (1.0, 4.0))
    info = canonical.ErrorInfo(kind="overloaded", retryable=True, retry_after_seconds=asked)
    refusal = UpstreamRefused(info, never_accepted=True)

    assert [execution._pause_before_next(refusal, number) for number in (1, 2)] == pauses


async def test_details_show_every_attempt(
    execute: Execute, alice: User, signed_in: Callable[[User], Client]
) -> None:
    ended = await execute(refused(503, times=1, retry_after="0.25"), stream(TEXT))

    def details() -> str:
        address = reverse("run_details", args=[ended.public_id])
        return signed_in(alice).get(address).content.decode()

    page = await threads.call(details)
    assert "Attempts" in page
    assert "The server is overloaded" in page
    assert "asked to wait 0.25 s" in page
    assert "Completed" in page


async def test_result_holds_facts_from_the_headers(execute: Execute) -> None:
    ended = await execute(refused(500, x_request_id="req_7", x_ratelimit_remaining_requests="0"))

    meta = canonical.decode_result(ended.result).ext.meta
    assert meta["request_id"] == "req_7"
    assert meta["rate_limit"] == {"x-ratelimit-remaining-requests": "0"}


# --- the runner goes in the pause before the next attempt ----------------------------------


async def test_drain_in_the_pause_returns_the_run_and_counts_on(
    fake: FakeUpstream,
    queue_run: Execute,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = await queue_run(refused(503))
    with monkeypatch.context() as patch:
        patch.setattr(execution, "BACKOFF_SECONDS", (3600.0, 3600.0))
        runner = await start_runner()
        await until(Attempt.objects.filter(outcome="refused").exists)
        await runner.drain(0)
    left = await row_of(run)
    assert (left.status, left.request_sent_at) == ("queued", None)

    await start_runner()
    ended = await until_ended(run)

    attempts = await threads.call(attempts_of, run)
    assert ended.status == "failed"
    assert [(one.number, one.outcome) for one in attempts] == [
        (1, "refused"),
        (2, "refused"),
        (3, "refused"),
    ]
    assert fake.posts == 3


async def test_run_lost_in_the_pause_is_asked_for_once_more(
    fake: FakeUpstream,
    queue_run: Execute,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chat.runs.runner.HEARTBEATS_PER_LEASE", 600)
    monkeypatch.setattr(execution, "BACKOFF_SECONDS", (3600.0, 3600.0))
    run = await queue_run(refused(429, times=1), stream(TEXT))
    await start_runner()
    await until(Attempt.objects.filter(outcome="refused").exists)

    def is_reaped() -> bool:
        long_ago = timezone.now() - timedelta(minutes=5)
        RunnerRow.objects.update(heartbeat_at=long_ago, host="another")
        return run in reaper.reap()

    with monkeypatch.context() as frozen:
        frozen.setattr(queue, "claim", lambda *args, **options: [])
        # A heartbeat in between proves the runner alive: as often as it takes.
        await until(is_reaped)

    assert (await until_ended(run)).status == "completed"
    assert fake.posts == 2
