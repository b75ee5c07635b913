"""``manage.py demo_upstream`` as a real process."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from django.conf import settings

pytestmark = pytest.mark.process

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the command; whatever still runs at the end is ended."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        # A database that nobody can reach: the command must not look for one.
        environment = {
            **os.environ,
            "DATA_DIR": str(tmp_path),
            "DATABASE_URL": "postgres://nobody@127.0.0.1:9/nothing",
        }
        process = subprocess.Popen(
            [sys.executable, "manage.py", "demo_upstream", *arguments],
            cwd=settings.BASE_DIR,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    line = process.stdout.readline()
    found = re.fullmatch(r"demo upstream (http://127\.0\.0\.1:\d+)\n", line)
    assert found, line
    return found[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_stop(start: Start, number: signal.Signals) -> None:
    process = start("--speed", "0")
    body = {"model": "tributary/demo-writer", "input": "hello"}

    answer = httpx.post(f"{address_of(process)}/api/v1/chat", json=body, trust_env=False)
    process.send_signal(number)
    output, errors = process.communicate(timeout=20)

    assert answer.json()["output"][0]["content"].startswith("Hello!")
    assert (process.returncode, output, errors) == (0, "", "")


def test_it_stops_although_somebody_is_listening(start: Start) -> None:
    process = start("--control", "--speed", "0")
    url = address_of(process)
    told = {"steps": [{"step": "send", "text": "data: 1\n\n"}, {"step": "hang"}]}
    httpx.post(f"{url}/control/script", json=told, trust_env=False)

    with httpx.stream("POST", f"{url}/api/v1/chat", json={}, trust_env=False) as response:
        next(response.iter_raw())
        process.terminate()
        process.wait(timeout=20)

    assert process.returncode == 0


def test_it_ends_with_the_process_that_it_serves(start: Start) -> None:
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = start("--parent-pid", str(parent.pid))
    address_of(process)

    # Killed and not waited for: its number still exists, the process does not.
    parent.kill()
    process.communicate(timeout=20)
    parent.communicate()

    assert process.returncode == 0


def test_it_ends_at_once_when_that_process_is_gone_already(start: Start) -> None:
    parent = subprocess.Popen([sys.executable, "-c", ""])
    parent.wait()
    process = start("--parent-pid", str(parent.pid))
    process.communicate(timeout=20)

    assert process.returncode == 0


def test_a_port_that_is_taken_is_said_in_one_line(start: Start) -> None:
    port = address_of(start()).rpartition(":")[2]
    second = start("--port", port)
    output, errors = second.communicate(timeout=20)

    assert second.returncode == 1
    assert output == ""
    assert errors == f"CommandError: cannot listen on 127.0.0.1:{port}: Address already in use\n"


@pytest.mark.parametrize(
    "arguments", [("--speed", "-1"), ("--speed", "nan"), ("--port", "70000"), ("--port", "x")]
)
def test_senseless_arguments_are_refused(start: Start, arguments: tuple[str, str]) -> None:
    process = start(*arguments)
    _, errors = process.communicate(timeout=20)

    assert process.returncode == 2
    assert arguments[0] in errors
