"""What ``make test`` and ``make test-all`` run, and a guard against tests that become slow.

``make test-all`` sets ``EXHAUSTIVE=1``: every test, every recording at every cut. Without it the
tests marked ``slow`` are left out, except those of a file that is named on the command line, and
sweeps take a sample (`sample`, `examples`).
"""

from __future__ import annotations

import os
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import hypothesis
import pytest

EXHAUSTIVE = os.environ.get("EXHAUSTIVE") == "1"
# A test that takes longer belongs to `make test-all` (mark it slow), or waits for something that
# should be injected.
SLOW_SECONDS = 5.0
# On the machine for which the limit was chosen.
MILLION_ADDITIONS_SECONDS = 0.0625
SHOWN = 10

Case = TypeVar("Case")


def sample(cases: Sequence[Case], most: int) -> Sequence[Case]:
    """At most ``most`` of the cases, evenly spread, with the first and the last one; all of them
    in an exhaustive run. ``most`` is at least 2."""
    if EXHAUSTIVE or len(cases) <= most:
        return cases
    step = (len(cases) - 1) / (most - 1)
    return [cases[round(number * step)] for number in range(most)]


def one_of_each(outcomes: Mapping[Case, object], *, by: str) -> Sequence[Case]:
    """One case for each outcome; all of them in an exhaustive run. ``by``, the name of a row, chooses among
    cases with the same outcome, so that a table of many rows tries all of them, and a new row changes
    nothing for the others."""
    if EXHAUSTIVE:
        return list(outcomes)
    alike: defaultdict[object, list[Case]] = defaultdict(list)
    for case, outcome in outcomes.items():
        alike[outcome].append(case)
    number = zlib.crc32(by.encode())
    return [cases[number % len(cases)] for cases in alike.values()]


def examples(count: int) -> hypothesis.settings:
    """For ``@given``: so many in an exhaustive run, and an eighth of them in another one."""
    return hypothesis.settings(max_examples=count if EXHAUSTIVE else max(10, count // 8))


def leave_out_slow(config: pytest.Config, items: list[pytest.Item]) -> None:
    if EXHAUSTIVE:
        return
    named = {Path(argument.split("::")[0]).resolve() for argument in config.args}
    slow = [item for item in items if item.get_closest_marker("slow") and item.path not in named]
    if slow:
        config.hook.pytest_deselected(items=slow)
        left_out = set(slow)
        items[:] = [item for item in items if item not in left_out]


class Report:
    """Reads the reports of all workers: durations, and why tests were skipped."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._skipped: Counter[str] = Counter()
        self._too_slow: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and not hasattr(report, "context"):
            self._seconds[report.nodeid] = report.duration
            is_slow = EXHAUSTIVE or "slow" in report.keywords
            if not is_slow and report.duration > limit_seconds():
                self._too_slow.append(report.nodeid)
        if report.skipped and isinstance(report.longrepr, tuple):
            self._skipped[report.longrepr[2].removeprefix("Skipped: ")] += 1

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._too_slow and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write = terminalreporter.write_line
        slowest = sorted(self._seconds.items(), key=lambda each: -each[1])[:SHOWN]
        write(f"The {len(slowest)} slowest tests, in seconds:")
        for test, seconds in slowest:
            write(f"{seconds:7.2f}  {test}")
        for reason, count in self._skipped.most_common():
            write(f"Skipped {count}: {reason}")
        for test in self._too_slow:
            write(
                f"TOO SLOW: {test} took {self._seconds[test]:.1f} s. Make it faster,"
                " or mark it slow and leave it to make test-all.",
                red=True,
            )


def limit_seconds() -> float:
    """The limit is for a fast machine of our own. Where more processes want to work than there are
    processors, each gets so much less, and another machine may be several times slower."""
    crowd = os.getloadavg()[0] / (os.cpu_count() or 1)
    return SLOW_SECONDS * max(1.0, crowd) * max(1.0, _slowness())


@cache
def _slowness() -> float:
    """How many times slower this machine is."""
    began = time.thread_time()
    total = 0
    for number in range(1_000_000):
        total += number
    return (time.thread_time() - began) / MILLION_ADDITIONS_SECONDS
