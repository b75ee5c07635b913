"""The endpoints for health and metrics of the web server: who sees what, and what counts as ready."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from chat.core.process import Process
from chat.core.threads import DatabaseThreads
from chat.health.checks import Checks
from chat.health.database import Database, DatabaseProbe
from chat.models import Runner, User
from tests.health.helpers import NEAR, STRANGER, TOKEN, request
from tests.live.conftest import SignIn, sign_in  # noqa: F401 - a fixture
from tests.support.rooms import TOKEN as FORM_TOKEN

threads = DatabaseThreads("test", size=1)


@pytest.fixture(autouse=True)
async def _threads() -> Any:
    yield
    await threads.close()


class HangingDatabase(DatabaseProbe):
    """Takes a question and does not answer until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.questions = 0
        self.released = threading.Event()

    def database(self) -> Database:
        self.questions += 1
        self.released.wait(60)
        return super().database()


# --- /healthz ---------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["10.1.2.3:8000", "evil.example.com", ""])
async def test_anybody_may_ask_whether_the_process_is_alive(host: str) -> None:
    answer = await request("/healthz", headers={"host": host, "cookie": "sessionid=abc"})

    assert (answer.status, answer.json) == (200, {"status": "ok"})
    assert b"set-cookie" not in answer.headers
    assert answer.headers[b"cache-control"] == b"no-store"


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_only_reading_is_possible(path: str) -> None:
    assert (await request(path, method="POST")).status == 405
    assert (await request("/healthz", method="HEAD")).body == b""


# --- /readyz ------------------------------------------------------------------------------


async def test_stranger_sees_one_word(runner_row: Runner, checks: Checks, process: Process) -> None:
    answer = await request("/readyz")

    assert (answer.status, answer.json) == (200, {"status": "ok"})


async def test_allowed_reader_sees_everything(
    runner_row: Runner, checks: Checks, process: Process
) -> None:
    shown = (await request("/readyz", peer=NEAR)).json

    assert shown["status"] == "ok"
    assert shown["problems"] == []
    assert shown["database"]["status"] == "ok"
    assert abs(shown["database"]["clock_offset_seconds"]) < 60
    assert shown["redis"] == "off"
    assert {key: shown["runners"][key] for key in ("alive", "draining", "lost")} == {
        "alive": 1,
        "draining": 0,
        "lost": 0,
    }
    assert "another-machine" not in str(shown)


async def test_missing_runner_degrades(
    transactional_db: None, checks: Checks, process: Process
) -> None:
    answer = await request("/readyz", peer=NEAR)

    assert answer.status == 200
    assert answer.json["status"] == "degraded"
    assert answer.json["problems"] == ["No runner is online, so messages stay queued."]


async def test_runner_with_an_old_heartbeat_is_lost(
    transactional_db: None, checks: Checks, process: Process
) -> None:
    await threads.call(Runner.objects.create, host="x", pid=1, heartbeat_at="2020-01-01T00:00Z")
    await threads.call(Runner.objects.create, host="x", pid=2, is_draining=True)

    shown = (await request("/readyz", peer=NEAR)).json

    assert shown["status"] == "degraded"
    assert (shown["runners"]["lost"], shown["runners"]["draining"]) == (1, 1)


async def test_missing_redis_degrades(
    runner_row: Runner, checks: Checks, process: Process, settings: Any
) -> None:
    settings.REDIS_URL = "redis://:pass-word-of-redis@127.0.0.1:9/0"

    answer = await request("/readyz", peer=NEAR)

    assert (answer.status, answer.json["redis"]) == (200, "away")
    assert answer.json["status"] == "degraded"
    assert "pass-word" not in answer.text


@pytest.mark.parametrize("phase", ["drains", "begins"])
async def test_starting_or_draining_process_is_not_ready(
    runner_row: Runner, checks: Checks, process: Process, phase: str
) -> None:
    if phase == "drains":
        process.drains()
    else:
        process.begins("web", "1")

    answer = await request("/readyz")
    await process.ends()

    assert (answer.status, answer.json) == (503, {"status": "unavailable"})


async def test_missing_migrations_prevent_readiness(
    transactional_db: None, checks: Checks, process: Process
) -> None:
    recorder = MigrationRecorder(connection)
    name = await threads.call(
        lambda: recorder.migration_qs.filter(app="chat").order_by("-name").first().name
    )
    await threads.call(recorder.record_unapplied, "chat", name)
    try:
        answer = await request("/readyz", peer=NEAR)
    finally:
        await threads.call(recorder.record_applied, "chat", name)

    assert answer.status == 503
    assert "migrate" in answer.json["problems"][0]


async def test_hanging_database_is_asked_once(
    runner_row: Runner, checks: Checks, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = HangingDatabase()
    monkeypatch.setattr(checks, "_probe", hanging)
    monkeypatch.setattr(checks, "_database_seconds", 0.05)

    answers = await asyncio.gather(*(request("/readyz", peer=NEAR) for _ in range(5)))
    checks.findings.value = None
    later = await request("/readyz", peer=NEAR)
    alive = await request("/healthz")

    assert {answer.status for answer in [*answers, later]} == {503}
    assert later.json["database"] == {"status": "away", "error": "timeout"}
    assert later.json["runners"] is None
    assert alive.status == 200

    hanging.released.set()
    monkeypatch.setattr(checks, "_database_seconds", 60)
    assert checks._unanswered is not None
    async with asyncio.timeout(60):
        await checks._unanswered
    assert hanging.questions == 1
    checks.findings.value = None
    assert (await request("/readyz")).status == 200


async def test_answer_is_reused_for_a_moment(
    runner_row: Runner, checks: Checks, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = 0
    look = checks._probe.database

    def counted() -> Database:
        nonlocal questions
        questions += 1
        return look()

    monkeypatch.setattr(checks._probe, "database", counted)
    monkeypatch.setattr(checks.findings, "_seconds", 3600)

    for _ in range(5):
        await request("/readyz")

    assert questions == 1


async def test_cut_connection_is_opened_again(
    runner_row: Runner, checks: Checks, process: Process
) -> None:
    await request("/readyz")
    kept = checks._probe._connection
    assert kept is not None
    await checks._worker.call(lambda: kept.connection.close())
    checks.findings.value = None

    assert (await request("/readyz")).status == 200


# --- /metrics -----------------------------------------------------------------------------


async def test_allowed_reader_gets_the_metrics(
    runner_row: Runner, checks: Checks, process: Process, settings: Any
) -> None:
    settings.METRICS_TOKEN = TOKEN

    near = await request("/metrics", peer=NEAR)
    far = await request("/metrics", headers={"authorization": f"Bearer {TOKEN}"})

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
async def test_metrics_do_not_exist_for_others(
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

    answer = await request("/metrics", session=session)
    missing = await request("/nothing-is-here", session=session)

    assert answer.status == status
    bodies = [FORM_TOKEN.sub(b"", each.body) for each in (answer, missing)]
    assert (bodies[0] == bodies[1]) is (status == 404)
    shown = (await request("/readyz", session=session)).json
    assert ("version" in shown) is (status == 200)


@pytest.mark.usefixtures("_allowed")
async def test_disabled_administrator_sees_nothing(
    runner_row: Runner,
    checks: Checks,
    process: Process,
    sign_in: SignIn,  # noqa: F811
    administrator: User,
) -> None:
    session = await threads.call(sign_in, administrator)
    await threads.call(User.objects.filter(pk=administrator.pk).update, is_active=False)

    assert (await request("/metrics", peer=STRANGER, session=session)).status == 404


async def test_unknown_values_are_left_out(
    transactional_db: None, checks: Checks, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = HangingDatabase()
    monkeypatch.setattr(checks, "_probe", hanging)
    monkeypatch.setattr(checks, "_database_seconds", 0.05)

    page = (await request("/metrics", peer=NEAR)).text
    hanging.released.set()

    assert "tributary_database_up 0.0" in page
    assert "\ntributary_runs{" not in page
    assert "\ntributary_runners{" not in page
