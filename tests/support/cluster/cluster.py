"""Web processes and runners on one PostgreSQL and one Redis, as on several machines: each has a data
folder of its own, and they share nothing but the addresses and the keys."""

import os
import re
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.fernet import Fernet

from tests.support.browser.site import free_port
from tests.support.databases import MIGRATED
from tests.support.processes.site import ORIGIN, SOON_SECONDS, Process, Site, World, seed, soon
from tests.support.servers import PostgreSQL, PostgresRecords, Redis
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import Gate

SEEDED = "seeded"
# A runner without a heartbeat for so long is lost. Not shorter: on a busy machine a process may be
# late by seconds, and must not be taken for a dead one.
LEASE_SECONDS = 6
DRAIN_SECONDS = 20
KEYS = {
    "SECRET_KEY": "of a cluster that lives for one run of the tests",
    "ENCRYPTION_KEYS": Fernet.generate_key().decode(),
}
SETTINGS = {
    **KEYS,
    "RUNNER": "external",
    "LEASE_SECONDS": str(LEASE_SECONDS),
    "DRAIN_SECONDS": str(DRAIN_SECONDS),
    "UPSTREAM_PRIVATE_NETWORKS": "any",
    "RUNS_PER_PERSON": "1000",
    "CONNECTIONS_PER_PERSON": "1000",
}


def seed_database(postgres: PostgreSQL, folder: Path) -> World:
    """Makes the database of which every cluster gets a copy."""
    postgres.create(SEEDED, of=MIGRATED)
    world = seed(folder, DATABASE_URL=postgres.url(SEEDED), **KEYS)
    records = PostgresRecords(postgres.url(SEEDED))
    records.rows("UPDATE chat_upstream SET concurrency_limit = 1000")
    # Of a database to which somebody is connected no copy can be made.
    records.close()
    return world


class Web(Site):
    """A web process."""

    def keep_port(self) -> None:
        """Call it before the start: then browsers find the process at the same address again."""
        self.port = port = free_port()
        self.command = ("serve", "--port", str(port))
        self.settings |= {"PORT": str(port), "LIVE_ORIGINS": f"{ORIGIN},http://127.0.0.1:{port}"}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class RunnerProcess(Process):
    command = ("runner",)
    ready = re.compile(r"runner\.started runner=(\S+)")

    @property
    def pid(self) -> int:
        return self.process.pid


class Cluster:
    """Two web processes and two runners, one of them on httpx's own transport, or one of each.

    `heal` starts what is not running; `settle` ends what a test has left. The database is a copy of
    ``of``.
    """

    def __init__(
        self,
        folder: Path,
        world: World,
        *,
        postgres: PostgreSQL,
        redis: Redis | None,
        database: str,
        fake: FakeUpstream,
        size: int = 2,
        of: str = SEEDED,
    ) -> None:
        self.folder = folder
        self.world = world
        self.postgres = postgres
        self.redis = redis
        self.database = database
        self.fake = fake
        self.records = PostgresRecords(postgres.url(database))
        self.settings = {
            **SETTINGS,
            "DATABASE_URL": postgres.url(database),
            "REDIS_URL": redis.url if redis else "",
        }
        self.webs = [self._web(f"web{number}") for number in range(1, size + 1)]
        self.runners = [self.runner("runner1"), self.runner("runner2")][:size]
        self._extra: list[RunnerProcess] = []
        postgres.create(database, of=of)
        self.rows("UPDATE chat_upstream SET base_url = ?", fake.url)

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder

    def _web(self, name: str) -> Web:
        return Web(
            self._folder(name), self.world, self.fake, records=self.records, settings=self.settings
        )

    def runner(self, name: str, **settings: str) -> RunnerProcess:
        """A runner that has not been started."""
        return RunnerProcess(self._folder(name), settings={**self.settings, **settings})

    def extra_runner(self, **settings: str) -> RunnerProcess:
        """For one test. Not started."""
        runner = self.runner(f"extra-{uuid.uuid4().hex[:8]}", **settings)
        self._extra.append(runner)
        return runner

    def only_runner(self, **settings: str) -> RunnerProcess:
        """A started runner that has all runs: the others have exited."""
        runner = self.extra_runner(**settings)
        runner.launch()
        self.terminate(self.runners)
        runner.until_ready()
        return runner

    @staticmethod
    def terminate(processes: Sequence[Process]) -> None:
        """All of them at the same time."""
        for process in processes:
            process.process.terminate()
        for process in processes:
            assert process.process.wait(SOON_SECONDS) == 0

    @property
    def web(self) -> Web:
        return self.webs[0]

    @property
    def processes(self) -> list[Process]:
        return [*self.webs, *self.runners, *self._extra]

    # --- life --------------------------------------------------------------------------

    def heal(self) -> None:
        """Starts whatever is not running."""
        if not self.postgres.is_alive:
            self.postgres.start()
        if self.redis is not None and not self.redis.is_alive:
            self.redis.start()
        missing = [one for one in (*self.webs, *self.runners) if not one.is_alive]
        for process in missing:
            process.launch()
        for process in missing:
            process.until_ready()

    def settle(self) -> None:
        """Ends what is under way, so that the next test finds an idle cluster."""
        for runner in self._extra:
            runner.close()
        self._extra.clear()
        self.heal()
        self.rows("UPDATE chat_upstream SET concurrency_limit = 1000")
        self.web.settle()

    def close(self) -> None:
        for process in self.processes:
            process.close()
        self.records.close()
        if self.postgres.is_alive:
            self.postgres.drop(self.database)

    # --- records and processes -------------------------------------------------------------

    def rows(self, statement: str, *values: object) -> list[dict[str, Any]]:
        return self.records.rows(statement, *values)

    def value(self, statement: str, *values: object) -> Any:
        (row,) = self.rows(statement, *values)
        return next(iter(row.values()))

    def executing(self, run: UUID) -> RunnerProcess:
        """The runner that executes the run; waits until one has claimed it."""
        statement = (
            "SELECT pid FROM chat_runner JOIN chat_run ON runner_id = uuid WHERE public_id = ?"
        )
        (row,) = soon(lambda: self.rows(statement, run.hex))
        return next(one for one in self._all_runners() if one.pid == row["pid"])

    def _all_runners(self) -> Iterator[RunnerProcess]:
        return (one for one in (*self.runners, *self._extra) if one.is_alive)

    def other(self, runner: RunnerProcess) -> RunnerProcess:
        return next(one for one in self.runners if one is not runner)

    def gate(self) -> Gate:
        return Gate(name=uuid.uuid4().hex)


def resident_bytes(process: Process) -> int:
    status = Path(f"/proc/{process.process.pid}/statm").read_text()
    return int(status.split()[1]) * os.sysconf("SC_PAGE_SIZE")
