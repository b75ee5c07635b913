"""The health and the metrics of a runner in a process of its own."""

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


def body_at(port: int, path: str) -> Any:
    """The body of a 200, or nothing."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return None


def health_with_a_runner(port: int) -> Any:
    health = json.loads(body_at(port, "/readyz") or "{}")
    return health if (health.get("runners") or {}).get("alive") else None


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_runner_refuses_a_taken_port(data_dir: Path, taken_port: int) -> None:
    with runner(data_dir, taken_port) as refused:
        out, _ = refused.communicate(timeout=SOON_SECONDS)

    assert refused.returncode == 2
    assert f"Can’t listen on 127.0.0.1:{taken_port}" in out
    assert "Traceback" not in out


def test_runner_answers_at_its_port(data_dir: Path) -> None:
    port = free_port()
    with runner(data_dir, port) as popen:
        # The health may be a second old, and from before the runner had a row.
        ready = soon(lambda: health_with_a_runner(port))
        page = body_at(port, "/metrics")
        popen.terminate()
        out, _ = popen.communicate(timeout=SOON_SECONDS)

    assert (ready["part"], ready["phase"], ready["status"]) == ("runner", "serving", "ok")
    assert 'tributary_build{part="runner",' in page
    assert popen.returncode == 0
    events = [json.loads(line)["event"] for line in out.splitlines()]
    wanted = ["probe.serving", "runner.started", "runner.ended"]
    # On a busy machine the event loop may be reported as stalled, too.
    assert [event for event in events if event in wanted] == wanted
