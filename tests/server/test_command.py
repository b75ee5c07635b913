"""The serve command: what it refuses, and the line it prints when it serves."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import socket
from pathlib import Path

import pytest

from project.startup import FileLock, HeldElsewhere
from tests.server.command import ServeCommand
from tests.support.forking import SOON_SECONDS

pytestmark = pytest.mark.process


def served_port(process: ServeCommand) -> int:
    """Waits for the line that says where; fails on anything else that is printed."""
    line = process.stderr.readline()
    found = re.search(r"serving address=http://127\.0\.0\.1:(\d+)$", line)
    assert found is not None, line + process.stderr.read()
    return int(found[1])


def refusal(process: ServeCommand, returncode: int = 2) -> str:
    """The one line on which it gave up."""
    assert process.stdout.read() == ""
    error = process.stderr.read()
    assert process.wait() == returncode, error
    assert error.count("\n") == 1
    return error


def status_of(process: ServeCommand, method: str, path: str, body: bytes = b"") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", served_port(process), timeout=SOON_SECONDS)
    with contextlib.closing(connection):
        connection.request(method, path, body=body)
        return connection.getresponse().status


def test_server_says_where_it_serves(tmp_path: Path) -> None:
    with ServeCommand(tmp_path) as process:
        assert status_of(process, "GET", "/show-scope") == 200


def test_body_limit_comes_from_the_settings(tmp_path: Path) -> None:
    with ServeCommand(tmp_path, MAX_BODY_BYTES="1000") as process:
        assert status_of(process, "POST", "/count-body", b"x" * 1001) == 413


def test_lifespan_starts_and_stops_with_the_server(tmp_path: Path) -> None:
    with ServeCommand(tmp_path) as process:
        served_port(process)
        process.signal(signal.SIGTERM)

        assert process.stdout.read().splitlines() == ["started", "stopped"]
        assert process.wait() == 0


# --- one server for each data directory -----------------------------------------------------------


def test_second_server_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with ServeCommand(tmp_path) as first:
        served_port(first)

        with ServeCommand(tmp_path) as second:
            error = refusal(second)

        assert f"process {first.pid}" in error
        assert str(tmp_path) in error


def test_data_of_a_killed_server_can_be_served_again(tmp_path: Path) -> None:
    with ServeCommand(tmp_path) as first:
        served_port(first)
        first.signal(signal.SIGKILL)
        first.wait()

        with ServeCommand(tmp_path) as second:
            assert served_port(second)


def test_servers_with_their_own_data_run_at_once(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with ServeCommand(tmp_path / "one") as first, ServeCommand(tmp_path / "two") as second:
        assert served_port(first) != served_port(second)


def test_lock_is_free_after_its_release(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    first.acquire()
    with pytest.raises(HeldElsewhere) as refused:
        second.acquire()
    assert refused.value.pid == str(os.getpid())

    first.release()

    second.acquire()
    second.release()


# --- what is refused ------------------------------------------------------------------------------


def test_external_runner_on_sqlite_is_refused(tmp_path: Path) -> None:
    with ServeCommand(tmp_path, RUNNER="external") as process:
        error = refusal(process)

    assert "RUNNER" in error
    assert "PostgreSQL" in error


def test_unknown_kind_of_runner_is_refused(tmp_path: Path) -> None:
    with ServeCommand(tmp_path, RUNNER="extrenal") as process:
        assert "'extrenal'" in refusal(process)


def test_taken_port_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with ServeCommand(tmp_path, "--port", str(port)) as process:
            error = refusal(process)

    assert f"Can’t listen on 127.0.0.1:{port}: Address already in use. Set PORT to a" in error


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_debug_in_public_is_refused(tmp_path: Path, host: str) -> None:
    with ServeCommand(tmp_path, "--host", host, DEBUG="1") as process:
        assert "DEBUG" in refusal(process)


def test_debug_on_loopback_is_served(tmp_path: Path) -> None:
    with ServeCommand(tmp_path, DEBUG="1") as process:
        assert served_port(process)


def test_missing_migrations_are_refused(tmp_path: Path) -> None:
    with ServeCommand(tmp_path, TEST_APPS="django.contrib.contenttypes") as process:
        assert "manage.py migrate" in refusal(process)


def test_missing_database_is_worth_another_try(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'missing' / 'x.sqlite3'}"

    with ServeCommand(tmp_path, DATABASE_URL=url) as process:
        assert "database doesn’t respond" in refusal(process, returncode=1)
