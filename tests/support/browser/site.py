"""The real site of the crash tests, at an address that a browser can come back to."""

import contextlib
import fcntl
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

from tests.support.browser.serve import FULL
from tests.support.processes.site import Site, World, soon
from tests.support.upstream.fake import FakeUpstream

# Below the range from which systems hand out ports: nobody gets one of these by chance.
PORTS = range(20_000, 32_000)
# A locked file for each port in use, also while nothing listens there: in one place for all runs on this
# machine, whatever their temporary folders.
TAKEN = Path("/tmp", f"tributary-test-ports-{os.getuid()}")
HANG = "hang"


def free_port() -> int:
    """A port that stays ours while the server is down, even if others look for one meanwhile.

    Not chosen by the seed of the tests' order, which is the same for all workers.
    """
    TAKEN.mkdir(exist_ok=True)
    choice = random.SystemRandom()
    while True:
        port = choice.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            take(port)
            probe.bind(("127.0.0.1", port))
            return port


def take(port: int) -> None:
    """For as long as this process lives. Raises ``OSError`` if it is taken."""
    lock = os.open(TAKEN / str(port), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise


class BrowserSite(Site):
    """Keeps its port over restarts, and knows which rooms and runs a test began."""

    # Outlives a test: tabs that show it are worth keeping.
    is_shared = False

    def __init__(self, folder: Path, world: World, fake: FakeUpstream) -> None:
        super().__init__(folder, world, fake)
        self.port = free_port()
        # Ports for proxies from whose addresses pages may open websockets, too.
        self.proxy_ports: list[int] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *, fault: str = "", **settings: str) -> None:
        """Returns when the server serves. ``fault`` is one of `tests.support.browser.serve`."""
        self._log_offset = self._log_path.stat().st_size if self._log_path.exists() else 0
        command = ["-m", "tests.support.browser.serve", fault] if fault else ["manage.py", "serve"]
        origins = [f"http://127.0.0.1:{port}" for port in (self.port, *self.proxy_ports)]
        own = {
            "PORT": str(self.port),
            "LIVE_ORIGINS": ",".join(origins) if self.proxy_ports else "",
        }
        self._run(command, {**own, **settings})
        self.until_ready()

    # --- what a test begins with -------------------------------------------------------

    def room(self, run: UUID) -> str:
        """The address of the conversation in which this run answers."""
        return f"/c/{self.conversation_of(run)}/"

    def settle(self) -> None:
        """Ends whatever a test has left, so that the next one finds the queue empty."""
        soon(self._has_stopped_all)
        for table in ("chat_draft", "chat_presence", "chat_unsentfile"):
            self.rows(f"DELETE FROM {table}")
        self.fake.clear()

    def _has_stopped_all(self) -> bool:
        """Stops also what begins only when another answer ends: a queued message, or what is sent again."""
        self.rows(
            "UPDATE chat_run SET stop_requested_at = CURRENT_TIMESTAMP"
            " WHERE finished_at IS NULL AND stop_requested_at IS NULL"
        )
        return not self.value("SELECT count(*) FROM chat_run WHERE finished_at IS NULL")

    def close_questions(self) -> None:
        """Nothing that other tests have left waits for an answer any more."""
        self.rows("UPDATE chat_question SET status = 'expired' WHERE status IN ('open', 'claimed')")

    def new_session(self, name: str) -> str:
        """Returns the key of a session like the one that this person has."""
        key = uuid4().hex
        self.rows(
            "INSERT INTO django_session (session_key, session_data, expire_date)"
            " SELECT ?, session_data, expire_date FROM django_session WHERE session_key = ?",
            key,
            self.world.sessions[name],
        )
        return key

    @contextlib.contextmanager
    def speaking(self, dialect: str) -> Iterator[None]:
        """Meanwhile the one server speaks another dialect."""
        [before] = self.rows("SELECT dialect, base_url FROM chat_upstream")
        change = "UPDATE chat_upstream SET dialect = ?, base_url = ?"
        self.rows(change, dialect, f"{self.fake.url}/v1")
        try:
            yield
        finally:
            self.rows(change, before["dialect"], before["base_url"])

    @contextlib.contextmanager
    def members_restored(self) -> Iterator[None]:
        """Afterwards the same people are in the team, in the same roles."""
        before = self.rows("SELECT * FROM chat_membership")
        try:
            yield
        finally:
            self.rows("DELETE FROM chat_membership")
            for row in before:
                columns, places = ", ".join(row), ", ".join("?" for _ in row)
                self.rows(
                    f"INSERT INTO chat_membership ({columns}) VALUES ({places})", *row.values()
                )

    # --- faults ------------------------------------------------------------------------

    def fill_database(self) -> None:
        (self.folder / FULL).touch()

    def empty_database(self) -> None:
        (self.folder / FULL).unlink()
