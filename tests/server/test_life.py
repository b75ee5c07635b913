"""How the server starts and ends."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from websockets.exceptions import ConnectionClosed

from tests.server.process import eventually, is_cut, read_until, server

pytestmark = pytest.mark.process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_drains_and_ends(number: signal.Signals) -> None:
    with server(hooks="told") as process:
        started = process.line()
        process.signal(number)

        assert process.wait() == 0
        assert [started, process.line(), process.line(), process.line()] == [
            "started", "stopping", "stopped", "ended",
        ]  # fmt: skip


def test_websockets_are_closed_with_service_restart() -> None:
    with server(hooks="told") as process, process.websocket() as websocket:
        process.signal()

        with pytest.raises(ConnectionClosed) as closed:
            websocket.recv(timeout=20)

        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
        assert process.wait() == 0


def test_a_handshake_that_ends_after_the_goodbye_hears_it_too() -> None:
    with server(close_seconds=60) as process, ThreadPoolExecutor(1) as pool:
        opening = pool.submit(process.websocket, "/accepts_late")
        assert process.line() == "asked"
        process.signal()

        with opening.result() as websocket, pytest.raises(ConnectionClosed) as closed:
            websocket.recv(timeout=20)

        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
        assert process.wait() == 0


def test_open_websockets_are_served_while_the_server_drains() -> None:
    with (
        server(hooks="hanging_stop", drain_seconds=600) as process,
        process.websocket() as websocket,
    ):
        process.signal()
        assert process.line() == "stopping"

        websocket.send("hello")

        assert websocket.recv() == "5"
        process.signal()


def test_new_connections_are_refused_while_the_server_drains() -> None:
    with server(hooks="hanging_stop", drain_seconds=600) as process:
        process.signal()
        assert process.line() == "stopping"

        with pytest.raises(ConnectionRefusedError):
            process.connect()


@pytest.mark.parametrize("path", ["/tick", "/quiet", "/flood"])
def test_streams_end_without_looking_finished(path: str) -> None:
    with server(close_seconds=600) as process, process.get(path) as raw:
        read_until(raw, b"\r\n\r\n")

        process.signal()

        assert is_cut(raw)
        assert process.wait() == 0


def test_answer_in_preparation_is_finished() -> None:
    with server() as process:
        answers: list[tuple[int, bytes]] = []
        asking = threading.Thread(target=lambda: answers.append(process.request("GET", "/slow")))
        asking.start()
        assert eventually(lambda: process.seen("slow_begun") == 1)

        process.signal()
        asking.join()

        assert answers == [(200, b"finished")]
        assert process.wait() == 0


@pytest.mark.parametrize(
    "opening", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n"]
)
def test_half_requests_do_not_hold_the_end_up(opening: bytes) -> None:
    with server(close_seconds=600) as process, process.connect() as raw:
        raw.sendall(opening)
        process.request("GET", "/state")

        process.signal()

        assert process.wait() == 0


@pytest.mark.parametrize("path", ["/deaf", "/flood"])
def test_stalled_reader_does_not_hold_the_end_up(path: str) -> None:
    with server(close_seconds=0.5) as process, process.get(path, receive_buffer=4096) as raw:
        read_until(raw, b"data: ")

        process.signal()

        assert process.wait() == 0


def test_second_signal_ends_at_once() -> None:
    with server(hooks="hanging_stop", drain_seconds=600) as process:
        process.signal()
        assert process.line() == "stopping"

        process.signal()

        assert process.wait() == 128 + signal.SIGTERM


def test_stop_hook_that_hangs_is_cancelled() -> None:
    with server(hooks="hanging_stop", drain_seconds=0.2) as process:
        process.signal()

        assert process.wait() == 0


def test_stop_hook_that_fails_does_not_hold_the_end_up() -> None:
    with server(hooks="failing_stop") as process, process.websocket() as websocket:
        process.signal()

        with pytest.raises(ConnectionClosed) as closed:
            websocket.recv(timeout=20)

        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
        assert process.wait() == 0


def test_start_hook_that_fails_ends_the_server_with_an_error() -> None:
    with server(hooks="failing") as process:
        assert process.wait() == 1
        assert process.line() == ""


def test_signal_during_the_start_stops_what_was_started() -> None:
    with server(hooks="hanging_start") as process:
        assert process.line() == "stopping"

        process.signal()

        assert process.wait() == 0
        assert [process.line() for _ in range(3)] == ["stopping", "stopped", "ended"]
