"""What an application and its clients see over HTTP."""

import json
import socket
from collections.abc import Iterator

import pytest

from project.server.server import Receive, Scope, Send, fixed_root_path
from tests.server.process import (
    Process,
    eventually,
    is_cut,
    read_bytes,
    read_to_end,
    read_until,
    server,
)

pytestmark = pytest.mark.process


def test_root_path_header_changes_nothing(shared: Process, subtests: pytest.Subtests) -> None:
    for name in ["Daphne-Root-Path", "daphne-root-path"]:
        for value in ["/show", "/%73how", "\xe9"]:
            with subtests.test(msg=f"{name}: {value}"):
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


def test_header_with_an_underscore_is_dropped(shared: Process) -> None:
    _, body = shared.request("GET", "/show-scope", headers={"X_Forwarded_Proto": "https"})

    assert not [name for name in json.loads(body)["headers"] if "forwarded" in name]


AMBIGUOUS = [
    b"Content-Length: 3\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nContent-Length: 3",
    b"Content-Length: 3\r\nContent-Length: 4",
    b"Content-Length: +3",
    b"Content-Length: -3",
    b"Transfer-Encoding: gzip",
    b"X-Bad: a\x0bb",
    b"X-Bad: a\x85b",
    b"X Bad: a",
]


def test_ambiguous_request_reaches_no_application(
    shared: Process, subtests: pytest.Subtests
) -> None:
    before = shared.seen("count_body")

    for head in AMBIGUOUS:
        with subtests.test(msg=repr(head)), shared.connect() as raw:
            raw.sendall(b"POST /count-body HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n\r\n0\r\n\r\n")
            raw.shutdown(socket.SHUT_WR)
            answer = read_to_end(raw)

            assert not answer or answer.startswith(b"HTTP/1.1 400")
            assert shared.seen("count_body") == before


LONG = b"x" * 20_000
TOO_LONG = [
    (b"GET /?%b HTTP/1.1\r\nHost: a\r\n\r\n" % LONG, b"414 URI Too Long"),
    (b"GET /?%b" % (LONG * 20), b"414 URI Too Long"),
    (b"POST /?%b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" % LONG, b"414 URI"),
    (b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: %b\r\n\r\n" % LONG, b"431 Request Header"),
    (b"GET / HTTP/1.1\r\n" + b"X-Many: %b\r\n" % LONG[:900] * 30 + b"\r\n", b"431 Request"),
]


def test_head_that_is_too_long_is_answered(shared: Process, subtests: pytest.Subtests) -> None:
    for head, status in TOO_LONG:
        with subtests.test(msg=repr(head[:40])), shared.connect() as raw:
            raw.sendall(head)
            answer = read_to_end(raw)

            assert answer.startswith(b"HTTP/1.1 " + status)
            assert b"Connection: close" in answer


def test_long_address_of_a_later_request_is_answered(shared: Process) -> None:
    with shared.connect() as raw:
        raw.sendall(b"GET /state HTTP/1.1\r\nHost: a\r\n\r\n")
        read_until(raw, b"\r\n\r\n")
        raw.sendall(b"GET /?%b HTTP/1.1\r\nHost: a\r\n\r\n" % LONG)

        assert b"HTTP/1.1 414" in read_to_end(raw)


def test_address_of_almost_16_kilobytes_is_accepted(shared: Process) -> None:
    status, _ = shared.request("GET", "/state?" + "x" * 15_000)

    assert status == 200


@pytest.mark.parametrize("path", ["/fail-early", "/give-up-early"])
def test_silent_application_is_answered_for(shared: Process, path: str) -> None:
    status, _ = shared.request("GET", path)

    assert status == 500


@pytest.mark.parametrize("path", ["/fail-late", "/give-up-late"])
def test_unfinished_answer_does_not_look_finished(shared: Process, path: str) -> None:
    with shared.get(path) as raw:
        assert is_cut(raw)


# --- deadlines ----------------------------------------------------------------------------------


def test_request_that_never_arrives_is_cut(fresh: Process) -> None:
    with fresh.connect() as raw:
        raw.sendall(b"POST /count-body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        fresh.advance(121)

        assert is_cut(raw)
        assert fresh.seen("count_body") == 0


def test_deadlines_hold_after_an_application_failed(fresh: Process) -> None:
    with fresh.get("/fail-late") as raw:
        assert is_cut(raw)

    with fresh.connect() as raw:
        raw.sendall(b"POST /count-body HTTP/1.1\r\nContent-Length: 9\r\n\r\n")
        fresh.advance(121)

        assert is_cut(raw)


def test_stream_outlives_the_deadline_of_its_request(fresh: Process) -> None:
    with fresh.get("/tick") as raw:
        read_until(raw, b"data: ")
        fresh.advance(1000)

        read_bytes(raw, 10 * 10_000)

        assert fresh.seen("tick_left") == 0


# --- clients that leave -------------------------------------------------------------------------


@pytest.fixture
def patient() -> Iterator[Process]:
    """A server that lets its applications go on for long after their client has left."""
    with server(close_seconds=600) as process:
        yield process


def test_silent_stream_is_told_at_once_that_its_client_left(patient: Process) -> None:
    raw = patient.get("/quiet")
    read_until(raw, b"hello")

    raw.close()

    assert eventually(lambda: patient.seen("quiet_left") == 1)


def test_waiting_sender_is_told_at_once_that_its_client_left(patient: Process) -> None:
    raw = patient.get("/flood", receive_buffer=4096)
    patient.until_settled("flood_sent")

    raw.close()

    assert eventually(lambda: patient.seen("flood_left") == 1)


def test_client_that_sends_junk_behind_a_stream_is_cut(patient: Process) -> None:
    with patient.get("/quiet") as raw:
        read_until(raw, b"hello")

        raw.sendall(b"x" * 60_000)

        assert is_cut(raw)
        assert eventually(lambda: patient.seen("quiet_left") == 1)


def test_application_that_only_sends_is_ended(fresh: Process) -> None:
    raw = fresh.get("/send-only")
    read_until(raw, b"xxx")

    raw.close()

    assert fresh.request("GET", "/state")[0] == 200
    assert eventually(lambda: fresh.advance(6) or fresh.seen("send_only_ended") == 1)


def test_several_requests_share_one_connection(shared: Process) -> None:
    with shared.connect() as raw:
        raw.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n" * 2)

        answers = read_until(raw, b"finished\r\n0\r\n\r\n")
        if answers.count(b"200 OK") < 2:
            answers += read_until(raw, b"finished\r\n0\r\n\r\n")

    assert answers.count(b"HTTP/1.1 200 OK") == 2
