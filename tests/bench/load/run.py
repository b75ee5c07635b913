"""Runs steps in interleaved rounds, and keeps what was measured."""

import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.bench.load.measure import Measured, Scenario, measure
from tests.bench.load.processes import Process, python
from tests.bench.load.scenarios import WARM_UP, Step, most_streams, streams_of
from tests.bench.load.targets import TARGETS, Missing, Target, Tributary


class Outcome(msgspec.Struct):
    """``missing`` says which target was left out, and why. ``micro`` are rows 17 and 18."""

    taken_at: str
    machine: str
    command: str
    rounds: int
    seconds: float
    measured: list[Measured]
    missing: dict[str, str]
    micro: dict[str, float] = {}


def run(steps: Sequence[Step], *, rounds: int, command: str) -> Outcome:
    began = time.monotonic()
    outcome = Outcome(
        taken_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine=_machine(),
        command=command,
        rounds=rounds,
        seconds=0.0,
        measured=[],
        missing={},
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tributary-bench-")))
        upstream = python(
            "upstream", "tests.bench.load.upstream", log=folder / "upstream.log", env={}
        )
        stack.callback(upstream.end)
        port = int(upstream.until_says(r"listening (\d+)")[1])
        targets = _targets(steps, port, folder, stack, outcome, rounds)
        for number in range(1, rounds + 1):
            _round(steps, targets, upstream, number, outcome)
    outcome.seconds = time.monotonic() - began
    return outcome


def _targets(
    steps: Sequence[Step],
    port: int,
    folder: Path,
    stack: ExitStack,
    outcome: Outcome,
    rounds: int,
) -> dict[str, Target]:
    targets: dict[str, Target] = {}
    for name in dict.fromkeys(name for step in steps for name in step.targets):
        try:
            target = TARGETS[name](port, folder)
        except Missing as why:
            outcome.missing[name] = str(why)
            _say(f"{name} is left out: {why}")
            continue
        stack.callback(target.close)
        targets[name] = target
        if isinstance(target, Tributary):
            people = most_streams(steps)
            needed = streams_of(steps, name) * rounds
            target.seed(people, -(-needed // people))
    return targets


def _round(
    steps: Sequence[Step],
    targets: dict[str, Target],
    upstream: Process,
    number: int,
    outcome: Outcome,
) -> None:
    try:
        for name, target in list(targets.items()):
            try:
                target.start()
            except Missing as why:
                outcome.missing[name] = str(why)
                _say(f"{name} is left out: {why}")
                del targets[name]
        for target in targets.values():
            measure(WARM_UP, target, upstream, round=number)
        for step in steps:
            for name in step.targets:
                if name in targets:
                    outcome.measured.append(
                        _measured(step.scenario, targets[name], upstream, number)
                    )
    finally:
        for target in targets.values():
            target.end()


def _measured(scenario: Scenario, target: Target, upstream: Process, number: int) -> Measured:
    found = measure(scenario, target, upstream, round=number)
    latency = found.latency_ms
    _say(
        f"round {number} {scenario.name:<17} {target.name:<12} {found.completed}/{found.streams}"
        f" CPU {found.cpu_ms:6.1f} ms per 1,000 (whole {found.whole_cpu_ms:6.1f}),"
        f" latency {latency[0]:.2f} / {latency[2]:.1f} ms, first {found.first_ms[0]:.1f} ms"
        + (f", lost {found.lost}, doubled {found.doubled}" if found.lost or found.doubled else "")
        + (f", errors {found.errors}" if found.errors else "")
    )
    return found


def _machine() -> str:
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    processor = names[0] if names else platform.machine()
    return f"{os.cpu_count()} × {processor}, Linux {platform.release()}, Python {platform.python_version()}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
