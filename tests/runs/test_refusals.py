"""Refused attempts: which are tried again, how often, how long apart, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat import events as canonical
from chat.demo.fake import FakeUpstream
from chat.demo.script import Script, answer, stream
from chat.doorbell import Doorbell
from chat.models import Attempt, Run, User
from chat.models import Runner as RunnerRow
from chat.runs import execution, reaper
from chat.runs.runner import Runner
from chat.runs.tail import MemoryTail
from chat.upstreams.failures import UpstreamRefused
from tests.runs.conftest import MakeRun, StartRunner, threads
from tests.runs.test_execution import TEXT, until, until_ended

pytestmark = pytest.mark.databases

ERROR = {"error": {"message": "So.", "type": "x"}}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "BACKOFF_SECONDS", (0.0, 0.0))


def refused(status: int, *, times: int = 5, **headers: str) -> Script:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return answer(ERROR, status=status, headers=named, times=times)


def attempts_of(run: Run) -> list[Attempt]:
    return list(Attempt.objects.filter(run=run).order_by("number"))


@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_that_has_not_begun_is_asked_three_times_at_most(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, status: int
) -> None:
    fake.script(refused(status))
    run = await threads.call(make_run, base_url=fake.url)

    await start_runner()
    ended = await until_ended(run)

    attempts = await threads.call(attempts_of, ended)
    assert ended.status == "failed"
    assert fake.posts == 3
    assert [(attempt.outcome, attempt.error_message) for attempt in attempts] == [
        ("refused", "So.")
    ] * 3


@pytest.mark.parametrize("status", [400, 401, 404, 408, 409, 413, 500, 502, 504, 529])
async def test_a_server_that_may_have_begun_is_never_asked_twice(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, status: int
) -> None:
    fake.script(refused(status, x_should_retry="true"), stream(TEXT))
    run = await threads.call(make_run, base_url=fake.url)

    await start_runner()
    ended = await until_ended(run)

    assert ended.status == "failed"
    assert fake.posts == 1


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(refused(429, x_should_retry="false"), id="said not to"),
        pytest.param(refused(429, retry_after="31"), id="longer than a person waits"),
        pytest.param(
            answer({"error": {"message": "So.", "code": "insufficient_quota"}}, status=429),
            id="no quota left",
        ),
    ],
)
async def test_a_refusal_that_waiting_does_not_mend_is_shown_at_once(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, script: Script
) -> None:
    fake.script(script, stream(TEXT))
    run = await threads.call(make_run, base_url=fake.url)

    await start_runner()
    ended = await until_ended(run)

    assert ended.status == "failed"
    assert fake.posts == 1


@pytest.mark.parametrize(
    ("asked", "pauses"),
    [(None, [1.0, 4.0]), (7.0, [7.0, 7.0]), (0.0, [0.0, 0.0])],
    ids=["growing", "as the server asked", "at once"],
)
def test_the_pause_grows_unless_the_server_names_one(
    monkeypatch: pytest.MonkeyPatch, asked: float | None, pauses: list[float]
) -> None:
    monkeypatch.setattr(execution, "BACKOFF_SECONDS", (1.0, 4.0))
    info = canonical.ErrorInfo(kind="overloaded", retryable=True, retry_after_seconds=asked)
    refusal = UpstreamRefused(info, never_accepted=True)

    assert [execution._pause_before_next(refusal, number) for number in (1, 2)] == pauses


async def test_every_attempt_is_told_in_the_details(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    alice: User,
    signed_in: Callable[[User], Client],
) -> None:
    fake.script(refused(503, times=1, retry_after="0.25"), stream(TEXT))
    run = await threads.call(make_run, base_url=fake.url)
    await start_runner()
    ended = await until_ended(run)

    def details() -> str:
        address = reverse("run_details", args=[ended.public_id])
        return signed_in(alice).get(address).content.decode()

    page = await threads.call(details)
    assert "Attempts" in page
    assert "The server is overloaded." in page
    assert "asked to wait 0.25 s" in page
    assert "answered to the end" in page


async def test_what_the_headers_told_is_in_the_result(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner
) -> None:
    fake.script(refused(500, x_request_id="req_7", x_ratelimit_remaining_requests="0"))
    run = await threads.call(make_run, base_url=fake.url)

    await start_runner()
    ended = await until_ended(run)

    meta = canonical.decode_result(ended.result).ext.meta
    assert meta["request_id"] == "req_7"
    assert meta["rate_limit"] == {"x-ratelimit-remaining-requests": "0"}


# --- the runner goes in the pause before the next attempt ----------------------------------


async def test_told_to_stop_in_the_pause_it_gives_the_run_back_and_its_attempts_count_on(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake.script(refused(503))
    run = await threads.call(make_run, base_url=fake.url)
    runner = Runner(tail=MemoryTail(), bell=Doorbell())
    with monkeypatch.context() as patch:
        patch.setattr(execution, "BACKOFF_SECONDS", (3600.0, 3600.0))
        await runner.start()
        await until(Attempt.objects.filter(outcome="refused").exists)
        await runner.drain(0)
    left = await threads.call(Run.objects.get, pk=run.pk)
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


async def test_lost_in_the_pause_the_run_goes_back_to_the_line_and_is_asked_for_once_more(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chat.runs.runner.HEARTBEATS_PER_LEASE", 60)
    monkeypatch.setattr("chat.runs.runner.POLL_SECONDS", 0.05)
    monkeypatch.setattr(execution, "BACKOFF_SECONDS", (3600.0, 3600.0))
    fake.script(refused(429, times=1), stream(TEXT))
    run = await threads.call(make_run, base_url=fake.url)
    await start_runner()
    await until(Attempt.objects.filter(outcome="refused").exists)

    def reap() -> list[Run]:
        long_ago = timezone.now() - timedelta(minutes=5)
        RunnerRow.objects.update(heartbeat_at=long_ago, host="elsewhere")
        return reaper.reap()

    # Its heart beats on: as often as it takes to be seen as lost.
    await until(lambda: [one.pk for one in reap()] == [run.pk])

    assert (await until_ended(run)).status == "completed"
    assert fake.posts == 2
