"""A real site in a process of its own, which can be killed and started again."""

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar
from uuid import UUID

import httpx
import msgspec

from chat import events as canonical
from chat.runs.event_buffer import LogEntry
from tests.support.forking import ForkedPython
from tests.support.processes.serve import PAUSE, REACHED
from tests.support.upstream.fake import FakeUpstream

ROOT = Path(__file__).resolve().parents[3]
# A deadline for what should happen at once, on a machine that has other things to do.
SOON_SECONDS = 60.0
# One for a process that is not cached as bytecode and starts beside three others, on a machine whose
# processors are wanted by ten times as many.
READY_SECONDS = 180.0
ORIGIN = "http://tributary.test"
# The built static files of all servers, also of later runs: building them takes two seconds.
STATIC_ROOT = Path(tempfile.gettempdir(), f"tributary-test-static-{os.getuid()}")
CSRF_TOKEN = "a" * 32


class World(msgspec.Struct, frozen=True):
    """Public ids of what the seed made, and everybody's session."""

    team: str
    upstream: str
    sessions: dict[str, str]


def seed(
    folder: Path,
    *,
    module: str = "tests.support.processes.seed",
    root: Path = ROOT,
    **settings: str,
) -> World:
    """``root`` is the source that seeds."""
    made = subprocess.run(
        [sys.executable, "-m", module],
        cwd=root,
        env={**environment(folder), **settings},
        check=True,
        stdout=subprocess.PIPE,
    )
    return msgspec.json.decode(made.stdout, type=World)


def environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {
        **kept,
        "DATA_DIR": str(folder),
        "STATIC_ROOT": str(STATIC_ROOT),
        "LIVE_ORIGINS": ORIGIN,
        # What listens on the usual ports of this machine is no business of the tests.
        "SERVER_PORTS": "",
    }


def soon(holds: Callable[[], Any], *, seconds: float = SOON_SECONDS) -> Any:
    """Polls ``holds`` until its value is true, and returns that. Raises ``TimeoutError``."""
    deadline = time.monotonic() + seconds
    while not (value := holds()):
        if time.monotonic() > deadline:
            raise TimeoutError("it did not happen")
        time.sleep(0.02)
    return value


class Records(Protocol):
    """The database of a site, read and changed past the code under test. ``?`` stands for a value;
    a UUID is 32 hexadecimal digits."""

    def rows(self, statement: str, *values: object) -> list[dict[str, Any]]: ...


class SqliteRecords:
    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self, statement: str, *values: object) -> list[dict[str, Any]]:
        with contextlib.closing(sqlite3.connect(self._path)) as database:
            database.row_factory = sqlite3.Row
            with database:
                return [dict(row) for row in database.execute(statement, values)]


class Process:
    """A management command in a process with a data folder of its own.

    ``settings`` are environment variables of every start.
    """

    command: tuple[str, ...]
    # What it logs when it is ready.
    ready: re.Pattern[str]
    # The source that it runs.
    root = ROOT
    # True if its libraries are imported before it starts. Not where its memory is measured to the end.
    is_forked = True

    def __init__(self, folder: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.settings = dict(settings or {})
        self._popen: subprocess.Popen[bytes] | ForkedPython | None = None
        self._log_path = folder / "server.log"
        self._log_offset = 0

    def start(self, *, change: str = "", **settings: str) -> None:
        """Returns when it is ready. ``change`` is one of `tests.support.processes.serve`."""
        self.launch(change=change, **settings)
        self.until_ready()

    def launch(self, *, change: str = "", **settings: str) -> None:
        """Starts without waiting until it is ready, so that several processes can start together."""
        self._log_offset = self._log_path.stat().st_size if self._log_path.exists() else 0
        main = ["-m", "tests.support.processes.serve", change] if change else ["manage.py"]
        self._run([*main, *self.command], {**self.settings, **settings})

    def _run(self, arguments: Sequence[str], settings: Mapping[str, str]) -> None:
        env = {**environment(self.folder), **settings}
        if self.is_forked and self.root == ROOT:
            self._popen = ForkedPython(arguments, folder=ROOT, environment=env, log=self._log_path)
            return
        with self._log_path.open("ab") as log:
            self._popen = subprocess.Popen(
                [sys.executable, *arguments], cwd=self.root, env=env, stdout=log, stderr=log
            )

    def until_ready(self) -> re.Match[str]:
        return soon(self._readiness, seconds=READY_SECONDS)

    def _readiness(self) -> re.Match[str] | None:
        text = self._log_path.read_bytes()[self._log_offset :].decode(errors="replace")
        found = self.ready.search(text)
        assert found or self.process.poll() is None, text
        return found

    @property
    def process(self) -> "subprocess.Popen[bytes] | ForkedPython":
        assert self._popen is not None
        return self._popen

    @property
    def is_alive(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    @property
    def log(self) -> str:
        return self._log_path.read_text() if self._log_path.exists() else ""

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill9(self) -> None:
        self.process.kill()
        self.process.wait(SOON_SECONDS)

    def terminate(self) -> int:
        """Sends SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SOON_SECONDS)

    def restart(self, **settings: str) -> None:
        self.kill9()
        self.start(**settings)

    def close(self) -> None:
        if self.is_alive:
            self.kill9()

    def until_stopped_at_place(self) -> None:
        soon((self.folder / REACHED).exists)

    def pause_at_place(self) -> None:
        """For changes that only pause there: the next time, until `go_on`."""
        (self.folder / PAUSE).touch()

    def go_on(self) -> None:
        (self.folder / REACHED).unlink()
        (self.folder / PAUSE).unlink()


class Site(Process):
    """A server process on a data directory of its own, what people do there, and its records."""

    command = ("serve", "--port", "0")
    # In both formats of the log.
    ready = re.compile(
        r"serving(?: address=|\", \"address\": \")http://127\.0\.0\.1:(\d+)(?:\"})?\n"
    )

    def __init__(
        self,
        folder: Path,
        world: World,
        fake: FakeUpstream,
        *,
        records: Records | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, settings=settings)
        self.world = world
        self.fake = fake
        self.records = records or SqliteRecords(folder / "tributary.sqlite3")
        self.port = 0

    def until_ready(self) -> re.Match[str]:
        found = super().until_ready()
        self.port = int(found[1])
        return found

    # --- people ------------------------------------------------------------------------

    def headers(self, name: str = "") -> dict[str, str]:
        """Those of a browser in which ``name`` is signed in, or nobody."""
        session = f"sessionid={self.world.sessions[name]}; " if name else ""
        return {"Cookie": f"{session}csrftoken={CSRF_TOKEN}", "X-CSRFToken": CSRF_TOKEN}

    @contextlib.contextmanager
    def browser(self, name: str) -> Iterator[httpx.Client]:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            headers=self.headers(name),
            timeout=SOON_SECONDS,
            trust_env=False,
            # Nothing is encrypted here, and reading all authorities each time takes 30 ms.
            verify=False,
        ) as client:
            yield client

    def post(self, name: str, path: str, /, **fields: str) -> httpx.Response:
        with self.browser(name) as browser:
            return browser.post(path, data=fields)

    def send(
        self, text: str, *, by: str = "Alice", visibility: str = "team", tools: Sequence[UUID] = ()
    ) -> UUID:
        """Begins a conversation; returns the run that answers."""
        with self.browser(by) as browser:
            return self.send_from(browser, text, visibility=visibility, tools=tools)

    def send_from(
        self,
        browser: httpx.Client,
        text: str,
        *,
        visibility: str = "team",
        tools: Sequence[UUID] = (),
    ) -> UUID:
        key = uuid.uuid4()
        form = {
            "text": text,
            "choice": f"{self.world.upstream}:test/model",
            "key": str(key),
            "team": self.world.team,
            "visibility": visibility,
            "tools": [str(each) for each in tools],
        }
        answer = browser.post("/c/", data=form)
        assert answer.status_code == 302, answer.text
        return self._run_of(key)

    def retry(self, run: UUID, *, by: str = "Alice") -> UUID:
        """Tries the answer again; returns the new run."""
        key = uuid.uuid4()
        answer = self.post(by, f"/m/{self.message_of(run)}/retry/", key=str(key))
        assert answer.status_code == 302, answer.text
        return self._run_of(key)

    def stop_run(self, run: UUID, *, by: str = "Alice") -> None:
        answer = self.post(by, f"/r/{run}/stop/")
        assert answer.status_code == 302, answer.text

    def _run_of(self, key: UUID) -> UUID:
        return UUID(self.value("SELECT public_id FROM chat_run WHERE idempotency_key = ?", key.hex))

    def settle(self) -> None:
        """Ends what a test has left, so that the next one finds an idle site and a fresh fake."""
        for gate in list(self.fake.waiting):
            self.fake.release(gate)
        self.rows(
            "UPDATE chat_run SET stop_requested_at = CURRENT_TIMESTAMP WHERE finished_at IS NULL"
        )
        soon(lambda: not self.value("SELECT count(*) FROM chat_run WHERE finished_at IS NULL"))
        soon(lambda: all(one.outcome != "open" for one in list(self.fake.requests)))
        self.fake.clear()

    # --- the records ---------------------------------------------------------------------

    def rows(self, statement: str, *values: object) -> list[dict[str, Any]]:
        return self.records.rows(statement, *values)

    def value(self, statement: str, *values: object) -> Any:
        (row,) = self.rows(statement, *values)
        return next(iter(row.values()))

    def run(self, run: UUID) -> dict[str, Any]:
        (row,) = self.rows("SELECT * FROM chat_run WHERE public_id = ?", run.hex)
        return row

    def message_of(self, run: UUID) -> UUID:
        return UUID(
            self.value(
                "SELECT m.public_id FROM chat_message m JOIN chat_run r ON r.message_id = m.id"
                " WHERE r.public_id = ?",
                run.hex,
            )
        )

    def conversation_of(self, run: UUID) -> UUID:
        return UUID(
            self.value(
                "SELECT c.public_id FROM chat_conversation c JOIN chat_run r"
                " ON r.conversation_id = c.id WHERE r.public_id = ?",
                run.hex,
            )
        )

    def until_ended(self, run: UUID) -> dict[str, Any]:
        soon(lambda: self.run(run)["finished_at"])
        return self.run(run)

    def entries(self, run: UUID) -> list[LogEntry]:
        """The log, read without the code under test except for the splitting of JSON."""
        segments = self.rows(
            "SELECT * FROM chat_runsegment WHERE run_id = ? ORDER BY first_seq", self.run(run)["id"]
        )
        entries: list[LogEntry] = []
        for row in segments:
            body = zlib.decompress(row["body"]) if row["is_compressed"] else row["body"]
            bodies = canonical.split_bodies(body)
            assert row["first_seq"] == len(entries) + 1
            assert row["last_seq"] == row["first_seq"] + len(bodies) - 1
            entries += [LogEntry(row["first_seq"] + at, each) for at, each in enumerate(bodies)]
        return entries


SiteKind = TypeVar("SiteKind", bound=Site)


@contextlib.contextmanager
def site_from(
    template: Path, folder: Path, world: World, *, kind: type[SiteKind]
) -> Iterator[SiteKind]:
    """A site that has not been started, on a copy of ``template``, with a fake upstream."""
    shutil.copytree(template, folder, dirs_exist_ok=True)
    fake = FakeUpstream.start_in_thread()
    site = kind(folder, world, fake)
    site.rows("UPDATE chat_upstream SET base_url = ?", fake.url)
    try:
        yield site
    finally:
        site.close()
        fake.stop()


def body_of(entry: LogEntry) -> dict[str, Any]:
    return dict(json.loads(entry.body))
