"""The runner command: what it refuses, and how it ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from project.lock import FileLock
from tests.server.process import ROOT, SOON_SECONDS

pytestmark = pytest.mark.process


def runner(data_dir: Path, **environment: str) -> "subprocess.Popen[str]":
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "manage.py", "runner"],
        cwd=ROOT,
        env={**kept, "DATA_DIR": str(data_dir), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def refusal(popen: "subprocess.Popen[str]", returncode: int = 2) -> str:
    """The line on which it gave up."""
    try:
        output, error = popen.communicate(timeout=SOON_SECONDS * 3)
    finally:
        popen.kill()
    assert popen.returncode == returncode, error
    assert output == ""
    # The pool of connections to PostgreSQL has words of its own before and after.
    return next(line for line in error.splitlines() if line.startswith("CommandError: "))


def test_beside_another_process_on_a_sqlite_file_it_is_refused(data_dir: Path) -> None:
    lock = FileLock(data_dir / "server.lock")
    lock.acquire()
    try:
        error = refusal(runner(data_dir, RUNNER="external"))
    finally:
        lock.release()

    assert f"process {os.getpid()}" in error
    assert "PostgreSQL" in error


def test_without_its_tables_it_is_refused(tmp_path: Path) -> None:
    assert "manage.py migrate" in refusal(runner(tmp_path))


def test_without_its_database_it_is_worth_another_try(tmp_path: Path) -> None:
    url = "postgres://nobody@127.0.0.1:9/nothing"

    assert "database does not answer" in refusal(runner(tmp_path, DATABASE_URL=url), returncode=1)


def test_told_to_stop_it_signs_off(data_dir: Path) -> None:
    popen = runner(data_dir)
    try:
        assert popen.stderr is not None
        while "runner.started" not in (line := popen.stderr.readline()):
            assert line
        popen.send_signal(signal.SIGTERM)
        _, error = popen.communicate(timeout=SOON_SECONDS * 3)
    finally:
        popen.kill()

    assert popen.returncode == 0
    assert "runner.ended" in error
