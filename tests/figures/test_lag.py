"""How late the event loop is: the longest of the last half minute, and a line for what people notice."""

from __future__ import annotations

import asyncio
import time

import pytest

from chat.health.process import WINDOW_SECONDS, LoopLag, Process
from tests.figures.reading import Change


@pytest.mark.parametrize(
    ("lags", "longest"),
    [
        ([0.1, 0.3, 0.2], 0.3),
        ([0.3, 0.2, 0.1], 0.3),
        ([0.1, 0.2, 0.3], 0.3),
        ([0.2, 0.2], 0.2),
    ],
)
def test_the_longest_lag_is_told(lags: list[float], longest: float) -> None:
    lag = LoopLag()

    for at, seconds in enumerate(lags):
        lag.note(float(at), seconds)

    assert lag.longest == longest


def test_a_lag_is_forgotten_after_a_while_and_shorter_ones_behind_it_are_not() -> None:
    lag = LoopLag()
    lag.note(0.0, 0.9)
    lag.note(10.0, 0.5)

    lag.note(WINDOW_SECONDS + 1, 0.1)
    assert lag.longest == 0.5

    lag.note(WINDOW_SECONDS + 11, 0.1)
    assert lag.longest == 0.1


def test_nobody_knows_before_the_first_sample() -> None:
    assert LoopLag().longest is None


async def test_a_loop_that_stands_still_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    change = Change()
    process = Process()
    process.begins("web", "1")
    async with asyncio.timeout(60):
        while process.lag.longest is None:
            await asyncio.sleep(0.01)

        # Blocks the loop, as a long computation would.
        time.sleep(1.2)
        while process.lag.longest < 1:
            await asyncio.sleep(0.01)
    await process.ends()

    assert change.of("tributary_event_loop_lag_seconds_count") >= 2
    assert any(one.getMessage().startswith("loop.stalled seconds=") for one in caplog.records)
