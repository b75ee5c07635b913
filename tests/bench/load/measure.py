"""One measurement: streams through a target, and what they cost every process."""

import json
import math
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from tests.bench.load.arithmetic import percentile
from tests.bench.load.client import Job, Result
from tests.bench.load.marks import conservation, seconds_between
from tests.bench.load.processes import (
    ROOT,
    DidNotStart,
    Memory,
    Process,
    cpu_of,
    cpu_of_pid,
    machine_seconds,
    memory_of,
    sleep_until,
)
from tests.bench.load.targets import Target

# From the last stream's first delta until everything is as it stays: pages fetch their lists a
# second after an answer to their form.
SETTLE_SECONDS = 1.5
# From the start until the first of all streams is stopped: by then they all are under way.
STOPS_AFTER_SECONDS = 12.0
# How much longer than planned a stream may take. Where openings are slower than they are asked for,
# the last ones begin late: how late is told by their first deltas, and they are complete all the same.
PATIENCE_SECONDS = 60.0
RAMP_PER_SECOND = 150.0
_ids = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """``seconds`` is how long one stream takes at its pace. Unpaced streams have no gap and wait
    for each other at a gate; ``window_seconds`` is then what latencies are taken from. With
    ``leaves`` every tab is closed when its answer has ended, so that openings and endings go on at
    ``rate`` per second throughout."""

    name: str
    streams: int
    count: int
    gap_ms: float
    kind: str = "plain"
    viewers: int = 1
    one_by_one: bool = False
    has_gate: bool = False
    stops: bool = False
    leaves: bool = False
    rate: float = RAMP_PER_SECOND
    window_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        return self.window_seconds or self.count * self.gap_ms / 1000


@dataclass(slots=True, kw_only=True)
class Measured:
    """Latencies in milliseconds (p50, p95, p99), CPU in seconds by kind of process, memory in
    kilobytes. ``first_ms`` is p50 and p95 of the time to the first delta, ``stop_ms`` p50, p99 and
    the longest from the press to the upstream's close."""

    scenario: str
    target: str
    round: int
    streams: int
    completed: int
    window_seconds: float
    deltas: int
    window_deltas: int
    latency_ms: list[float]
    all_latency_ms: list[float]
    first_ms: list[float]
    cpu: dict[str, float]
    whole_cpu: dict[str, float]
    harness_cpu: dict[str, float]
    # What the rest of the machine used meanwhile.
    other_cores: float
    idle_kb: dict[str, int]
    stream_kb: dict[str, float]
    frames_per_delta: float
    bytes_per_delta: float
    upstream_bytes_per_delta: float
    lost: int
    doubled: int
    deltas_per_second: float
    stops: int
    stop_ms: list[float]
    unstopped: int
    errors: dict[str, int]
    # HTTP requests of a browser for each answer.
    requests_per_stream: float = 0.0

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of the target's processes per 1,000 deltas, within the window."""
        return sum(self.cpu.values()) * 1e6 / self.window_deltas if self.window_deltas else 0.0

    @property
    def whole_cpu_ms(self) -> float:
        """The same over everything, from before the first request to behind the last answer."""
        return sum(self.whole_cpu.values()) * 1e6 / self.deltas if self.deltas else 0.0

    @property
    def opening_cpu_ms(self) -> dict[str, float]:
        """Milliseconds per stream by kind of process, of everything: opening, its deltas, ending."""
        return {kind: spent * 1000 / self.streams for kind, spent in self.whole_cpu.items()}

    @property
    def opening_ms(self) -> float:
        return sum(self.opening_cpu_ms.values())

    @property
    def cores(self) -> float:
        return sum(self.cpu.values()) / self.window_seconds


def measure(scenario: Scenario, target: Target, upstream: Process, *, round: int) -> Measured:
    """Runs it, and returns when everything has ended."""
    _reports(target)
    job = _job(scenario, target)
    before = memory_of(target.processes)
    client = _client(job)
    try:
        start = _announced(client)
        started = _cpu(target, upstream, client.pid)
        first, last = _announced(client), start + job.window[1]
        job = msgspec.structs.replace(job, window=(first - start, job.window[1]))
        sleep_until(first)
        opened = _cpu(target, upstream, client.pid)
        sleep_until(last)
        closed = _cpu(target, upstream, client.pid)
        # Not within the window: reading the sizes of a process takes its time.
        during = memory_of(target.processes)
        timeout = start + job.until - time.monotonic() + 120
        output, _ = client.communicate(timeout=timeout)
        # What goes on behind the last answer belongs to it: columns, indexes, compaction.
        ended = _cpu(target, upstream, client.pid)
    finally:
        if client.poll() is None:
            client.kill()
            client.wait()
    result = msgspec.json.decode(output, type=Result)
    if not scenario.viewers:
        _until_ended(target, [saw.run for saw in result.streams if saw.run], start + job.until)
    return _measured(
        scenario,
        target,
        job,
        result,
        round=round,
        cpu=_less(closed, opened),
        whole=_less(ended, started),
        before=before,
        during=during,
    )


def _announced(client: "subprocess.Popen[bytes]") -> float:
    """The moment that the viewers name in their next line."""
    assert client.stdout is not None
    line = client.stdout.readline()
    if not line:
        raise DidNotStart("the viewers")
    return float(line)


def _until_ended(target: Target, runs: list[str], until: float) -> None:
    """Nobody looks, so nobody sees when the last of them is over; only then it is all stored."""
    while time.monotonic() < until:
        found = target.results(runs)
        if all(one["status"] not in ("queued", "running") for one in found.values()):
            return
        time.sleep(1)


def _job(scenario: Scenario, target: Target) -> Job:
    people = target.people(scenario.streams)
    ramp = 0.0 if scenario.has_gate or scenario.one_by_one else scenario.rate
    opened = scenario.streams / ramp if ramp else 0.0
    if scenario.one_by_one:
        window = 0.0, scenario.streams * scenario.seconds
    elif scenario.has_gate:
        window = 0.0, scenario.seconds
    elif scenario.stops:
        window = opened, STOPS_AFTER_SECONDS
    elif scenario.leaves:
        window = 0.0, opened
    else:
        # From when all are open until the first one ends.
        window = opened, scenario.seconds - 0.1
    last_end = window[1] if scenario.has_gate or scenario.one_by_one else opened + scenario.seconds
    return Job(
        port=target.port,
        ids=[next(_ids) for _ in range(scenario.streams)],
        count=scenario.count,
        gap_us=round(scenario.gap_ms * 1000),
        kind=scenario.kind,
        gate=scenario.streams if scenario.has_gate else 0,
        ramp_per_second=ramp,
        window=window,
        until=last_end + PATIENCE_SECONDS,
        settle_seconds=SETTLE_SECONDS if ramp and not scenario.leaves else 0.0,
        people=people,
        viewers=scenario.viewers,
        one_by_one=scenario.one_by_one,
        stop_from=window[1] if scenario.stops else 0.0,
        leaves=scenario.leaves,
    )


def _client(job: Job) -> "subprocess.Popen[bytes]":
    client = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.load.client"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert client.stdin is not None
    client.stdin.write(msgspec.json.encode(job))
    client.stdin.close()
    client.stdin = None
    return client


# Kinds of process that belong to the harness, and the whole machine.
HARNESS = ("upstream", "viewers", "machine")


def _cpu(target: Target, upstream: Process, viewers: int) -> dict[str, float]:
    """Seconds by kind of process, and of the machine."""
    return {
        **cpu_of(target.processes),
        "upstream": upstream.cpu_seconds(),
        "viewers": cpu_of_pid(viewers),
        "machine": machine_seconds(),
    }


def _less(after: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {kind: spent - before[kind] for kind, spent in after.items()}


def _reports(target: Target) -> dict[int, dict[str, Any]]:
    """What the upstream says of the streams since it was last asked."""
    address = f"http://127.0.0.1:{target.upstream_port}/streams"
    with urllib.request.urlopen(address, timeout=30) as answer:
        return {report["id"]: report for report in json.load(answer)}


def _measured(
    scenario: Scenario,
    target: Target,
    job: Job,
    result: Result,
    *,
    round: int,
    cpu: dict[str, float],
    whole: dict[str, float],
    before: dict[str, Memory],
    during: dict[str, Memory],
) -> Measured:
    reports = _reports(target)
    deltas = sum(report["sent"] for report in reports.values())
    lost, doubled = _kept(scenario, target, result, reports)
    # Who stops an answer that is still in line keeps its request from being sent at all.
    stopped = [saw for saw in result.streams if saw.stopped_at and saw.id in reports]
    stop_ms = [
        1000 * seconds_between(saw.stopped_at, reports[saw.id]["left"])
        for saw in stopped
        if reports[saw.id]["left"]
    ]
    firsts = [1000 * saw.first_seconds for saw in result.streams if saw.first_seconds >= 0]
    upstream_bytes = sum(report["bytes"] for report in reports.values())
    received = sum(saw.received for saw in result.streams)
    took = seconds_between(
        min((report["began"] for report in reports.values() if report["began"]), default=0),
        result.last_arrival,
    )
    window_seconds = job.window[1] - job.window[0]
    harness = {kind: cpu.pop(kind) for kind in HARNESS}
    for kind in HARNESS:
        whole.pop(kind)
    ours = harness["upstream"] + harness["viewers"] + sum(cpu.values())
    return Measured(
        scenario=scenario.name,
        target=target.name,
        round=round,
        streams=scenario.streams,
        completed=sum(saw.is_complete for saw in result.streams) if scenario.viewers else 0,
        window_seconds=window_seconds,
        other_cores=max(0.0, harness["machine"] - ours) / window_seconds,
        deltas=deltas,
        window_deltas=result.window_received if scenario.viewers else _paced(scenario, job),
        latency_ms=_milliseconds(result.latencies),
        all_latency_ms=_milliseconds(result.all_latencies),
        first_ms=[percentile(firsts, share) for share in (0.5, 0.95)],
        cpu=cpu,
        whole_cpu=whole,
        harness_cpu=harness,
        idle_kb={kind: memory.rss_kb for kind, memory in before.items()},
        stream_kb={
            kind: (memory.pss_kb - before[kind].pss_kb) / scenario.streams
            for kind, memory in during.items()
        },
        frames_per_delta=sum(saw.frames for saw in result.streams) / max(1, received),
        bytes_per_delta=sum(saw.bytes for saw in result.streams) / max(1, received),
        upstream_bytes_per_delta=upstream_bytes / max(1, deltas),
        lost=lost,
        doubled=doubled,
        deltas_per_second=received / took if took else 0.0,
        stops=len(stopped),
        stop_ms=[percentile(stop_ms, share) for share in (0.5, 0.99, 1.0)],
        unstopped=len(stopped) - len(stop_ms),
        errors=dict(Counter(saw.error for saw in result.streams if saw.error)),
        requests_per_stream=sum(saw.requests for saw in result.streams) / scenario.streams,
    )


def _paced(scenario: Scenario, job: Job) -> int:
    """Without viewers nobody counts: what the upstream sends in the window at its pace."""
    first, last = job.window
    return round(scenario.streams * (last - first) * 1000 / scenario.gap_ms)


def _kept(
    scenario: Scenario, target: Target, result: Result, reports: dict[int, dict[str, Any]]
) -> tuple[int, int]:
    """Deltas lost and doubled, on the pages and in what was stored."""
    lost = sum(saw.lost for saw in result.streams)
    doubled = sum(saw.doubled for saw in result.streams)
    runs = {
        saw.run: saw
        for saw in result.streams
        if saw.run and (saw.is_complete or not scenario.viewers)
    }
    if not runs:
        return lost, doubled
    stored = target.results(list(runs))
    for run, saw in runs.items():
        numbers = stored.get(run, {}).get("numbers", [])
        sent = reports[saw.id]["sent"] if saw.id in reports else 0
        # What a stopped run holds is what its viewer saw: a prefix of what was sent.
        expected = saw.shown if saw.stopped_at else sent
        kept = conservation(numbers, expected)
        lost, doubled = lost + kept.lost, doubled + kept.doubled
    return lost, doubled


def _milliseconds(seconds: Sequence[float | None]) -> list[float]:
    return [math.nan if one is None else 1000 * one for one in seconds]
