"""Clients that do not read what they asked for."""

import contextlib
import select
import socket
import time

import pytest

from tests.server.process import SOON_SECONDS, Process, eventually, frame, read_until, server

pytestmark = pytest.mark.process

READERS = 20
# Each may hold 64 KiB and one message in the process; what the kernel holds does not count.
GROWTH_KIB = 16 * 1024
BIG_BYTES = 8 * 1024 * 1024
LAST_CHUNK = b"x\r\n0\r\n\r\n"


def is_reset(raw: socket.socket) -> bool:
    """Whether the server cuts the connection; does not read from it."""
    poll = select.poll()
    poll.register(raw, 0)
    return bool(poll.poll(SOON_SECONDS * 1000))


def settled(process: Process, name: str) -> bool:
    sizes: list[int] = [-1]

    def has_settled() -> bool:
        sizes.append(process.seen(name))
        return sizes[-1] > 0 and sizes[-1] == sizes[-2]

    return eventually(has_settled)


def read_bytes(raw: socket.socket, count: int) -> None:
    while count > 0:
        received = raw.recv(1 << 20)
        assert received, "the stream has ended"
        count -= len(received)


def test_streams_that_nobody_reads_wait_and_others_go_on() -> None:
    with server() as process, contextlib.ExitStack() as stack:
        healthy = stack.enter_context(process.get("/tick"))
        read_until(healthy, b"data: ")
        before = process.rss_kib

        for _ in range(READERS):
            stack.enter_context(process.get("/flood", receive_buffer=4096))

        assert settled(process, "flood_sent")
        assert process.rss_kib - before < GROWTH_KIB
        assert process.seen("flood_left") == 0
        for _ in range(20):
            assert read_until(healthy, b"\n\n")


def test_stream_goes_on_without_a_gap_when_its_reader_does() -> None:
    with server() as process, process.get("/flood", receive_buffer=65536) as raw:
        assert settled(process, "flood_sent")
        waiting = process.seen("flood_sent")

        read_bytes(raw, waiting + 1_000_000)

        assert process.seen("flood_sent") > waiting


def test_stalled_stream_is_cut_and_its_application_told() -> None:
    with server(stall_seconds=0.5, close_seconds=600) as process:
        with process.get("/flood", receive_buffer=4096) as raw:
            assert is_reset(raw)

        assert eventually(lambda: process.seen("flood_left") == 1)


def test_stream_that_is_read_is_not_cut() -> None:
    with server(stall_seconds=2) as process, process.get("/flood") as raw:
        # For longer than a reader may stand still.
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            read_bytes(raw, 1_000_000)

        assert process.seen("flood_left") == 0


@pytest.mark.parametrize("connection", [b"close", b"keep-alive"])
def test_answer_that_is_never_taken_does_not_stay(connection: bytes) -> None:
    with server(stall_seconds=0.5) as process, process.connect(receive_buffer=4096) as raw:
        raw.sendall(b"GET /big HTTP/1.1\r\nHost: a\r\nConnection: " + connection + b"\r\n\r\n")

        assert is_reset(raw)


def test_over_the_ceiling_those_who_wait_longest_are_cut() -> None:
    with server(outgoing_bytes=2 * BIG_BYTES + 4096) as process, contextlib.ExitStack() as stack:
        readers = []
        for number in range(1, 6):
            readers.append(stack.enter_context(process.get("/big", receive_buffer=65536)))
            assert eventually(lambda number=number: process.seen("big") == number)

        cut, kept = readers[:3], readers[3:]

        assert all(is_reset(raw) for raw in cut)
        assert all(read_until(raw, LAST_CHUNK).endswith(LAST_CHUNK) for raw in kept)


def test_websocket_that_nobody_reads_waits_for_all_its_writers() -> None:
    with server() as process, process.open(receive_buffer=65536) as raw:
        before = process.rss_kib

        raw.sendall(frame(1, b"flood 5"))

        assert settled(process, "socket_sent")
        assert process.rss_kib - before < GROWTH_KIB
        waiting = process.seen("socket_sent")
        read_bytes(raw, waiting + 1_000_000)
        assert process.seen("socket_sent") > waiting


def test_stalled_websocket_is_cut() -> None:
    with server(stall_seconds=0.5) as process, process.open(receive_buffer=4096) as raw:
        raw.sendall(frame(1, b"flood 1"))

        assert is_reset(raw)
