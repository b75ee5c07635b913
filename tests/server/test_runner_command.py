"""The runner command: what it refuses, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from project.startup import FileLock
from tests.support.processes.site import ROOT, SOON_SECONDS

pytestmark = pytest.mark.process


@contextmanager
def runner(data_dir: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with subprocess.Popen(
        [sys.executable, "manage.py", "runner"],
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


def refusal(data_dir: Path, returncode: int = 2, **environment: str) -> str:
    """The line on which it gave up."""
    with runner(data_dir, **environment) as popen:
        output, error = popen.communicate(timeout=SOON_SECONDS)
    assert popen.returncode == returncode, error
    assert output == ""
    # The pool of connections to PostgreSQL has words of its own before and after.
    return next(line for line in error.splitlines() if line.startswith("CommandError: "))


def test_sqlite_file_in_use_is_refused(data_dir: Path) -> None:
    lock = FileLock(data_dir / "server.lock")
    lock.acquire()
    try:
        error = refusal(data_dir, RUNNER="external")
    finally:
        lock.release()

    assert f"process {os.getpid()}" in error
    assert "PostgreSQL" in error


def test_missing_migrations_are_refused(tmp_path: Path) -> None:
    assert "manage.py migrate" in refusal(tmp_path)


# The pool tries for seconds; the serve command is tried with a SQLite file that is not there.
@pytest.mark.slow
def test_missing_database_is_worth_another_try(tmp_path: Path) -> None:
    url = "postgres://nobody@127.0.0.1:9/nothing"

    assert "database doesn’t respond" in refusal(tmp_path, returncode=1, DATABASE_URL=url)


def test_sigterm_ends_the_runner(data_dir: Path) -> None:
    with runner(data_dir) as popen:
        assert popen.stderr is not None
        while "runner.started" not in (line := popen.stderr.readline()):
            assert line
        popen.send_signal(signal.SIGTERM)
        _, error = popen.communicate(timeout=SOON_SECONDS)

    assert popen.returncode == 0
    assert "runner.ended" in error
