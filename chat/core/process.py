"""The state of this process (starting, serving, draining), and the lag of its event loop."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum

from chat.core import metrics

logger = logging.getLogger(__name__)

SAMPLE_SECONDS = 0.1
# A stall between two requests of a monitor must still be visible to the second one.
WINDOW_SECONDS = 30.0
# A stall that people notice is logged; shorter ones are in the metrics.
STALL_SECONDS = 1.0


class ProcessPhase(StrEnum):
    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"


class LoopLag:
    """Sleeps a tenth of a second again and again, and records by how much it overslept."""

    def __init__(self) -> None:
        # (when, lag): each one is longer than all that came after it.
        self._longest: deque[tuple[float, float]] = deque()

    async def sample_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + SAMPLE_SECONDS
            await asyncio.sleep(SAMPLE_SECONDS)
            self.record_lag(loop.time(), max(0.0, loop.time() - due))

    def record_lag(self, now: float, lag: float) -> None:
        metrics.LOOP_LAG.observe(lag)
        if lag > STALL_SECONDS:
            logger.warning("loop.stalled seconds=%.3f", lag)
        while self._longest and self._longest[-1][1] <= lag:
            self._longest.pop()
        self._longest.append((now, lag))
        while self._longest[0][0] < now - WINDOW_SECONDS:
            self._longest.popleft()

    @property
    def longest(self) -> float | None:
        """The longest lag of the last half minute, in seconds; ``None`` if it is not measured."""
        return self._longest[0][1] if self._longest else None


class Process:
    """Call `begins` when the event loop runs, `serves`, `drains` when told to stop, and `ends`."""

    def __init__(self) -> None:
        self.part = "web"
        self.lag = LoopLag()
        self._phase = ProcessPhase.STARTING
        self._ask: Callable[[], ProcessPhase] | None = None
        self._sampling: asyncio.Task[None] | None = None

    @property
    def phase(self) -> ProcessPhase:
        return self._ask() if self._ask is not None else self._phase

    def begins(
        self, part: str, version: str, *, phase: Callable[[], ProcessPhase] | None = None
    ) -> None:
        """``phase`` returns the state, where nothing calls `serves` and `drains`."""
        self.part = part
        self._phase = ProcessPhase.STARTING
        self._ask = phase
        metrics.BUILD.labels(version=version, part=part).set(1)
        self._sampling = asyncio.create_task(self.lag.sample_for_ever(), name="loop-lag")

    def serves(self) -> None:
        self._phase = ProcessPhase.SERVING

    def drains(self) -> None:
        self._phase = ProcessPhase.DRAINING

    async def ends(self) -> None:
        sampling, self._sampling = self._sampling, None
        if sampling is not None:
            sampling.cancel()
            with suppress(asyncio.CancelledError):
                await sampling


process = Process()


def _longest_lag() -> metrics.Values:
    return {} if process.lag.longest is None else {"": process.lag.longest}


metrics.LOOP_LAG_MAX.read_from(_longest_lag)
