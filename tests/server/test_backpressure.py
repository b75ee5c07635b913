"""The bookkeeping of connections that wait for their clients, and what it assumes of Twisted."""

import asyncio
from importlib.metadata import version
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.abstract import FileDescriptor
from twisted.internet.main import CONNECTION_LOST

from project.server.backpressure import BufferLimits, WriteBuffer
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


def attach(limits: BufferLimits) -> tuple[WriteBuffer, Descriptor]:
    transport = Descriptor()
    write_buffer = WriteBuffer(limits, transport)
    transport.registerProducer(write_buffer, True)
    return write_buffer, transport


def limits_of(clock: Clock, *, ceiling_bytes: int = 1 << 40) -> BufferLimits:
    return BufferLimits(stall_seconds=60, ceiling_bytes=ceiling_bytes, clock=clock)


def test_twisted_is_a_version_with_a_known_buffer() -> None:
    assert version("twisted").split(".")[0] == "26"
    assert version("daphne").startswith("4.2.")


@given(st.lists(st.integers(1, 20_000), max_size=30))
def test_pending_bytes_are_what_twisted_counts(sizes: list[int]) -> None:
    write_buffer, transport = attach(limits_of(Clock()))

    for size in sizes:
        transport.write(b"x" * size)

    assert write_buffer.pending_bytes == sum(sizes)
    assert write_buffer.is_paused == transport._isSendBufferFull()
    assert write_buffer.is_paused == (sum(sizes) > FileDescriptor.bufferSize)


def test_small_message_goes_straight_to_the_kernel() -> None:
    write_buffer, transport = attach(limits_of(Clock()))

    write_buffer.write(b"x" * 1000)

    assert transport.sent == b"x" * 1000
    assert write_buffer.pending_bytes == 0
    assert not transport.is_watched


def test_bytes_that_the_kernel_refuses_wait_in_order() -> None:
    write_buffer, transport = attach(limits_of(Clock()))

    for number in range(4):
        write_buffer.write(bytes([number]) * 1500)
    assert transport.is_watched
    assert write_buffer.pending_bytes == 5000
    while write_buffer.pending_bytes:
        transport.doWrite()

    assert transport.sent == b"".join(bytes([number]) * 1500 for number in range(4))


@pytest.mark.parametrize("answer", [0, CONNECTION_LOST])
def test_full_kernel_buffer_is_tried_again(answer: object) -> None:
    write_buffer, transport = attach(limits_of(Clock()))
    transport.answer = answer

    write_buffer.write(b"words")

    assert transport.is_watched
    assert write_buffer.pending_bytes == 5


def test_lost_connection_is_not_written_to() -> None:
    write_buffer, transport = attach(limits_of(Clock()))
    transport.connected = 0

    write_buffer.write(b"words")

    assert transport.sent == b""
    assert write_buffer.pending_bytes == 0


def test_connection_that_took_everything_is_not_cut() -> None:
    clock = Clock()
    limits = limits_of(clock)
    write_buffer, transport = attach(limits)
    transport.write(b"x" * 70_000)
    assert write_buffer.is_paused

    for _ in range(80):
        transport.doWrite()
    clock.now = 1000
    limits.sweep()

    assert not write_buffer.is_paused
    assert not transport.is_aborted
    assert limits.pending_bytes == 0


def test_stall_is_measured_from_its_beginning() -> None:
    clock = Clock()
    limits = limits_of(clock)
    _, transport = attach(limits)
    transport.write(b"x" * 70_000)
    clock.now = 59
    transport.write(b"x")
    limits.sweep()
    assert not transport.is_aborted

    clock.now = 60
    limits.sweep()

    assert transport.is_aborted


def test_closing_connection_has_the_same_deadline() -> None:
    clock = Clock()
    limits = limits_of(clock)
    write_buffer, transport = attach(limits)
    transport.write(b"the end")
    write_buffer.finish_in_time()

    clock.now = 60
    limits.sweep()

    assert transport.is_aborted


def test_only_the_longest_waiters_are_cut_over_the_ceiling() -> None:
    clock = Clock()
    limits = limits_of(clock, ceiling_bytes=250_000)
    transports = []
    for _ in range(4):
        clock.now += 1
        transports.append(attach(limits)[1])
        transports[-1].write(b"x" * 100_000)

    limits.sweep()

    assert [transport.is_aborted for transport in transports] == [True, True, False, False]
    assert limits.pending_bytes == 200_000


async def test_lost_connection_releases_all_writers() -> None:
    write_buffer, _ = attach(limits_of(Clock()))
    write_buffer.pauseProducing()
    writers = [asyncio.create_task(write_buffer.writable()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(writer.done() for writer in writers)

    write_buffer.stopProducing()

    async with asyncio.timeout(5):
        await asyncio.gather(*writers)


async def test_writer_waits_on_when_the_buffer_is_full_again() -> None:
    write_buffer, _ = attach(limits_of(Clock()))
    write_buffer.pauseProducing()
    writer = asyncio.create_task(write_buffer.writable())
    await asyncio.sleep(0)

    write_buffer.resumeProducing()
    write_buffer.pauseProducing()
    for _ in range(5):
        await asyncio.sleep(0)

    assert not writer.done()
    writer.cancel()


@pytest.mark.parametrize(("waited", "allowed"), [(0, 0), (0.05, 0), (0.1, 1), (1, 10), (3600, 30)])
def test_allowance_grows_with_time_up_to_the_burst(waited: float, allowed: int) -> None:
    clock = Clock()
    allowance = Allowance(10, 30, clock)
    assert [allowance.try_spend() for _ in range(31)] == [True] * 30 + [False]

    clock.now += waited

    assert sum(allowance.try_spend() for _ in range(100)) == allowed
