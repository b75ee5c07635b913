"""PostgreSQL and Redis are restarted while exports and imports are under way: each conversation is there
once, and a file is whole."""

import os
import signal
from collections.abc import Callable
from functools import partial

import pytest

from tests.support.cluster.cluster import Cluster, RunnerProcess
from tests.support.processes.jobs import (
    exported,
    path_of,
    start_export,
    start_import,
    titles,
    titles_in,
    titles_of,
    until_ended,
    until_last_ended,
)
from tests.support.processes.site import soon

Fault = Callable[[Cluster], object]


def restart_postgres(cluster: Cluster) -> None:
    cluster.postgres.stop_at_once()
    cluster.postgres.start()


def end_connections(cluster: Cluster) -> None:
    """As an administrator or a failover does."""
    ended = cluster.rows(
        "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid != pg_backend_pid()"
    )
    assert ended


def kill_a_backend(cluster: Cluster) -> None:
    """With signal 9, upon which PostgreSQL ends all others and recovers."""
    backends = cluster.rows(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid != pg_backend_pid() ORDER BY xact_start NULLS LAST"
    )
    log = cluster.postgres.log
    os.kill(backends[0]["pid"], signal.SIGKILL)
    soon(lambda: "all server processes terminated" in cluster.postgres.log[len(log) :])
    soon(cluster.postgres.answers)


def restart_redis(cluster: Cluster) -> None:
    assert cluster.redis is not None
    cluster.redis.restart()


def end_redis(cluster: Cluster) -> None:
    """It comes back when the job has ended."""
    assert cluster.redis is not None
    cluster.redis.kill()


DATABASE_FAULTS = (restart_postgres, end_connections, kill_a_backend)
REDIS_FAULTS = (restart_redis, end_redis)


@pytest.fixture
def cluster(own_cluster: Cluster) -> Cluster:
    own_cluster.web.start()
    return own_cluster


def started_runners(cluster: Cluster, *places: str) -> list[RunnerProcess]:
    """One for each place, at which it pauses when it is told to."""
    runners = [cluster.extra_runner() for _ in places]
    for runner, place in zip(runners, places, strict=True):
        runner.launch(change=place)
    for runner in runners:
        runner.until_ready()
    return runners


def break_during(
    cluster: Cluster, runners: list[RunnerProcess], fault: Fault, *starts: Callable[[], None]
) -> None:
    """Each runner pauses in one of the jobs, while the fault happens."""
    for runner in runners:
        runner.pause_at_place()
    for start in starts:
        start()
    for runner in runners:
        runner.until_stopped_at_place()
    fault(cluster)
    for runner in runners:
        runner.go_on()


def attempts_after(fault: Fault) -> int:
    """Without Redis nothing begins again; with a connection that was lost, the job does."""
    return 1 if fault in REDIS_FAULTS else 2


@pytest.mark.timeout(600)
def test_import_goes_on(cluster: Cluster) -> None:
    runners = started_runners(cluster, "pausing_in_import", "pausing_inside_import")
    known: list[str] = []
    for fault in (*DATABASE_FAULTS, *REDIS_FAULTS):
        names = [f"{fault.__name__} {number}" for number in range(len(runners))]
        starts = [partial(start_import, cluster.web, exported(name)) for name in names]
        break_during(cluster, runners, fault, *starts)
        jobs = until_last_ended(cluster.web, "import", len(runners))

        known += [title for name in names for title in titles_of(name)]
        assert titles(cluster.web) == sorted(known)
        for job in jobs:
            assert job["attempts"] == attempts_after(fault)
            assert (job["created"], job["skipped"], job["error"]) == (4, 0, "")
        start_redis(cluster)
    assert [
        (row["created"], row["skipped"]) for row in cluster.rows("SELECT * FROM chat_import")
    ] == [(4, 0)] * 10
    verbs = cluster.rows("SELECT verb FROM chat_auditevent WHERE verb = 'import.created'")
    assert len(verbs) == 10


@pytest.mark.timeout(600)
def test_export_begins_again(cluster: Cluster) -> None:
    runners = started_runners(cluster, "pausing_in_export")
    start_import(cluster.web)
    until_ended(cluster.web, "import")

    for fault in (*DATABASE_FAULTS, *REDIS_FAULTS):
        break_during(cluster, runners, fault, partial(start_export, cluster.web))
        job = until_ended(cluster.web, "export")

        assert job["attempts"] == attempts_after(fault)
        with cluster.web.browser("Alice") as browser:
            archive = browser.get(path_of(job, "file")).content
        assert len(archive) == job["size_bytes"]
        assert titles_in(archive) == titles_of()
        start_redis(cluster)
    stored = (
        "SELECT sum(length(body)) AS bytes FROM chat_jobchunk c JOIN chat_job j ON j.id = job_id"
    )
    sizes = "SELECT sum(size_bytes) FROM chat_job WHERE kind = 'export'"
    assert cluster.value(f"{stored} WHERE kind = 'export'") == cluster.value(sizes)


def start_redis(cluster: Cluster) -> None:
    if cluster.redis is not None and not cluster.redis.is_alive:
        cluster.redis.start()


def test_job_that_is_queued_while_redis_is_gone_is_done(cluster: Cluster) -> None:
    """Its announcement is lost, and the runner looks by itself. It does so again when Redis is back."""
    assert cluster.redis is not None
    runner = cluster.extra_runner()
    runner.start()
    cluster.redis.kill()

    start_import(cluster.web)
    job = until_ended(cluster.web, "import")

    assert (job["attempts"], job["created"]) == (1, 4)
    assert titles(cluster.web) == titles_of()
    cluster.redis.start()
    start_export(cluster.web)
    assert until_ended(cluster.web, "export")["attempts"] == 1
