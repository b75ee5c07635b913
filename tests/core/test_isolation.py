"""The child process that reads untrusted files: what it gives, what it can't do, and how it ends."""

from __future__ import annotations

import io
import os
import platform
import subprocess
import sys
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chat.core.isolation import parent
from chat.core.isolation.child import Refused
from chat.core.isolation.parent import ChildKilled, Limits, read_in_child

MEGABYTE = 1024 * 1024
ROOT = Path(__file__).parents[2]
LIMITS = Limits(
    memory_bytes=256 * MEGABYTE,
    cpu_seconds=60,
    wait_seconds=120,
    frame_bytes=50_000,
    output_bytes=10 * MEGABYTE,
)
linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's limits")


def run(
    reader: str, body: bytes = b"", order: bytes = b"", **more: Any
) -> Generator[bytes, None, None]:
    limits = more.pop("limits", LIMITS)
    return read_in_child(
        f"tests.core.readers:{reader}", io.BytesIO(body), order, limits=limits, **more
    )


def test_child_reads_the_file_and_its_order() -> None:
    body = b"one\ntwo\n" + b"x" * 40_000 + b"\nend"

    assert list(run("lines", body, b"told")) == [b"told", *body.splitlines(keepends=True)]


def test_child_reads_from_any_position() -> None:
    body = bytes(range(100))

    assert b"".join(run("backwards", body)) == body[::-1][::3]


def test_child_has_no_environment_and_no_django() -> None:
    environment, has_django, folder = run("what_it_has")

    assert environment in (b"{}", b"{'LC_CTYPE': 'C.UTF-8'}")
    assert (has_django, folder) == (b"False", b"/")


@linux
def test_child_has_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    started = children_of(monkeypatch)
    reading = run("endless")
    next(reading)

    limits = Path(f"/proc/{started[0].pid}/limits").read_text()
    found = {line[:26].strip(): line[26:].split()[1] for line in limits.splitlines()}
    reading.close()

    assert found["Max address space"] == str(256 * MEGABYTE)
    assert found["Max open files"] == "3"
    assert found["Max file size"] == found["Max core file size"] == "0"
    assert int(found["Max cpu time"]) == LIMITS.cpu_seconds + 5


@linux
@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="no filter")
def test_child_opens_nothing_starts_nothing_and_reaches_nobody(tmp_path: Path) -> None:
    path = tmp_path / "of-somebody-else"
    path.write_bytes(b"content")
    order = f"{os.getpid()} {path}".encode()
    found = dict(each.decode().split(": ", 1) for each in run("attempts", order=order))

    assert {"open", "start", "signal", "queued signal", "ring", "truncate"} < set(found)
    # Of descriptors there is one left, because the reader has closed one; two are needed for a pipe.
    refusals = {"Operation not permitted", "Too many open files"}
    assert {name: answer for name, answer in found.items() if answer not in refusals} == {}
    assert path.read_bytes() == b"content"
    assert [each.name for each in tmp_path.iterdir()] == ["of-somebody-else"]


@linux
def test_child_inherits_nothing_that_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = children_of(monkeypatch)
    with (tmp_path / "database").open("wb") as file:
        os.set_inheritable(file.fileno(), True)
        reading = run("endless")
        next(reading)

        opened = Path(f"/proc/{started[0].pid}/fd")
        found = {each.name: os.readlink(each)[:5] for each in opened.iterdir()}
        reading.close()

    assert found == {"0": "pipe:", "1": "pipe:", "2": "/dev/"}


@pytest.mark.slow
def test_reader_of_exports_needs_no_django() -> None:
    """What it imports is all that a file can reach there."""
    code = "import sys, chat.imports.reader; print([m for m in sys.modules if m.split('.')[0] == 'django'])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


def test_sentence_of_the_reader_is_raised() -> None:
    reading = run("refusing")

    assert next(reading) == b"first"
    with pytest.raises(Refused, match="“The file” isn’t one"):
        next(reading)


def test_text_of_an_error_stays_in_the_child(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ChildKilled) as killed:
        list(run("failing"))

    assert killed.value.reason == "crash"
    assert "ValueError readers.py" in caplog.text
    assert "secret" not in caplog.text + str(killed.value)


@pytest.mark.parametrize(
    ("reader", "changes", "reason"),
    [
        pytest.param("hoarding", {}, "memory", marks=linux),
        ("busy", {"cpu_seconds": 1}, "time"),
        ("waiting", {"wait_seconds": 0.1}, "time"),
        ("endless", {"output_bytes": 5000}, "output"),
        ("large", {}, "output"),
        ("dying", {}, "crash"),
        ("lying", {}, "crash"),
    ],
)
def test_child_over_a_limit_is_killed_and_named(
    reader: str, changes: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parent, "CHECK_SECONDS", 0.05)
    limits = Limits(**{name: getattr(LIMITS, name) for name in Limits.__slots__} | changes)

    with pytest.raises(ChildKilled) as killed:
        list(run(reader, limits=limits))

    assert killed.value.reason == reason
    assert str(killed.value).startswith("Reading the file was stopped")


def test_caller_can_end_a_child_that_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parent, "CHECK_SECONDS", 0.01)

    class Canceled(Exception):
        pass

    def cancel() -> None:
        raise Canceled

    started = children_of(monkeypatch)
    with pytest.raises(Canceled):
        list(run("waiting", check=cancel))

    assert [each.returncode for each in started] == [-9]


@pytest.mark.parametrize("reader", ["endless", "asking"])
def test_caller_is_asked_about_a_child_that_always_answers(
    reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parent, "CHECK_SECONDS", 0.2)
    has_begun = False

    class Canceled(Exception):
        pass

    def cancel() -> None:
        if has_begun:
            raise Canceled

    limits = replace(LIMITS, cpu_seconds=2, output_bytes=200 * MEGABYTE)
    reading = run(reader, bytes(3 * MEGABYTE), check=cancel, limits=limits)
    next(reading)
    has_begun = True

    with pytest.raises(Canceled):
        list(reading)


def test_child_is_gone_when_nobody_reads_on(monkeypatch: pytest.MonkeyPatch) -> None:
    started = children_of(monkeypatch)
    reading = run("endless")
    next(reading)

    reading.close()

    assert [each.returncode for each in started] == [-9]
    assert not os.path.exists(f"/proc/{started[0].pid}")


def children_of(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that are started from now on."""
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def note(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*args, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", note)
    return started
