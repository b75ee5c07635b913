"""Clients that do not read what they asked for."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.server.process import (
    Process,
    eventually,
    frame,
    is_reset,
    read_bytes,
    read_until,
    server,
)

pytestmark = pytest.mark.process

READERS = 20
# Each may hold 64 KiB and one message in the process; what the kernel holds does not count.
GROWTH_MIB = 16
BIG_BYTES = 8 * 1024 * 1024
LAST_CHUNK = b"x\r\n0\r\n\r\n"


@pytest.fixture
def patient() -> Iterator[Process]:
    """A server that lets its applications go on for long after their client has left."""
    with server(close_seconds=600) as process:
        yield process


def test_unread_streams_wait_while_others_go_on(fresh: Process) -> None:
    with contextlib.ExitStack() as stack:
        healthy = stack.enter_context(fresh.get("/tick"))
        read_until(healthy, b"data: ")

        with fresh.growth_below(GROWTH_MIB):
            for _ in range(READERS):
                stack.enter_context(fresh.get("/flood", receive_buffer=4096))
            fresh.until_settled("flood_sent")

        assert fresh.seen("flood_left") == 0
        for _ in range(20):
            assert read_until(healthy, b"\n\n")


def test_stream_goes_on_without_a_gap_when_its_reader_does(fresh: Process) -> None:
    with fresh.get("/flood", receive_buffer=65536) as raw:
        waiting = fresh.until_settled("flood_sent")

        read_bytes(raw, waiting + 1_000_000)

        assert fresh.seen("flood_sent") > waiting


def test_stalled_stream_is_cut_and_its_application_told(patient: Process) -> None:
    with patient.get("/flood", receive_buffer=4096) as raw:
        patient.until_settled("flood_sent")

        assert patient.cuts_unread(raw)

    assert eventually(lambda: patient.seen("flood_left") == 1)


def test_stream_that_is_read_is_not_cut(fresh: Process) -> None:
    with fresh.get("/flood", receive_buffer=65536) as raw:
        # 160 s in all, and 40 s each: a reader may stand still for 60 s.
        for _ in range(4):
            fresh.until_settled("flood_sent")
            fresh.advance(40)
            read_bytes(raw, 5_000_000)

        assert fresh.seen("flood_left") == 0


@pytest.mark.parametrize("connection", [b"close", b"keep-alive"])
def test_answer_that_is_never_read_is_dropped(fresh: Process, connection: bytes) -> None:
    with fresh.connect(receive_buffer=4096) as raw:
        raw.sendall(b"GET /big HTTP/1.1\r\nHost: a\r\nConnection: " + connection + b"\r\n\r\n")
        assert eventually(lambda: fresh.seen("big") == 1)

        assert fresh.cuts_unread(raw)


def test_longest_waiters_are_cut_over_the_ceiling() -> None:
    with server(outgoing_bytes=2 * BIG_BYTES + 4096) as process, contextlib.ExitStack() as stack:
        readers = []
        for number in range(1, 6):
            readers.append(stack.enter_context(process.get("/big", receive_buffer=65536)))
            assert eventually(lambda number=number: process.seen("big") == number)

        cut, kept = readers[:3], readers[3:]

        assert all(is_reset(raw) for raw in cut)
        assert all(read_until(raw, LAST_CHUNK).endswith(LAST_CHUNK) for raw in kept)


def test_unread_websocket_makes_all_its_writers_wait(fresh: Process) -> None:
    with fresh.open(receive_buffer=65536) as raw:
        with fresh.growth_below(GROWTH_MIB):
            raw.sendall(frame(1, b"flood 5"))
            waiting = fresh.until_settled("socket_sent")

        read_bytes(raw, waiting + 1_000_000)

        assert fresh.seen("socket_sent") > waiting


def test_stalled_websocket_is_cut(fresh: Process) -> None:
    with fresh.open(receive_buffer=4096) as raw:
        raw.sendall(frame(1, b"flood 1"))
        fresh.until_settled("socket_sent")

        assert fresh.cuts_unread(raw)
