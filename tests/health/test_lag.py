"""How late the event loop is: the longest of the last half minute, and a line for what people notice."""

from __future__ import annotations

import pytest

from chat.core.process import WINDOW_SECONDS, LoopLag, Process
from tests.health.helpers import Change, until
from tests.support.loop_clock import LoopClock


@pytest.mark.parametrize(
    ("lags", "longest"),
    [
        ([0.1, 0.3, 0.2], 0.3),
        ([0.3, 0.2, 0.1], 0.3),
        ([0.1, 0.2, 0.3], 0.3),
        ([0.2, 0.2], 0.2),
    ],
)
def test_longest_lag_is_reported(lags: list[float], longest: float) -> None:
    lag = LoopLag()

    for at, seconds in enumerate(lags):
        lag.record_lag(float(at), seconds)

    assert lag.longest == longest


def test_old_lag_expires_before_newer_ones() -> None:
    lag = LoopLag()
    lag.record_lag(0.0, 0.9)
    lag.record_lag(10.0, 0.5)

    lag.record_lag(WINDOW_SECONDS + 1, 0.1)
    assert lag.longest == 0.5

    lag.record_lag(WINDOW_SECONDS + 11, 0.1)
    assert lag.longest == 0.1


def test_lag_is_unknown_before_the_first_sample() -> None:
    assert LoopLag().longest is None


async def test_stalled_loop_is_counted_and_logged(
    clock: LoopClock, caplog: pytest.LogCaptureFixture
) -> None:
    change = Change()
    process = Process()
    process.begins("web", "1")
    await until(lambda: process.lag.longest is not None)

    await clock.advance(3)
    await until(lambda: (process.lag.longest or 0) > 1)
    await process.ends()

    assert change.of("tributary_event_loop_lag_seconds_count") >= 2
    assert any(one.getMessage().startswith("loop.stalled seconds=") for one in caplog.records)
