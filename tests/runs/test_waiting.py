"""The signal that followers and viewers wait for."""

import asyncio

import pytest

from chat.runs.waiting import Signal

SOON_SECONDS = 60.0


async def test_what_was_set_before_is_not_waited_for() -> None:
    signal = Signal()
    signal.set()

    assert await signal.wait(SOON_SECONDS)
    assert signal.is_set()


async def test_everybody_who_waits_is_woken() -> None:
    signal = Signal()
    waiting = [asyncio.create_task(signal.wait(SOON_SECONDS)) for _ in range(3)]
    await asyncio.sleep(0)

    signal.set()
    signal.clear()

    assert await asyncio.gather(*waiting) == [True, True, True]
    assert not signal.is_set()


async def test_a_pulse_is_for_those_who_wait_now() -> None:
    signal = Signal()
    waiting = asyncio.create_task(signal.wait())
    await asyncio.sleep(0)

    signal.pulse()

    assert await waiting
    assert not await signal.wait(0.0)


async def test_waiting_has_an_end() -> None:
    assert not await Signal().wait(0.001)


async def test_a_cancellation_in_the_same_turn_is_not_lost() -> None:
    signal = Signal()
    waiting = asyncio.create_task(signal.wait(SOON_SECONDS))
    await asyncio.sleep(0)

    signal.set()
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert signal._waiting == []
