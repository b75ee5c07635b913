"""What an application and its clients see over HTTP."""

import json
import socket

import pytest

from project.server import Receive, Scope, Send, fixed_root_path
from tests.server.process import (
    Process,
    eventually,
    is_cut,
    read_to_end,
    read_until,
    server,
)

pytestmark = pytest.mark.process


def left(process: Process, name: str) -> bool:
    return process.seen(f"{name}_sent") > 0 and process.seen(f"{name}_left") == 1


@pytest.mark.parametrize("name", ["Daphne-Root-Path", "daphne-root-path"])
@pytest.mark.parametrize("value", ["/show", "/%73how", "\xe9"])
def test_root_path_header_changes_nothing(shared: Process, name: str, value: str) -> None:
    status, body = shared.request("GET", "/show-scope", headers={name: value})

    scope = json.loads(body)
    assert status == 200
    assert scope["path"] == "/show-scope"
    assert scope["root_path"] == ""
    assert name.lower() not in scope["headers"]


async def test_root_path_is_empty_whatever_a_server_says() -> None:
    seen: list[Scope] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    scope = {"type": "http", "path": "/show/scope", "root_path": "/show"}
    await fixed_root_path(application)(scope, never, never)

    assert seen == [{"type": "http", "path": "/show/scope", "root_path": ""}]
    assert scope["root_path"] == "/show"


async def never(*_: object) -> None:
    raise AssertionError


def test_answers_do_not_name_the_server(shared: Process) -> None:
    with shared.get("/state") as raw:
        for_application = read_until(raw, b"\r\n\r\n")
    with shared.connect() as raw:
        raw.sendall(b"GET /fail-early HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        for_error = read_to_end(raw)

    assert for_application.startswith(b"HTTP/1.1 200")
    assert for_error.startswith(b"HTTP/1.1 500")
    assert b"server:" not in (for_application + for_error).lower()
    assert b"daphne" not in for_error.lower()


def test_underscored_twin_of_a_header_is_dropped(shared: Process) -> None:
    _, body = shared.request("GET", "/show-scope", headers={"X_Forwarded_Proto": "https"})

    assert not [name for name in json.loads(body)["headers"] if "forwarded" in name]


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 3",
        b"Content-Length: 3\r\nContent-Length: 4",
        b"Content-Length: +3",
        b"Content-Length: -3",
        b"Transfer-Encoding: gzip",
        b"X-Bad: a\x0bb",
        b"X-Bad: a\x85b",
        b"X Bad: a",
    ],
)
def test_ambiguous_request_is_refused_and_reaches_no_application(
    shared: Process, head: bytes
) -> None:
    before = shared.seen("count_body")

    with shared.connect() as raw:
        raw.sendall(b"POST /count-body HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n\r\n0\r\n\r\n")
        raw.shutdown(socket.SHUT_WR)
        answer = read_to_end(raw)

    assert not answer or answer.startswith(b"HTTP/1.1 400")
    assert shared.seen("count_body") == before


@pytest.mark.parametrize("path", ["/fail-early", "/give-up-early"])
def test_application_that_does_not_answer_is_answered_for(shared: Process, path: str) -> None:
    status, _ = shared.request("GET", path)

    assert status == 500


@pytest.mark.parametrize("path", ["/fail-late", "/give-up-late"])
def test_answer_that_the_application_left_unfinished_does_not_look_finished(
    shared: Process, path: str
) -> None:
    with shared.get(path) as raw:
        assert is_cut(raw)


def test_deadlines_hold_after_an_application_failed_in_mid_answer() -> None:
    with server(request_seconds=0.5) as process:
        with process.get("/fail-late") as raw:
            assert is_cut(raw)

        with process.connect() as raw:
            raw.sendall(b"POST /count-body HTTP/1.1\r\nContent-Length: 9\r\n\r\n")

            assert is_cut(raw)


def test_application_learns_at_once_that_the_client_of_a_silent_stream_left() -> None:
    with server(close_seconds=600) as process:
        raw = process.get("/quiet")
        read_until(raw, b"hello")

        raw.close()

        assert eventually(lambda: process.seen("quiet_left") == 1)


def test_application_learns_at_once_that_a_client_left_while_it_waited_to_send() -> None:
    with server(close_seconds=600) as process:
        raw = process.get("/flood", receive_buffer=4096)
        sizes: list[int] = [-1]
        assert eventually(lambda: has_settled(process, sizes))

        raw.close()

        assert eventually(lambda: left(process, "flood"))


def has_settled(process: Process, sizes: list[int]) -> bool:
    """True when nothing was sent since the last look."""
    sizes.append(process.seen("flood_sent"))
    return sizes[-1] > 0 and sizes[-1] == sizes[-2]


def test_client_that_pipelines_junk_behind_a_stream_is_cut() -> None:
    with server(close_seconds=600) as process, process.get("/quiet") as raw:
        read_until(raw, b"hello")

        raw.sendall(b"x" * 60_000)

        assert is_cut(raw)
        assert eventually(lambda: process.seen("quiet_left") == 1)


def test_application_that_only_sends_does_not_outlive_its_client_or_block_others() -> None:
    with server(close_seconds=0.5) as process:
        raw = process.get("/deaf")
        read_until(raw, b"xxx")

        raw.close()

        assert process.request("GET", "/state")[0] == 200


def test_request_that_never_arrives_is_cut() -> None:
    with server(request_seconds=0.5) as process, process.connect() as raw:
        raw.sendall(b"POST /count-body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")

        assert is_cut(raw)
        assert process.seen("count_body") == 0


def test_stream_outlives_the_deadline_of_its_request() -> None:
    with server(request_seconds=0.5) as process, process.get("/tick") as raw:
        received = 0
        while received < 100 * 10_000:
            received += len(raw.recv(1 << 20))

        assert process.seen("tick_left") == 0


def test_several_requests_share_one_connection(shared: Process) -> None:
    with shared.connect() as raw:
        raw.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET /slow HTTP/1.1\r\nHost: a\r\n\r\n")

        answers = read_until(raw, b"finished\r\n0\r\n\r\n")
        answers += (
            read_until(raw, b"finished\r\n0\r\n\r\n") if answers.count(b"200 OK") < 2 else b""
        )

    assert answers.count(b"HTTP/1.1 200 OK") == 2
