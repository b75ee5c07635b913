"""A PostgreSQL and a Redis of our own, on private ports, which tests can stop and freeze.

They end with the process that started them, however that ends.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from tests.support.browser.site import free_port
from tests.support.machine import POSTGRES_USER, require
from tests.support.processes.site import SOON_SECONDS, soon

# These rows need not survive a power cut. Not `synchronous_commit=off`, which would lose committed
# rows when PostgreSQL is stopped at once: tests do that.
FAST = ("fsync=off", "full_page_writes=off", "max_connections=300", "shared_buffers=64MB")


def _prefix(*, is_postgres: bool = False, ends_with_us: str = "") -> list[str]:
    """The beginning of a command that is sent a signal when this process ends, and that runs as
    PostgreSQL's user if we are root. In one step, because changing the user cancels the signal."""
    options: list[str] = []
    if is_postgres and os.getuid() == 0:
        options += [f"--reuid={POSTGRES_USER}", f"--regid={POSTGRES_USER}", "--clear-groups"]
    if ends_with_us:
        options += ["--pdeathsig", ends_with_us]
    return ["setpriv", *options] if options and shutil.which("setpriv") else []


class Server:
    """A server process of our own on a private port. Start it from the main thread."""

    def __init__(self, prefix: str) -> None:
        # Not below pytest's folder, which other users cannot read; and short enough for a socket.
        self.folder = Path(tempfile.mkdtemp(prefix=prefix))
        self.port = free_port()
        self._log = self.folder / "log"
        self._popen: subprocess.Popen[bytes] | None = None

    def _launch(self, command: Sequence[str]) -> None:
        with self._log.open("ab") as log:
            self._popen = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)

    def _send(self, number: signal.Signals) -> None:
        assert self._popen is not None
        self._popen.send_signal(number)

    def _wait(self) -> None:
        assert self._popen is not None
        self._popen.wait(SOON_SECONDS)

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def is_alive(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    def freeze(self) -> None:
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def start(self) -> None:
        """Returns when it answers."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Starts it; the end of the block removes it."""
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self.is_alive:
            self.thaw()
            self._send(signal.SIGINT)
            try:
                self._wait()
            except subprocess.TimeoutExpired:
                self._send(signal.SIGKILL)
                self._wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class PostgreSQL(Server):
    """A PostgreSQL in a temporary folder. Skips the test where the machine has none.

    ``copy_of`` is the data folder of one that was shut down: copying takes a tenth of the time of
    ``initdb``.
    """

    def __init__(self, copy_of: Path | None = None) -> None:
        self._binaries = Path(require("postgresql"))
        super().__init__("tributary-pg-")
        self.data = self.folder / "data"
        if os.getuid() == 0:
            shutil.chown(self.folder, POSTGRES_USER, POSTGRES_USER)
        if copy_of is not None:
            subprocess.run(["cp", "-a", str(copy_of), str(self.data)], check=True)
            return
        arguments = ["-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        subprocess.run(
            [
                *_prefix(is_postgres=True),
                str(self._binaries / "initdb"),
                *arguments,
                "--no-sync",
                "--no-locale",
            ],
            cwd=self.folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def start(self) -> None:
        options = [f"port={self.port}", "listen_addresses=127.0.0.1", *FAST]
        options.append(f"unix_socket_directories={self.folder}")
        settings = [part for option in options for part in ("-c", option)]
        self._launch(
            [
                *_prefix(is_postgres=True, ends_with_us="QUIT"),
                str(self._binaries / "postgres"),
                *("-D", str(self.data), *settings),
            ]
        )
        soon(self.answers)

    def answers(self) -> bool:
        assert self.is_alive, self.log
        try:
            self._connect("postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """Shuts down: the data folder can be copied afterwards."""
        self._send(signal.SIGINT)
        self._wait()

    def stop_at_once(self) -> None:
        """As ``pg_ctl stop -m immediate``: clients are cut off, and the next start recovers."""
        self._send(signal.SIGQUIT)
        self._wait()

    def url(self, database: str) -> str:
        return f"postgres://postgres@127.0.0.1:{self.port}/{database}"

    def _connect(self, database: str) -> "psycopg.Connection[dict[str, Any]]":
        return psycopg.connect(
            self.url(database), connect_timeout=10, autocommit=True, row_factory=dict_row
        )

    # --- databases -----------------------------------------------------------------------

    def create(self, name: str, *, of: str = "template1") -> None:
        """A copy of a database to which nobody is connected."""
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        with self._connect("postgres") as server:
            server.execute(statement.format(sql.Identifier(name), sql.Identifier(of)))

    def drop(self, name: str) -> None:
        """Disconnects everybody first."""
        with self._connect("postgres") as server:
            server.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            )

    def dump(self, name: str, file: Path) -> None:
        self._run("pg_dump", "--format=custom", f"--file={file}", self.url(name))

    def restore_new(self, name: str, file: Path) -> None:
        """Into a new database of the same name."""
        self.drop(name)
        self.create(name)
        self._run("pg_restore", f"--dbname={self.url(name)}", str(file))

    def restore_in_use(self, name: str, file: Path) -> None:
        """While others are connected: everything is replaced in one transaction."""
        options = ("--clean", "--if-exists", "--single-transaction", f"--dbname={self.url(name)}")
        # It locks all tables, one after the other, as others do: it may lose a deadlock.
        soon(lambda: self._succeeds("pg_restore", *options, str(file)))

    def _succeeds(self, program: str, *arguments: str) -> bool:
        done = subprocess.run([str(self._binaries / program), *arguments], capture_output=True)
        return done.returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run([str(self._binaries / program), *arguments], check=True)


class PostgresRecords:
    """The records of a site on PostgreSQL, with the values that SQLite would give."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._database: psycopg.Connection[dict[str, Any]] | None = None

    def rows(self, statement: str, *values: object) -> list[dict[str, Any]]:
        done = self._execute(statement.replace("?", "%s"), values)
        if done.description is None:
            return []
        return [{name: _plain(value) for name, value in row.items()} for row in done]

    def _execute(
        self, statement: str, values: tuple[object, ...]
    ) -> "psycopg.Cursor[dict[str, Any]]":
        if self._database is not None:
            try:
                return self._database.execute(statement.encode(), values or None)
            except psycopg.OperationalError:
                # PostgreSQL was stopped meanwhile.
                self._database.close()
        self._database = psycopg.connect(
            self._url, connect_timeout=int(SOON_SECONDS), autocommit=True, row_factory=dict_row
        )
        return self._database.execute(statement.encode(), values or None)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _plain(value: object) -> object:
    return value.hex if isinstance(value, UUID) else value


class Redis(Server):
    """Keeps nothing on disk: after a restart it is empty."""

    def __init__(self) -> None:
        require("redis")
        super().__init__("tributary-redis-")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self._launch(
            [
                *_prefix(ends_with_us="KILL"),
                "redis-server",
                *("--port", str(self.port), "--bind", "127.0.0.1", "--save", ""),
                *("--appendonly", "no", "--dir", str(self.folder)),
            ]
        )
        soon(self.answers)

    def answers(self) -> bool:
        assert self.is_alive, self.log
        try:
            return self.tell("PING") == "PONG"
        except subprocess.CalledProcessError:
            return False

    def tell(self, *command: str) -> str:
        done = subprocess.run(
            ["redis-cli", "-p", str(self.port), *command],
            check=True,
            capture_output=True,
            text=True,
            timeout=SOON_SECONDS,
        )
        return done.stdout.strip()

    def kill(self) -> None:
        self._send(signal.SIGKILL)
        self._wait()

    def restart(self) -> None:
        self.kill()
        self.start()
