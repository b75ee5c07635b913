"""Request bodies that are too large: refused early, whatever the client says about their size."""

import contextlib
import http.client
import select
import socket
from collections.abc import Iterator

import pytest

from tests.server.process import Process, read_to_end, read_until, server
from tests.support.forking import SOON_SECONDS

pytestmark = pytest.mark.process

LIMIT = 1024 * 1024
MEGABYTE = b"x" * 1024 * 1024
# Of megabytes, if a server took them all.
HUGE = 600
GROWTH_MIB = 16

HEAD = b"POST /count-body HTTP/1.1\r\nHost: a\r\n"


@pytest.fixture
def fresh() -> Iterator[Process]:
    """A process of its own: memory that an earlier test left behind would hide growth."""
    with server(body_bytes=LIMIT) as process:
        process.request("GET", "/state")
        yield process


def send_until_answered(raw: socket.socket, piece: bytes, count: int) -> int:
    """Sends up to ``count`` pieces, as a client that looks for an early answer; says how many."""
    for sent in range(count):
        if select.select([raw], [], [], 0)[0]:
            return sent
        raw.sendall(piece)
    return count


def send_all(raw: socket.socket, piece: bytes, count: int) -> None:
    for _ in range(count):
        raw.sendall(piece)


CHUNK = b"100000\r\n" + MEGABYTE + b"\r\n"
KINDS = pytest.mark.parametrize(
    ("declared", "piece"),
    [
        pytest.param(b"Content-Length: %d" % (HUGE << 20), MEGABYTE, id="declared"),
        pytest.param(b"Transfer-Encoding: chunked", CHUNK, id="chunked"),
        pytest.param(
            b"Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked",
            CHUNK,
            id="form",
        ),
        pytest.param(
            b"Content-Encoding: gzip\r\nContent-Length: %d" % (HUGE << 20), MEGABYTE, id="gzip"
        ),
    ],
)


@KINDS
def test_huge_body_is_refused_before_it_is_sent(
    fresh: Process, declared: bytes, piece: bytes
) -> None:
    with fresh.growth_below(GROWTH_MIB), fresh.connect() as raw:
        raw.sendall(HEAD + declared + b"\r\n\r\n")
        sent = send_until_answered(raw, piece, HUGE)
        answer = read_until(raw, b"here.\n")

    assert answer.startswith(b"HTTP/1.1 413 Content Too Large\r\n")
    assert b"Connection: close" in answer
    assert sent < 64
    assert fresh.seen("count_body") == 0


@KINDS
def test_client_that_ignores_the_refusal_is_cut(
    fresh: Process, declared: bytes, piece: bytes
) -> None:
    with fresh.growth_below(GROWTH_MIB), fresh.connect() as raw:
        raw.sendall(HEAD + declared + b"\r\n\r\n")
        with pytest.raises(ConnectionError):
            send_all(raw, piece, HUGE)

    assert fresh.seen("count_body") == 0


def test_bytes_beyond_the_declared_length_are_not_kept(fresh: Process) -> None:
    with fresh.growth_below(GROWTH_MIB), fresh.connect() as raw:
        raw.sendall(HEAD + b"Content-Length: 10\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            send_all(raw, MEGABYTE, HUGE)

    assert fresh.request("GET", "/state")[0] == 200


def test_refusal_reaches_a_client_that_reads_late(fresh: Process) -> None:
    status, body = fresh.request("POST", "/count-body", body=MEGABYTE * 20)

    assert status == 413
    assert b"1048576 bytes" in body


def test_connection_is_closed_after_a_refusal(fresh: Process) -> None:
    with fresh.connect() as raw:
        raw.sendall(HEAD + b"Content-Length: 2000000\r\n\r\n")
        answer = read_to_end(raw)

        raw.sendall(b"GET /state HTTP/1.1\r\nHost: a\r\n\r\n")

    assert answer.count(b"HTTP/1.1") == 1


def test_continue_is_not_sent_for_a_huge_body(fresh: Process) -> None:
    with fresh.connect() as raw:
        raw.sendall(HEAD + b"Content-Length: 2000000\r\nExpect: 100-continue\r\n\r\n")
        answer = read_to_end(raw)

    assert answer.startswith(b"HTTP/1.1 413")
    assert b"100 Continue" not in answer


def test_continue_is_sent_for_a_body_that_fits(fresh: Process) -> None:
    with fresh.connect() as raw:
        raw.sendall(HEAD + b"Content-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        assert read_until(raw, b"\r\n\r\n").startswith(b"HTTP/1.1 100 Continue")
        raw.sendall(b"four")

        assert read_until(raw, b"0\r\n\r\n").startswith(b"HTTP/1.1 200 OK")


def test_body_within_the_limit_arrives(fresh: Process, subtests: pytest.Subtests) -> None:
    for size in [0, 1, 8192, 100_000, LIMIT]:
        with subtests.test(msg=f"{size} bytes"):
            answer = fresh.request("POST", "/count-body", body=b"x" * size)

            assert answer == (200, b"%d" % size)


def test_chunked_body_within_the_limit_arrives(fresh: Process) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", fresh.port, timeout=SOON_SECONDS)
    with contextlib.closing(connection):
        pieces = iter([b"x" * 1000] * 100)
        connection.request("POST", "/count-body", body=pieces, encode_chunked=True)

        assert connection.getresponse().read() == b"100000"


def test_chunked_body_one_byte_over_the_limit_is_refused(fresh: Process) -> None:
    with fresh.connect() as raw:
        raw.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNK + b"1\r\nx\r\n0\r\n\r\n")

        assert read_to_end(raw).startswith(b"HTTP/1.1 413")


def test_malformed_form_reaches_the_application(fresh: Process) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=b"}

    assert fresh.request("POST", "/count-body", body=b"--junk", headers=headers) == (200, b"6")


@pytest.fixture
def with_uploads() -> Iterator[Process]:
    with server(
        body_bytes=LIMIT, upload_bytes=3 * LIMIT, upload_addresses=r"/count-body(\?.*)?"
    ) as process:
        yield process


@pytest.mark.parametrize("address", ["/count-body", "/count-body?a=b"])
def test_upload_addresses_take_larger_bodies(with_uploads: Process, address: str) -> None:
    body = MEGABYTE * 2

    assert with_uploads.request("POST", address, body=body) == (200, b"%d" % len(body))
    assert with_uploads.request("POST", address, body=MEGABYTE * 4)[0] == 413


@pytest.mark.parametrize(
    ("method", "address"),
    [
        ("POST", "/state"),
        ("PUT", "/count-body"),
        ("POST", "/count-body/x"),
        ("POST", "/state?/count-body"),
    ],
)
def test_other_addresses_take_no_larger_bodies(
    with_uploads: Process, method: str, address: str
) -> None:
    assert with_uploads.request(method, address, body=MEGABYTE * 2)[0] == 413
