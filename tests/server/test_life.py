"""How the server starts and ends."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.sync.client import ClientConnection

from tests.server.process import Process, eventually, is_cut, read_until, server
from tests.support.forking import SOON_SECONDS

pytestmark = pytest.mark.process


def assert_closed_for_a_restart(websocket: ClientConnection) -> None:
    with pytest.raises(ConnectionClosed) as closed:
        websocket.recv(timeout=SOON_SECONDS)

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == CloseCode.SERVICE_RESTART


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_runs_the_stop_hook(number: signal.Signals) -> None:
    with server(hooks="printing") as process:
        assert process.line() == "started"
        process.signal(number)

        assert process.wait() == 0
        assert [process.line() for _ in range(3)] == ["stopping", "stopped", "ended"]


def test_websockets_are_closed_with_service_restart() -> None:
    with server(hooks="printing") as process, process.websocket() as websocket:
        process.signal()

        assert_closed_for_a_restart(websocket)
        assert process.wait() == 0


def test_late_handshake_is_closed_with_service_restart() -> None:
    with server(close_seconds=60) as process, ThreadPoolExecutor(1) as pool:
        opening = pool.submit(process.websocket, "/accepts_late")
        assert process.line() == "asked"
        process.signal()

        with opening.result() as websocket:
            assert_closed_for_a_restart(websocket)
        assert process.wait() == 0


# --- while the stop hook runs ---------------------------------------------------------------------


def begin_to_drain(process: Process) -> None:
    process.signal()
    assert process.line() == "stopping"


def test_draining_server_serves_open_websockets() -> None:
    with (
        server(hooks="hanging_stop", drain_seconds=600) as process,
        process.websocket() as websocket,
    ):
        begin_to_drain(process)

        websocket.send("hello")

        assert websocket.recv() == "5"
        process.signal()


def test_draining_server_refuses_new_connections() -> None:
    with server(hooks="hanging_stop", drain_seconds=600) as process:
        begin_to_drain(process)

        with pytest.raises(ConnectionRefusedError):
            process.connect()


def test_second_signal_ends_at_once() -> None:
    with server(hooks="hanging_stop", drain_seconds=600) as process:
        begin_to_drain(process)

        process.signal()

        assert process.wait() == 128 + signal.SIGTERM


# --- what is open at the end ----------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/tick", "/quiet", "/flood"])
def test_streams_end_without_looking_finished(path: str) -> None:
    with server(close_seconds=600) as process, process.get(path) as raw:
        read_until(raw, b"\r\n\r\n")

        process.signal()

        assert is_cut(raw)
        assert process.wait() == 0


def test_answer_in_preparation_is_finished() -> None:
    with server(close_seconds=60) as process, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(process.request, "GET", "/finish-late")
        assert eventually(lambda: process.seen("finish_late") == 1)

        process.signal()

        assert answer.result() == (200, b"finished")
        assert process.wait() == 0


@pytest.mark.parametrize(
    "opening", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n"]
)
def test_unfinished_requests_do_not_delay_the_end(opening: bytes) -> None:
    with server(close_seconds=600) as process, process.connect() as raw:
        raw.sendall(opening)
        process.request("GET", "/state")

        process.signal()

        assert process.wait() == 0


@pytest.mark.parametrize("path", ["/send-only", "/flood"])
def test_stalled_reader_does_not_delay_the_end(path: str) -> None:
    with server(close_seconds=0.05) as process, process.get(path, receive_buffer=4096) as raw:
        read_until(raw, b"data: ")

        process.signal()

        assert process.wait() == 0


# --- hooks that fail or hang ----------------------------------------------------------------------


def test_hanging_stop_hook_is_cancelled() -> None:
    with server(hooks="hanging_stop", drain_seconds=0.05) as process:
        process.signal()

        assert process.wait() == 0


def test_failing_stop_hook_does_not_prevent_the_end() -> None:
    with server(hooks="failing_stop") as process, process.websocket() as websocket:
        process.signal()

        assert_closed_for_a_restart(websocket)
        assert process.wait() == 0


def test_failing_start_hook_ends_the_server_with_an_error() -> None:
    with server(hooks="failing") as process:
        assert process.wait() == 1
        assert process.line() == ""


def test_signal_during_the_start_runs_the_stop_hook() -> None:
    with server(hooks="hanging_start") as process:
        assert process.line() == "starting"

        process.signal()

        assert process.wait() == 0
        assert [process.line() for _ in range(3)] == ["stopping", "stopped", "ended"]
