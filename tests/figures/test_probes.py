"""Health and figures at the web server: who is told what, and what counts as able to serve."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from chat.health.checks import Checks
from chat.health.database import Database, Looker
from chat.health.process import Process
from chat.models import Runner, User
from chat.runs.database import DatabaseThreads
from tests.figures.asking import NEAR, STRANGER, ask
from tests.live.conftest import SignIn, sign_in  # noqa: F401 - a fixture

TOKEN = "figures-7Qx2mWvK"
threads = DatabaseThreads("test", size=1)


@pytest.fixture(autouse=True)
async def _threads() -> Any:
    yield
    await threads.close()


class Hanging(Looker):
    """A database that takes the question and never answers, until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.let_go = threading.Event()

    def database(self) -> Database:
        self.asked += 1
        self.let_go.wait(60)
        return super().database()


# --- is it alive ------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["10.1.2.3:8000", "evil.example.com", ""])
async def test_a_process_that_lives_says_so_to_anybody_and_asks_nothing(host: str) -> None:
    answer = await ask("/healthz", headers={"host": host, "cookie": "sessionid=abc"})

    assert (answer.status, answer.json) == (200, {"status": "ok"})
    assert b"set-cookie" not in answer.headers
    assert answer.headers[b"cache-control"] == b"no-store"


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_only_reading_is_possible(path: str) -> None:
    assert (await ask(path, method="POST")).status == 405
    assert (await ask("/healthz", method="HEAD")).body == b""


# --- can it serve -------------------------------------------------------------------------


async def test_a_stranger_is_told_one_word(
    runner_row: Runner, checks: Checks, process: Process
) -> None:
    answer = await ask("/readyz")

    assert (answer.status, answer.json) == (200, {"status": "ok"})


async def test_who_may_see_is_told_everything(
    runner_row: Runner, checks: Checks, process: Process
) -> None:
    told = (await ask("/readyz", peer=NEAR)).json

    assert told["status"] == "ok"
    assert told["problems"] == []
    assert told["database"]["status"] == "ok"
    assert abs(told["database"]["clock_offset_seconds"]) < 60
    assert told["redis"] == "off"
    assert {key: told["runners"][key] for key in ("alive", "draining", "lost")} == {
        "alive": 1,
        "draining": 0,
        "lost": 0,
    }
    assert "elsewhere" not in str(told)


async def test_without_a_runner_it_serves_and_says_what_is_missing(
    transactional_db: None, checks: Checks, process: Process
) -> None:
    answer = await ask("/readyz", peer=NEAR)

    assert answer.status == 200
    assert answer.json["status"] == "degraded"
    assert answer.json["problems"] == ["No runner is alive: messages wait in line."]


async def test_a_runner_whose_heartbeat_is_old_is_lost(
    transactional_db: None, checks: Checks, process: Process
) -> None:
    await threads.call(Runner.objects.create, host="x", pid=1, heartbeat_at="2020-01-01T00:00Z")
    await threads.call(Runner.objects.create, host="x", pid=2, is_draining=True)

    told = (await ask("/readyz", peer=NEAR)).json

    assert told["status"] == "degraded"
    assert (told["runners"]["lost"], told["runners"]["draining"]) == (1, 1)


async def test_without_redis_it_serves_and_says_so(
    runner_row: Runner, checks: Checks, process: Process, settings: Any
) -> None:
    settings.REDIS_URL = "redis://:pass-word-of-redis@127.0.0.1:9/0"

    answer = await ask("/readyz", peer=NEAR)

    assert (answer.status, answer.json["redis"]) == (200, "away")
    assert answer.json["status"] == "degraded"
    assert "pass-word" not in answer.text


@pytest.mark.parametrize("phase", ["drains", "begins"])
async def test_a_process_that_ends_or_has_not_begun_does_not_serve(
    runner_row: Runner, checks: Checks, process: Process, phase: str
) -> None:
    if phase == "drains":
        process.drains()
    else:
        process.begins("web", "1")

    answer = await ask("/readyz")
    await process.ends()

    assert (answer.status, answer.json) == (503, {"status": "unavailable"})


async def test_missing_migrations_keep_it_from_serving(
    transactional_db: None, checks: Checks, process: Process
) -> None:
    recorder = MigrationRecorder(connection)
    name = await threads.call(
        lambda: recorder.migration_qs.filter(app="chat").order_by("-name").first().name
    )
    await threads.call(recorder.record_unapplied, "chat", name)
    try:
        answer = await ask("/readyz", peer=NEAR)
    finally:
        await threads.call(recorder.record_applied, "chat", name)

    assert answer.status == 503
    assert "migrate" in answer.json["problems"][0]


async def test_a_database_that_hangs_is_given_up_on_and_asked_once(
    runner_row: Runner, checks: Checks, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = Hanging()
    monkeypatch.setattr(checks, "_looker", hanging)
    monkeypatch.setattr(checks, "_database_seconds", 0.05)

    answers = await asyncio.gather(*(ask("/readyz", peer=NEAR) for _ in range(5)))
    checks.findings.value = None
    later = await ask("/readyz", peer=NEAR)
    alive = await ask("/healthz")

    assert {answer.status for answer in [*answers, later]} == {503}
    assert later.json["database"] == {"status": "away", "error": "timeout"}
    assert later.json["runners"] is None
    assert alive.status == 200

    hanging.let_go.set()
    monkeypatch.setattr(checks, "_database_seconds", 60)
    assert checks._unanswered is not None
    async with asyncio.timeout(60):
        await checks._unanswered
    assert hanging.asked == 1
    checks.findings.value = None
    assert (await ask("/readyz")).status == 200


async def test_an_answer_is_kept_for_a_moment(
    runner_row: Runner, checks: Checks, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    look = checks._looker.database

    def counted() -> Database:
        nonlocal asked
        asked += 1
        return look()

    monkeypatch.setattr(checks._looker, "database", counted)
    monkeypatch.setattr(checks.findings, "_seconds", 3600)

    for _ in range(5):
        await ask("/readyz")

    assert asked == 1


async def test_a_connection_that_was_cut_is_no_missing_database(
    runner_row: Runner, checks: Checks, process: Process
) -> None:
    await ask("/readyz")
    kept = checks._looker._connection
    assert kept is not None
    await checks._worker.call(lambda: kept.connection.close())
    checks.findings.value = None

    assert (await ask("/readyz")).status == 200


# --- the figures --------------------------------------------------------------------------


async def test_whoever_may_see_gets_the_figures(
    runner_row: Runner, checks: Checks, process: Process, settings: Any
) -> None:
    settings.METRICS_TOKEN = TOKEN

    near = await ask("/metrics", peer=NEAR)
    far = await ask("/metrics", headers={"authorization": f"Bearer {TOKEN}"})

    assert (near.status, far.status) == (200, 200)
    assert near.headers[b"content-type"].startswith(b"text/plain; version=")
    assert 'tributary_runners{state="alive"} 1.0' in near.text
    assert "tributary_database_up 1.0" in near.text
    assert "process_resident_memory_bytes" in near.text


@pytest.fixture
def _allowed(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["10.1.2.3"]


@pytest.mark.usefixtures("_allowed")
@pytest.mark.parametrize(("actor", "status"), [("", 404), ("bob", 404), ("administrator", 200)])
async def test_to_others_the_figures_do_not_exist(
    actor: str,
    status: int,
    runner_row: Runner,
    checks: Checks,
    process: Process,
    sign_in: SignIn,  # noqa: F811
    bob: User,
    administrator: User,
) -> None:
    people = {"bob": bob, "administrator": administrator}
    session = await threads.call(sign_in, people[actor]) if actor else ""

    answer = await ask("/metrics", session=session)
    missing = await ask("/nothing-is-here", session=session)

    assert answer.status == status
    assert (answer.body == missing.body) is (status == 404)
    told = (await ask("/readyz", session=session)).json
    assert ("version" in told) is (status == 200)


@pytest.mark.usefixtures("_allowed")
async def test_an_administrator_who_is_switched_off_sees_nothing(
    runner_row: Runner,
    checks: Checks,
    process: Process,
    sign_in: SignIn,  # noqa: F811
    administrator: User,
) -> None:
    session = await threads.call(sign_in, administrator)
    await threads.call(User.objects.filter(pk=administrator.pk).update, is_active=False)

    assert (await ask("/metrics", peer=STRANGER, session=session)).status == 404


async def test_what_is_not_known_is_not_shown(
    transactional_db: None, checks: Checks, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = Hanging()
    monkeypatch.setattr(checks, "_looker", hanging)
    monkeypatch.setattr(checks, "_database_seconds", 0.05)

    page = (await ask("/metrics", peer=NEAR)).text
    hanging.let_go.set()

    assert "tributary_database_up 0.0" in page
    assert "\ntributary_runs{" not in page
    assert "\ntributary_runners{" not in page
