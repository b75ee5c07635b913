"""What endless answers take: memory of the process, and for how long they hold its event loop.

``make bench BENCH=memory``. Two processes with everything inside, on SQLite: one in which one server
sends without end, one in which fifty do at once, each answer with a page that shows it. The limits
are the default ones.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from tests.support.processes.site import ROOT, Site, environment, seed
from tests.support.processes.viewers import Tab
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import Flood, lmstudio_event, lmstudio_events, stream

STREAMS = {"one answer without end": 1, "fifty at once": 50}
MOST_MB = 600
MOST_HELD_SECONDS = 0.3
DELTA_BYTES = 16_000
# The measured lag is that of the last half minute.
POLL_SECONDS = 2.0
MOST_SECONDS = 600.0


class Figures(NamedTuple):
    peak_mb: float
    held_seconds: float
    answer_mb: float
    ends: set[str]
    seconds: float


class LeavingTab(Tab):
    """As the page does, it unfollows an answer that has ended."""

    def _take(self, message: dict[str, Any]) -> None:
        super()._take(message)
        if message.get("live") is False:
            self.say(type="unfollow", run=message["run"])


def report() -> str:
    lines = [
        f"Endless answers; bars: {MOST_MB} MB resident, loop held for {MOST_HELD_SECONDS} s",
        "",
        f"{'':<26}{'MB at most':>12}{'loop held, s':>14}{'MB kept':>10}{'seconds':>9}  ended as",
    ]
    for name, count in STREAMS.items():
        with _started_site() as site:
            found = _under_load(site, count)
        is_held = found.peak_mb <= MOST_MB and found.held_seconds <= MOST_HELD_SECONDS
        lines.append(
            f"{name:<26}{found.peak_mb:>12.0f}{found.held_seconds:>14.2f}{found.answer_mb:>10.1f}"
            f"{found.seconds:>9.0f}  {', '.join(sorted(found.ends))}  {'held' if is_held else 'missed'}"
        )
    return "\n".join(lines)


@contextmanager
def _started_site() -> Iterator[Site]:
    """A site with everything in one process."""
    with tempfile.TemporaryDirectory(prefix="tributary-bench-") as name:
        folder = Path(name)
        command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        subprocess.run(command, cwd=ROOT, env=environment(folder), check=True)
        fake = FakeUpstream.start_in_thread()
        site = Site(folder, seed(folder), fake)
        site.is_forked = False
        site.rows("UPDATE chat_upstream SET base_url = ?", fake.url)
        try:
            site.start()
            yield site
        finally:
            site.close()
            fake.stop()


def _under_load(site: Site, count: int) -> Figures:
    begin = [{"type": "chat.start", "model_instance_id": "m"}, {"type": "message.start"}]
    text = "The river is **high** today, and the mill stands still.\n\n"
    delta = lmstudio_event({"type": "message.delta", "content": text * (DELTA_BYTES // len(text))})
    endless = stream(lmstudio_events(begin), Flood(base64=delta))
    site.fake.script(*[endless] * count)
    began = time.monotonic()
    runs: list[UUID] = []
    tabs: list[LeavingTab] = []
    held_seconds = 0.0
    try:
        for _ in range(count):
            runs.append(site.send("Go on."))
            tabs.append(LeavingTab(site, runs[-1]))
        while any(site.run(run)["finished_at"] is None for run in runs):
            if time.monotonic() - began > MOST_SECONDS:
                raise TimeoutError("the answers do not end")
            time.sleep(POLL_SECONDS)
            held_seconds = max(held_seconds, _longest_lag(site))
        held_seconds = max(held_seconds, _longest_lag(site))
    finally:
        for tab in tabs:
            tab.leave()
    ended = [site.run(run) for run in runs]
    return Figures(
        peak_mb=_peak_mb(site),
        held_seconds=held_seconds,
        answer_mb=sum(len(run["result"] or "") for run in ended) / 1e6,
        ends={str(run["error_kind"] or run["status"]) for run in ended},
        seconds=time.monotonic() - began,
    )


def _longest_lag(site: Site) -> float:
    """In the last half minute, in seconds."""
    with site.browser("") as browser:
        text = browser.get("/metrics").text
    found = re.search(r"^tributary_event_loop_lag_max_seconds\S* (\S+)$", text, re.MULTILINE)
    assert found is not None, text[:500]
    return float(found[1])


def _peak_mb(site: Site) -> float:
    status = Path(f"/proc/{site.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1000
