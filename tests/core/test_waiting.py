"""The signal that followers and viewers wait for, and turns on the event loop."""

from __future__ import annotations

import asyncio

import pytest

from chat.core.waiting import LONGEST_TURN_SECONDS, TURN_SECONDS, LoopShare, Signal

SOON_SECONDS = 60.0


async def test_set_signal_is_not_waited_for() -> None:
    signal = Signal()
    signal.set()

    assert await signal.wait(SOON_SECONDS)
    assert signal.is_set()


async def test_set_wakes_everybody_who_waits() -> None:
    signal = Signal()
    waiting = [asyncio.create_task(signal.wait(SOON_SECONDS)) for _ in range(3)]
    await asyncio.sleep(0)

    signal.set()
    signal.clear()

    assert await asyncio.gather(*waiting) == [True, True, True]
    assert not signal.is_set()


async def test_pulse_wakes_only_those_who_wait_now() -> None:
    signal = Signal()
    waiting = asyncio.create_task(signal.wait())
    await asyncio.sleep(0)

    signal.pulse()

    assert await waiting
    assert not await signal.wait(0.0)


async def test_waiting_times_out() -> None:
    assert not await Signal().wait(0.001)


async def test_cancellation_in_the_same_turn_is_not_lost() -> None:
    signal = Signal()
    waiting = asyncio.create_task(signal.wait(SOON_SECONDS))
    await asyncio.sleep(0)

    signal.set()
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert signal._waiting == []


class Loop:
    """An event loop with a clock of its own; ``others`` take so much whenever it is their turn."""

    def __init__(self, others_seconds: float) -> None:
        self.now = 0.0
        self.work_seconds = self.others_seconds = 0.0
        self.longest_seconds = 0.0
        self._others_seconds = others_seconds

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.work_seconds += seconds

    async def others(self) -> None:
        last = 0.0
        while True:
            self.longest_seconds = max(self.longest_seconds, self.work_seconds - last)
            last = self.work_seconds
            self.now += self._others_seconds
            self.others_seconds += self._others_seconds
            await asyncio.sleep(0)


async def shared(others_seconds: float) -> Loop:
    """A second of work, in pieces of one millisecond."""
    loop = Loop(others_seconds)
    others = asyncio.create_task(loop.others())
    turn = LoopShare(lambda: loop.now)
    for _ in range(1000):
        loop.work(0.001)
        await turn.go_on()
    others.cancel()
    return loop


@pytest.mark.parametrize("others_seconds", [0.01, 0.02, 0.05])
async def test_long_work_gets_half_of_a_busy_loop(
    others_seconds: float,
) -> None:
    loop = await shared(others_seconds)

    assert loop.work_seconds * 0.8 < loop.others_seconds < loop.work_seconds * 1.1


@pytest.mark.parametrize(
    ("others_seconds", "turn"), [(0.0, TURN_SECONDS), (5.0, LONGEST_TURN_SECONDS)]
)
async def test_others_wait_no_longer_than_a_turn(others_seconds: float, turn: float) -> None:
    loop = await shared(others_seconds)

    assert loop.longest_seconds == pytest.approx(turn, abs=0.0011)
