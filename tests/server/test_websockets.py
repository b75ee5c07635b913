"""Websockets: small messages in, at a human pace, and every close code out."""

import contextlib
import socket
import struct
import time
from collections.abc import Iterable

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import CloseCode
from websockets.sync.client import ClientConnection

from chat.live import websocket
from project.server import backpressure
from project.server.server import ConnectionLimits, Server
from tests.server.application import application
from tests.server.process import (
    HANDSHAKE,
    Process,
    eventually,
    frame,
    is_cut,
    length_of,
    read_to_end,
    read_until,
    server,
)
from tests.support.forking import SOON_SECONDS

pytestmark = pytest.mark.process

MEGABYTE = b"x" * (1 << 20)
LIMIT = 64 * 1024
CONTINUATION, TEXT, CLOSE, PING = 0x0, 0x1, 0x8, 0x9


def close_code(websocket: ClientConnection) -> int | None:
    """Reads to the end, and tells how the server explained it."""
    with contextlib.suppress(ConnectionClosed):
        while True:
            websocket.recv(timeout=SOON_SECONDS)
    return websocket.close_code


def test_messages_pass_both_ways(shared: Process) -> None:
    with shared.websocket() as websocket:
        websocket.send("x" * LIMIT)

        assert websocket.recv() == str(LIMIT)


def test_limit_for_messages_in_does_not_bind_messages_out(shared: Process) -> None:
    with shared.websocket() as websocket:
        websocket.send(f"big {LIMIT * 16}")

        assert len(websocket.recv()) == LIMIT * 16


# --- the end --------------------------------------------------------------------------------------


def test_application_chooses_the_close_code(shared: Process, subtests: pytest.Subtests) -> None:
    for code in [1000, 1001, 1008, 1011, 1012, 1013, 3000, 4401, 4999]:
        with subtests.test(msg=str(code)), shared.websocket() as websocket:
            websocket.send(f"close {code}")

            assert close_code(websocket) == code


def test_forbidden_close_code_is_an_internal_error(
    shared: Process, subtests: pytest.Subtests
) -> None:
    for code in [0, 999, 1004, 1005, 1006, 1015, 2000, 5000]:
        with subtests.test(msg=str(code)), shared.websocket() as websocket:
            websocket.send(f"close {code}")

            assert close_code(websocket) == CloseCode.INTERNAL_ERROR


def test_close_handshake_has_its_own_limit() -> None:
    served = Server(
        application, host="127.0.0.1", port=0, limits=ConnectionLimits(farewell_seconds=600)
    )

    assert served.ws_factory.closeHandshakeTimeout == 600


# Waits for longer than the library's own limit; the test above asks for it.
@pytest.mark.slow
def test_client_that_reads_late_gets_the_close_frame() -> None:
    with server(farewell_seconds=600) as process, process.open() as raw:
        raw.sendall(frame(TEXT, b"hello") + frame(TEXT, b"close 4001"))
        # The library itself waits a second for an answer to its close frame.
        time.sleep(2)
        # On a connection that was cut, one of these two fails.
        raw.sendall(frame(CLOSE, struct.pack("!H", 4001)))

        assert read_to_end(raw).endswith(b"\x81\x015\x88\x02\x0f\xa1")


def test_client_that_never_answers_a_close_frame_is_cut() -> None:
    with server(farewell_seconds=0.05) as process, process.open() as raw:
        raw.sendall(frame(TEXT, b"close 4001"))

        assert is_cut(raw)


def test_application_is_told_at_once_that_a_client_left() -> None:
    with server(close_seconds=600) as process:
        with process.websocket() as websocket:
            websocket.send("hello")
            websocket.recv()

        assert eventually(lambda: process.seen("echo_left_1000") == 1)


def test_application_is_told_at_once_that_a_client_vanished() -> None:
    with server(close_seconds=600) as process:
        process.open().close()

        assert eventually(lambda: process.seen("echo_left_1006") == 1)


# --- handshakes -----------------------------------------------------------------------------------


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


def test_client_that_sends_before_it_is_accepted_is_cut(fresh: Process) -> None:
    with fresh.connect() as raw:
        raw.sendall(HANDSHAKE % b"/never-accepts")
        assert eventually(lambda: fresh.seen("never_accepts") == 1)

        with fresh.growth_below(8):
            with contextlib.suppress(ConnectionError):
                for _ in range(100):
                    raw.sendall(MEGABYTE)

            assert is_cut(raw)


def test_websocket_that_is_never_accepted_is_refused() -> None:
    with server(connect_seconds=0.05) as process, process.connect() as raw:
        raw.sendall(HANDSHAKE % b"/never-accepts")

        assert b" 101 " not in read_to_end(raw)
        assert process.request("GET", "/state")[0] == 200


# --- limits ---------------------------------------------------------------------------------------


def refusal_of(raw: socket.socket, frames: Iterable[bytes] = ()) -> int:
    """Sends frames until the server cuts the connection, and gives the close code at its end."""
    with contextlib.suppress(ConnectionError):
        for each in frames:
            raw.sendall(each)
    kind, size, code = struct.unpack("!BBH", read_to_end(raw)[-4:])
    assert (kind, size) == (0x80 | CLOSE, 2)
    return int(code)


def test_message_over_the_limit_closes_with_too_big(shared: Process) -> None:
    with shared.open() as raw:
        assert refusal_of(raw, [frame(TEXT, b"x" * (LIMIT + 1))]) == CloseCode.MESSAGE_TOO_BIG


def test_message_in_pieces_over_the_limit_closes_with_too_big(shared: Process) -> None:
    first = frame(TEXT, b"x" * 1000, is_last=False)
    more = frame(CONTINUATION, b"x" * 1000, is_last=False)

    with shared.open() as raw:
        assert refusal_of(raw, [first, *([more] * 1000)]) == CloseCode.MESSAGE_TOO_BIG


def test_huge_frame_is_not_kept_in_memory(fresh: Process) -> None:
    with fresh.open() as raw:
        with fresh.growth_below(8), contextlib.suppress(ConnectionError):
            raw.sendall(bytes([0x80 | TEXT]) + length_of(100 << 20) + bytes(4))
            for _ in range(100):
                raw.sendall(MEGABYTE)

        assert fresh.request("GET", "/state")[0] == 200


def test_too_many_messages_close_with_policy_violation(shared: Process) -> None:
    with shared.open() as raw:
        assert refusal_of(raw, [frame(TEXT, b"again")] * 1000) == CloseCode.POLICY_VIOLATION


def test_answered_messages_count_against_the_allowance() -> None:
    with server(message_burst=3, messages_per_second=0) as process, process.open() as raw:
        for _ in range(3):
            raw.sendall(frame(TEXT, b"hello"))
            assert read_until(raw, b"5")

        assert refusal_of(raw, [frame(TEXT, b"hello")]) == CloseCode.POLICY_VIOLATION


def test_burst_of_an_opening_page_is_served(shared: Process) -> None:
    with shared.websocket() as websocket:
        for _ in range(50):
            websocket.send("hello")

        assert [websocket.recv() for _ in range(50)] == ["5"] * 50


def test_flood_of_pings_is_cut(fresh: Process) -> None:
    with fresh.open(receive_buffer=4096) as raw, fresh.growth_below(8):
        with contextlib.suppress(ConnectionError):
            for _ in range(1000):
                raw.sendall(frame(PING, b"x" * 125) * 1000)

        assert eventually(lambda: fresh.seen("echo_left") == 1)


def test_queue_of_unread_messages_is_bounded() -> None:
    with (
        server(messages_per_second=1e6, message_burst=10**6) as process,
        process.open(b"/never-reads") as raw,
        process.growth_below(16),
    ):
        assert refusal_of(raw, [frame(TEXT, b"x" * 60_000)] * 500) == CloseCode.POLICY_VIOLATION


def test_consumers_use_the_keys_of_the_server() -> None:
    assert websocket.SEND_NOW == backpressure.SEND_NOW
