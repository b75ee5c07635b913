"""The serve command: what it refuses, and the line it prints when it serves."""

import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from project.lock import FileLock, HeldElsewhere
from tests.server.process import ROOT, SOON_SECONDS

pytestmark = pytest.mark.process

Popen = subprocess.Popen[str]


@contextlib.contextmanager
def command(data_dir: Path, *arguments: str, **environment: str) -> Iterator[Popen]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.server.command", "--port", "0", *arguments],
        cwd=ROOT,
        env={**kept, "DATA_DIR": str(data_dir), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as popen:
        try:
            yield popen
        finally:
            popen.kill()


def served_port(popen: Popen) -> int:
    """Waits for the line that says where; fails on anything else that is printed."""
    assert popen.stderr is not None
    line = popen.stderr.readline()
    found = re.search(r"serving address=http://127\.0\.0\.1:(\d+)$", line)
    assert found is not None, line + popen.stderr.read()
    return int(found[1])


def refusal(popen: Popen, returncode: int = 2) -> str:
    """The one line on which it gave up."""
    output, error = popen.communicate(timeout=SOON_SECONDS)
    assert popen.returncode == returncode, error
    assert output == ""
    assert error.count("\n") == 1
    return error


def test_serves_and_says_where(tmp_path: Path) -> None:
    with command(tmp_path) as popen:
        connection = http.client.HTTPConnection("127.0.0.1", served_port(popen), timeout=20)
        with contextlib.closing(connection):
            connection.request("GET", "/show-scope")

            assert connection.getresponse().status == 200


def test_body_limit_comes_from_the_settings(tmp_path: Path) -> None:
    with command(tmp_path, MAX_BODY_BYTES="1000") as popen:
        connection = http.client.HTTPConnection("127.0.0.1", served_port(popen), timeout=20)
        with contextlib.closing(connection):
            connection.request("POST", "/count-body", body=b"x" * 1001)

            assert connection.getresponse().status == 413


def test_what_runs_beside_it_starts_and_stops_with_the_server(tmp_path: Path) -> None:
    with command(tmp_path) as popen:
        served_port(popen)
        popen.send_signal(signal.SIGTERM)

        output, _ = popen.communicate(timeout=SOON_SECONDS)

        assert output.splitlines() == ["started", "stopped"]
        assert popen.returncode == 0


def test_second_server_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with command(tmp_path) as first:
        served_port(first)

        with command(tmp_path) as second:
            error = refusal(second)

        assert f"process {first.pid}" in error
        assert str(tmp_path) in error


def test_server_that_leaves_its_runs_to_nobody_is_refused(tmp_path: Path) -> None:
    with command(tmp_path, RUNNER="external") as popen:
        error = refusal(popen)

    assert "RUNNER" in error
    assert "PostgreSQL" in error


def test_unknown_kind_of_runner_is_refused(tmp_path: Path) -> None:
    with command(tmp_path, RUNNER="extrenal") as popen:
        assert "'extrenal'" in refusal(popen)


def test_data_of_a_killed_server_can_be_served_again(tmp_path: Path) -> None:
    with command(tmp_path) as first:
        served_port(first)
        first.kill()
        first.wait()

        with command(tmp_path) as second:
            assert served_port(second)


def test_servers_with_their_own_data_live_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with command(tmp_path / "one") as first, command(tmp_path / "two") as second:
        assert served_port(first) != served_port(second)


def test_taken_port_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with command(tmp_path, "--port", str(port)) as popen:
            assert f"Cannot listen on 127.0.0.1:{port}: Address already in use." in refusal(popen)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_debug_in_public_is_refused(tmp_path: Path, host: str) -> None:
    with command(tmp_path, "--host", host, DEBUG="1") as popen:
        assert "DEBUG" in refusal(popen)


def test_debug_on_loopback_is_served(tmp_path: Path) -> None:
    with command(tmp_path, DEBUG="1") as popen:
        assert served_port(popen)


def test_missing_migrations_are_refused(tmp_path: Path) -> None:
    with command(tmp_path, TEST_APPS="django.contrib.contenttypes") as popen:
        assert "manage.py migrate" in refusal(popen)


def test_database_that_does_not_answer_is_worth_another_try(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'missing' / 'x.sqlite3'}"

    with command(tmp_path, DATABASE_URL=url) as popen:
        assert "database does not answer" in refusal(popen, returncode=1)


def test_lock_is_free_after_its_release(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    first.acquire()
    with pytest.raises(HeldElsewhere) as refused:
        second.acquire()
    assert refused.value.pid == str(os.getpid())

    first.release()

    second.acquire()
    second.release()
