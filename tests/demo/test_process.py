"""The command ``manage.py demo_upstream`` as a real process."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from django.conf import settings

from chat.management.commands.demo_upstream import Command

pytestmark = pytest.mark.process

PATIENCE_SECONDS = 60

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


def test_serves_until_a_signal(start: Start, subtests: pytest.Subtests) -> None:
    body = {"model": "tributary/demo-writer", "messages": [{"role": "user", "content": "hello"}]}
    # Started together: starting takes most of this test.
    signals = (signal.SIGTERM, signal.SIGINT)
    processes = {number: start("--speed", "0") for number in signals}

    for number, process in processes.items():
        with subtests.test(number.name):
            url = address_of(process)
            answer = httpx.post(
                f"{url}/v1/chat/completions",
                json=body,
                timeout=PATIENCE_SECONDS,
                trust_env=False,
            )
            process.send_signal(number)
            output, errors = process.communicate(timeout=PATIENCE_SECONDS)

            assert answer.content.endswith(b"data: [DONE]\n\n")
            assert (process.returncode, output, errors) == (0, "", "")


def test_sigterm_ends_open_streams(start: Start) -> None:
    process = start("--speed", "0.01")
    body = {"model": "tributary/demo-writer", "input": "slow", "stream": True}

    with httpx.stream(
        "POST",
        f"{address_of(process)}/api/v1/chat",
        json=body,
        timeout=PATIENCE_SECONDS,
        trust_env=False,
    ) as response:
        next(response.iter_raw())
        process.terminate()
        process.wait(timeout=PATIENCE_SECONDS)

    assert process.returncode == 0


PARENT = """
import os, subprocess, sys
subprocess.Popen(
    [sys.executable, "manage.py", "demo_upstream", "--parent-pid", str(os.getpid())],
    stdin=subprocess.DEVNULL,
)
input()
"""


def test_ends_with_its_parent() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        cwd=settings.BASE_DIR,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    url = address_of(parent)

    parent.kill()
    # The output ends when the last process that writes to it has ended.
    parent.communicate(timeout=PATIENCE_SECONDS)

    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)


def test_ends_at_once_without_its_parent(start: Start) -> None:
    parent = subprocess.Popen([sys.executable, "-c", ""])
    parent.wait()
    process = start("--parent-pid", str(parent.pid))
    process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 0


def test_taken_port_is_reported_in_one_line(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start("--port", str(port))
        output, errors = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 1
    assert output == ""
    assert errors == f"CommandError: Can’t listen on 127.0.0.1:{port}: Address already in use\n"


def test_invalid_arguments_are_refused(
    capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    for arguments in (
        *(("--speed", "-1"), ("--speed", "nan")),
        *(("--port", "70000"), ("--port", "x")),
    ):
        with subtests.test(arguments):
            with pytest.raises(SystemExit) as caught:
                Command().run_from_argv(["manage.py", "demo_upstream", *arguments])

            assert caught.value.code == 2
            assert arguments[0] in capsys.readouterr().err.splitlines()[-1]
