"""Performing a script on one exchange, step by step."""

import asyncio
from typing import assert_never

from chat.demo.control import Control
from chat.demo.http import Exchange
from chat.demo.script import (
    AnyStep,
    Close,
    Flood,
    Gate,
    Hang,
    Head,
    Pause,
    Raw,
    Reset,
    Script,
    Send,
)

# A flood that the kernel swallows whole must still let the loop see that the client left.
FLOOD_WRITES_PER_BREATH = 8


class Performance:
    """One script being performed. Cancelled when the client leaves."""

    def __init__(self, exchange: Exchange, control: Control) -> None:
        self._exchange = exchange
        self._control = control

    async def run(self, script: Script) -> None:
        for step in script.steps:
            await self._do(step)
            if self._exchange.outcome != "open":
                return
        await self._begin()
        await self._exchange.finish()

    async def _do(self, step: AnyStep) -> None:
        match step:
            case Head():
                await self._head(step)
            case Send():
                await self._send(step.pieces)
            case Raw():
                # Whatever it is, it stands where the head would.
                self._exchange.has_head = True
                await self._exchange.raw(step.data)
            case Pause():
                await asyncio.sleep(step.seconds)
            case Gate():
                await self._control.wait_at(step.name)
            case Flood():
                await self._flood(step.data, step.times)
            case Hang():
                await asyncio.Event().wait()
            case Close():
                self._exchange.close()
            case Reset():
                self._exchange.reset()
            case _:
                assert_never(step)

    async def _begin(self) -> None:
        if not self._exchange.has_head:
            await self._head(Head())

    async def _head(self, step: Head) -> None:
        await self._exchange.head(
            step.status, step.headers, framing=step.framing, length=step.length
        )

    async def _send(self, pieces: list[bytes]) -> None:
        await self._begin()
        for piece in pieces:
            await self._exchange.write(piece)
            await asyncio.sleep(0)

    async def _flood(self, data: bytes, times: int) -> None:
        await self._begin()
        count = 0
        while not times or count < times:
            await self._exchange.write(data)
            count += 1
            if count % FLOOD_WRITES_PER_BREATH == 0:
                await asyncio.sleep(0)
