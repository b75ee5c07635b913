"""Processes that the benchmark starts and ends, and what the kernel says they used."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent.parent
START_SECONDS = 60.0
END_SECONDS = 20.0
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class DidNotStart(Exception):
    """A process ended, or said nothing, before it was ready. The text is its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Resident and proportional kilobytes, now, of a process and all below it."""

    rss_kb: int
    pss_kb: int


class Process:
    """One that we started, with its output in a file. ``kind`` is what its figures count as."""

    def __init__(
        self,
        kind: str,
        command: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> None:
        self.kind = kind
        self._log = log
        self._offset = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self.popen = subprocess.Popen(
                command,
                cwd=ROOT if user is None else "/",
                env=None if env is None else {**_kept(), **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )

    @property
    def pid(self) -> int:
        return self.popen.pid

    def output(self) -> str:
        with self._log.open("rb") as log:
            log.seek(self._offset)
            return log.read().decode(errors="replace")

    def until_says(self, pattern: str) -> re.Match[str]:
        """Waits for a line; raises `DidNotStart`."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if found := re.search(pattern, self.output()):
                return found
            if self.popen.poll() is not None:
                break
            time.sleep(0.02)
        raise DidNotStart(f"{self.kind}: {self.output()[-4000:]}")

    def until_listens(self, port: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.popen.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.02)
        raise DidNotStart(f"{self.kind}: {self.output()[-4000:]}")

    def cpu_seconds(self) -> float:
        """Processor time since the beginning, with everything below it."""
        return cpu_of_pid(self.pid)

    def memory(self) -> Memory:
        sizes = [_memory(pid) for pid in tree(self.pid)]
        return Memory(rss_kb=sum(rss for rss, _ in sizes), pss_kb=sum(pss for _, pss in sizes))

    def end(self, *, by: signal.Signals = signal.SIGTERM) -> None:
        """Asks it to end, and makes it."""
        if self.popen.poll() is None:
            self.popen.send_signal(by)
        try:
            self.popen.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait(END_SECONDS)


def python(kind: str, module: str, *arguments: str, log: Path, env: Mapping[str, str]) -> Process:
    return Process(kind, [sys.executable, "-m", module, *arguments], log=log, env=env)


def _kept() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


# --- /proc -----------------------------------------------------------------------------------


def tree(pid: int) -> list[int]:
    """The process and everything below it that is alive."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def _cpu_seconds(pid: int) -> float:
    """With those of ended children that it has waited for: nothing is lost when one ends."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    # utime, stime, cutime, cstime: fields 14 to 17, counted from 1 with pid and name.
    return sum(map(int, fields[11:15])) / TICKS_PER_SECOND


def _memory(pid: int) -> tuple[int, int]:
    """Resident and proportional kilobytes."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0, 0
    sizes = dict(re.findall(r"^(Rss|Pss): +(\d+) kB", text, re.MULTILINE))
    return int(sizes.get("Rss", 0)), int(sizes.get("Pss", 0))


def cpu_of(processes: Iterable[Process]) -> dict[str, float]:
    """Seconds by kind of process; several of a kind count together."""
    spent: dict[str, float] = {}
    for process in processes:
        spent[process.kind] = spent.get(process.kind, 0.0) + process.cpu_seconds()
    return spent


def machine_seconds() -> float:
    """Processor time that the whole machine has spent on anything, with what was stolen from it."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _waiting, irq, softirq, steal = map(int, fields[:8])
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND


def cpu_of_pid(pid: int) -> float:
    return sum(_cpu_seconds(one) for one in tree(pid))


def memory_of(processes: Iterable[Process]) -> dict[str, Memory]:
    found: dict[str, Memory] = {}
    for process in processes:
        before = found.get(process.kind, Memory(rss_kb=0, pss_kb=0))
        here = process.memory()
        found[process.kind] = Memory(
            rss_kb=before.rss_kb + here.rss_kb, pss_kb=before.pss_kb + here.pss_kb
        )
    return found


def sleep_until(moment: float) -> None:
    """``moment`` as `time.monotonic` counts."""
    while (left := moment - time.monotonic()) > 0:
        time.sleep(left)


def ended_in_order(things: Sequence[Any], end: Callable[[Any], None]) -> None:
    """Ends the last first, each whatever became of the others; raises the first failure at last."""
    failures: list[Exception] = []
    for thing in reversed(things):
        try:
            end(thing)
        except Exception as error:
            failures.append(error)
    if failures:
        raise failures[0]
