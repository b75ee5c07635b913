"""Websockets: small messages in, at a human pace, and every close code out."""

import contextlib
import struct
import time

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import CloseCode
from websockets.sync.client import ClientConnection

from tests.server.process import (
    HANDSHAKE,
    Process,
    eventually,
    frame,
    is_cut,
    read_to_end,
    read_until,
    server,
)

pytestmark = pytest.mark.process

LIMIT = 64 * 1024
TEXT, CLOSE = 0x1, 0x8


def close_code(websocket: ClientConnection) -> int | None:
    """Reads to the end, and tells how the server explained it."""
    with contextlib.suppress(ConnectionClosed):
        while True:
            websocket.recv(timeout=20)
    return websocket.close_code


def test_messages_pass_both_ways(shared: Process) -> None:
    with shared.websocket() as websocket:
        websocket.send("x" * LIMIT)

        assert websocket.recv() == str(LIMIT)


def test_limit_for_messages_in_does_not_bind_messages_out(shared: Process) -> None:
    with shared.websocket() as websocket:
        websocket.send(f"big {LIMIT * 16}")

        assert len(websocket.recv()) == LIMIT * 16


@pytest.mark.parametrize("code", [1000, 1001, 1008, 1011, 1012, 1013, 3000, 4401, 4999])
def test_application_closes_with_the_code_it_chose(shared: Process, code: int) -> None:
    with shared.websocket() as websocket:
        websocket.send(f"close {code}")

        assert close_code(websocket) == code


def test_client_that_reads_late_is_not_cut_before_it_has_heard_the_goodbye() -> None:
    with server(farewell_seconds=600) as process, process.open() as raw:
        raw.sendall(frame(TEXT, b"hello") + frame(TEXT, b"close 4001"))
        # The library itself waits a second for an answer to its close frame.
        time.sleep(2)
        # On a connection that was cut, one of these two fails.
        raw.sendall(frame(CLOSE, struct.pack("!H", 4001)))

        assert read_to_end(raw).endswith(b"\x81\x015\x88\x02\x0f\xa1")


def test_client_that_never_answers_a_goodbye_is_cut() -> None:
    with server(farewell_seconds=0.2) as process, process.open() as raw:
        raw.sendall(frame(TEXT, b"close 4001"))

        assert is_cut(raw)


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 2000, 5000])
def test_close_code_that_must_not_be_sent_is_the_application_s_error(
    shared: Process, code: int
) -> None:
    with shared.websocket() as websocket:
        websocket.send(f"close {code}")

        assert close_code(websocket) == CloseCode.INTERNAL_ERROR


def test_refused_websocket_is_forbidden(shared: Process) -> None:
    with pytest.raises(InvalidStatus) as refused:
        shared.websocket("/no-such-place")

    assert refused.value.response.status_code == 403
    assert "server" not in refused.value.response.headers


def test_handshake_does_not_name_the_server(shared: Process) -> None:
    with shared.websocket() as websocket:
        assert "server" not in websocket.response.headers


@pytest.mark.parametrize("value", ["/echo", "\xe9"])
def test_root_path_header_of_a_handshake_changes_nothing(shared: Process, value: str) -> None:
    with shared.connect() as raw:
        head = HANDSHAKE % b"/echo"
        raw.sendall(head[:-2] + f"Daphne-Root-Path: {value}\r\n\r\n".encode("latin1"))

        assert read_until(raw, b"\r\n\r\n").startswith(b"HTTP/1.1 101")


def test_message_over_the_limit_closes_with_too_big(shared: Process) -> None:
    with shared.websocket() as websocket:
        websocket.send("x" * (LIMIT + 1))

        assert close_code(websocket) == CloseCode.MESSAGE_TOO_BIG


def test_message_that_grows_over_the_limit_by_pieces_closes_with_too_big(shared: Process) -> None:
    with shared.websocket() as websocket:
        with contextlib.suppress(ConnectionClosed):
            websocket.send("x" * 1000 for _ in range(1000))

        assert close_code(websocket) == CloseCode.MESSAGE_TOO_BIG


def test_huge_frame_leaves_no_trace_in_memory() -> None:
    with server() as process, process.open() as raw:
        before = process.rss_kib

        with contextlib.suppress(ConnectionError):
            raw.sendall(struct.pack("!BBQ", 0x81, 0xFF, 100 << 20) + bytes(4))
            for _ in range(100):
                raw.sendall(b"x" * (1 << 20))

        assert process.rss_kib - before < 8 * 1024
        assert process.request("GET", "/state")[0] == 200


def test_too_many_messages_close_with_policy_violation(shared: Process) -> None:
    with shared.websocket() as websocket:
        with contextlib.suppress(ConnectionClosed):
            for _ in range(1000):
                websocket.send("again")

        assert close_code(websocket) == CloseCode.POLICY_VIOLATION


def test_messages_beyond_the_allowance_close_even_when_each_is_answered() -> None:
    with (
        server(message_burst=3, messages_per_second=0) as process,
        process.websocket() as websocket,
    ):
        for _ in range(3):
            websocket.send("hello")
            assert websocket.recv() == "5"

        websocket.send("hello")

        assert close_code(websocket) == CloseCode.POLICY_VIOLATION


def test_burst_of_a_page_that_opens_is_served(shared: Process) -> None:
    with shared.websocket() as websocket:
        for _ in range(50):
            websocket.send("hello")

        assert [websocket.recv() for _ in range(50)] == ["5"] * 50


def test_flood_of_pings_from_a_client_that_does_not_read_is_cut() -> None:
    with server() as process, process.open(receive_buffer=4096) as raw:
        before = process.rss_kib
        pings = frame(9, b"x" * 125) * 1000

        with contextlib.suppress(ConnectionError):
            for _ in range(1000):
                raw.sendall(pings)

        assert process.rss_kib - before < 8 * 1024
        assert eventually(lambda: process.seen("echo_left") == 1)


def test_messages_that_the_application_does_not_take_close_the_socket() -> None:
    with (
        server(messages_per_second=1e6, message_burst=10**6) as process,
        process.websocket("/never-reads") as websocket,
    ):
        before = process.rss_kib

        with contextlib.suppress(ConnectionClosed):
            for _ in range(500):
                websocket.send("x" * 60_000)

        assert close_code(websocket) == CloseCode.POLICY_VIOLATION
        assert process.rss_kib - before < 16 * 1024


def test_client_that_sends_before_it_is_accepted_is_cut() -> None:
    with server() as process, process.connect() as raw:
        raw.sendall(HANDSHAKE % b"/never-accepts")
        assert eventually(lambda: process.seen("never_accepts") == 1)
        before = process.rss_kib

        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                raw.sendall(b"x" * (1 << 20))

        assert is_cut(raw)
        assert process.rss_kib - before < 8 * 1024


def test_websocket_that_is_never_accepted_is_refused() -> None:
    with server(connect_seconds=0.5) as process, process.connect() as raw:
        raw.sendall(HANDSHAKE % b"/never-accepts")

        assert b" 101 " not in read_to_end(raw)
        assert process.request("GET", "/state")[0] == 200


def test_application_learns_at_once_that_a_client_left() -> None:
    with server(close_seconds=600) as process:
        with process.websocket() as websocket:
            websocket.send("hello")
            websocket.recv()

        assert eventually(lambda: process.seen("echo_left_1000") == 1)


def test_application_learns_at_once_that_a_client_vanished() -> None:
    with server(close_seconds=600) as process:
        process.open().close()

        assert eventually(lambda: process.seen("echo_left_1006") == 1)
