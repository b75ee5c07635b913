"""A runner in a process of its own, asked from outside."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser.site import free_port
from tests.support.processes.site import ROOT, SOON_SECONDS, environment, soon

pytestmark = pytest.mark.process


@contextmanager
def runner(folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    popen = subprocess.Popen(
        [sys.executable, "manage.py", "runner"],
        cwd=ROOT,
        env={**environment(folder), "RUNNER_PORT": str(port), "LOG_FORMAT": "json"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield popen
    finally:
        popen.kill()
        popen.wait(SOON_SECONDS)
        assert popen.stdout is not None
        popen.stdout.close()


def told_at(port: int, path: str) -> Any:
    """The answer, or nothing while nobody listens or it is no 200."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return None


def when_it_knows_a_runner(port: int) -> Any:
    told = json.loads(told_at(port, "/readyz") or "{}")
    return told if (told.get("runners") or {}).get("alive") else None


@contextmanager
def listening() -> Iterator[int]:
    """A port that is taken meanwhile, and that nobody is given by chance afterwards."""
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", free_port()))
        chosen.listen()
        yield chosen.getsockname()[1]


def test_a_runner_answers_at_its_own_port_and_refuses_one_that_is_taken(data_dir: Path) -> None:
    with listening() as port, runner(data_dir, port) as refused:
        out, _ = refused.communicate(timeout=SOON_SECONDS)
    assert refused.returncode == 2
    assert f"Cannot listen on 127.0.0.1:{port}" in out
    assert "Traceback" not in out

    with runner(data_dir, port) as popen:
        # What is told may be a second old, and from before the runner had a row.
        ready = soon(lambda: when_it_knows_a_runner(port))
        page = told_at(port, "/metrics")
        popen.terminate()
        out, _ = popen.communicate(timeout=SOON_SECONDS)

    assert (ready["part"], ready["phase"], ready["status"]) == ("runner", "serving", "ok")
    assert 'tributary_build{part="runner",' in page
    assert popen.returncode == 0
    events = [json.loads(line)["event"] for line in out.splitlines()]
    wanted = ["probe.serving", "runner.started", "runner.ended"]
    # A machine that has other things to do may add that the event loop stood still.
    assert [event for event in events if event in wanted] == wanted
