"""The bookkeeping of connections that wait for their clients, and what it assumes of Twisted."""

import asyncio
from importlib.metadata import version
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.abstract import FileDescriptor
from twisted.internet.main import CONNECTION_LOST

from project.server.backpressure import Ledger, Outflow
from project.server.connections import Allowance


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Descriptor(FileDescriptor):
    """Twisted's own buffer, without a socket under it."""

    def __init__(self) -> None:
        super().__init__(reactor=object())
        self.connected = 1
        self.is_aborted = False
        self.is_watched = False
        self.sent = b""
        self.answer: object = None

    def startWriting(self) -> None:
        self.is_watched = True

    def stopWriting(self) -> None:
        self.is_watched = False

    def writeSomeData(self, data: bytes) -> Any:
        if self.answer is not None:
            return self.answer
        self.sent += data[:1000]
        return min(len(data), 1000)

    def abortConnection(self) -> None:
        self.is_aborted = True


def attach(ledger: Ledger) -> tuple[Outflow, Descriptor]:
    transport = Descriptor()
    outflow = Outflow(ledger, transport)
    transport.registerProducer(outflow, True)
    return outflow, transport


def ledger_of(clock: Clock, *, ceiling_bytes: int = 1 << 40) -> Ledger:
    return Ledger(stall_seconds=60, ceiling_bytes=ceiling_bytes, clock=clock)


def test_twisted_is_a_version_with_a_known_buffer() -> None:
    assert version("twisted").split(".")[0] == "26"
    assert version("daphne").startswith("4.2.")


@given(st.lists(st.integers(1, 20_000), max_size=30))
def test_pending_bytes_are_what_twisted_counts(sizes: list[int]) -> None:
    outflow, transport = attach(ledger_of(Clock()))

    for size in sizes:
        transport.write(b"x" * size)

    assert outflow.pending_bytes == sum(sizes)
    assert outflow.is_paused == transport._isSendBufferFull()
    assert outflow.is_paused == (sum(sizes) > FileDescriptor.bufferSize)


def test_small_message_goes_straight_to_the_kernel() -> None:
    outflow, transport = attach(ledger_of(Clock()))

    outflow.write(b"x" * 1000)

    assert transport.sent == b"x" * 1000
    assert outflow.pending_bytes == 0
    assert not transport.is_watched


def test_bytes_that_the_kernel_refuses_wait_in_order() -> None:
    outflow, transport = attach(ledger_of(Clock()))

    for number in range(4):
        outflow.write(bytes([number]) * 1500)
    assert transport.is_watched
    assert outflow.pending_bytes == 5000
    while outflow.pending_bytes:
        transport.doWrite()

    assert transport.sent == b"".join(bytes([number]) * 1500 for number in range(4))


@pytest.mark.parametrize("answer", [0, CONNECTION_LOST])
def test_full_kernel_buffer_is_tried_again(answer: object) -> None:
    outflow, transport = attach(ledger_of(Clock()))
    transport.answer = answer

    outflow.write(b"words")

    assert transport.is_watched
    assert outflow.pending_bytes == 5


def test_lost_connection_is_not_written_to() -> None:
    outflow, transport = attach(ledger_of(Clock()))
    transport.connected = 0

    outflow.write(b"words")

    assert transport.sent == b""
    assert outflow.pending_bytes == 0


def test_connection_that_took_everything_is_not_cut() -> None:
    clock = Clock()
    ledger = ledger_of(clock)
    outflow, transport = attach(ledger)
    transport.write(b"x" * 70_000)
    assert outflow.is_paused

    for _ in range(80):
        transport.doWrite()
    clock.now = 1000
    ledger.sweep()

    assert not outflow.is_paused
    assert not transport.is_aborted
    assert ledger.pending_bytes == 0


def test_stall_is_measured_from_its_beginning() -> None:
    clock = Clock()
    ledger = ledger_of(clock)
    _, transport = attach(ledger)
    transport.write(b"x" * 70_000)
    clock.now = 59
    transport.write(b"x")
    ledger.sweep()
    assert not transport.is_aborted

    clock.now = 60
    ledger.sweep()

    assert transport.is_aborted


def test_closing_connection_has_the_same_deadline() -> None:
    clock = Clock()
    ledger = ledger_of(clock)
    outflow, transport = attach(ledger)
    transport.write(b"the end")
    outflow.finish_in_time()

    clock.now = 60
    ledger.sweep()

    assert transport.is_aborted


def test_only_the_longest_waiters_are_cut_over_the_ceiling() -> None:
    clock = Clock()
    ledger = ledger_of(clock, ceiling_bytes=250_000)
    transports = []
    for _ in range(4):
        clock.now += 1
        transports.append(attach(ledger)[1])
        transports[-1].write(b"x" * 100_000)

    ledger.sweep()

    assert [transport.is_aborted for transport in transports] == [True, True, False, False]
    assert ledger.pending_bytes == 200_000


async def test_lost_connection_releases_all_writers() -> None:
    outflow, _ = attach(ledger_of(Clock()))
    outflow.pauseProducing()
    writers = [asyncio.create_task(outflow.writable()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(writer.done() for writer in writers)

    outflow.stopProducing()

    async with asyncio.timeout(5):
        await asyncio.gather(*writers)


async def test_writer_waits_on_when_the_buffer_is_full_again() -> None:
    outflow, _ = attach(ledger_of(Clock()))
    outflow.pauseProducing()
    writer = asyncio.create_task(outflow.writable())
    await asyncio.sleep(0)

    outflow.resumeProducing()
    outflow.pauseProducing()
    for _ in range(5):
        await asyncio.sleep(0)

    assert not writer.done()
    writer.cancel()


@pytest.mark.parametrize(("waited", "allowed"), [(0, 0), (0.05, 0), (0.1, 1), (1, 10), (3600, 30)])
def test_allowance_grows_with_time_up_to_the_burst(waited: float, allowed: int) -> None:
    clock = Clock()
    allowance = Allowance(10, 30, clock)
    assert [allowance.take() for _ in range(31)] == [True] * 30 + [False]

    clock.now += waited

    assert sum(allowance.take() for _ in range(100)) == allowed
