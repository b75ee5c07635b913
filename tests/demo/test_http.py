"""The demo's HTTP server over raw sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from chat.demo import http
from chat.demo.fake import FakeUpstream

Talk = Callable[..., Awaitable[bytes]]
LIST = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def connection_to(fake: FakeUpstream) -> AsyncIterator[Talk]:
    """A function that sends bytes in pieces and then reads until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(fake.url.rpartition(":")[2]))

    async def talk(*pieces: bytes) -> bytes:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            return await reader.read()

    try:
        yield talk
    finally:
        writer.close()
        await writer.wait_closed()


@pytest_asyncio.fixture
async def talk(fake: FakeUpstream) -> AsyncIterator[Talk]:
    async with connection_to(fake) as talk:
        yield talk


def closing(request: bytes) -> bytes:
    return request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)


async def test_pipelined_requests_are_answered_in_order(talk: Talk) -> None:
    native = b"GET /api/v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    answers = await talk(LIST + native + closing(LIST))

    assert answers.count(b"HTTP/1.1 200 OK") == 3
    assert answers.index(b'"object":"list"') < answers.index(b'"models":[')


async def test_request_can_come_byte_by_byte(talk: Talk) -> None:
    request = closing(LIST)
    answer = await talk(*(request[at : at + 1] for at in range(len(request))))

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


async def test_chunked_request_is_read(talk: Talk) -> None:
    body = json.dumps({"model": "tributary/demo-writer", "input": "hello"}).encode()
    head = (
        b"POST /api/v1/chat HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    answer = await talk(head, b"%x\r\n%b\r\n" % (len(body), body), b"0\r\n\r\n")

    assert b'"output":[{"type":"message"' in answer


async def test_http_1_0_gets_no_chunks(talk: Talk) -> None:
    body = json.dumps({"model": "tributary/demo-writer", "input": "hello", "stream": True}).encode()
    head = b"POST /api/v1/chat HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body)
    head_bytes, _, stream = (await talk(head + body)).partition(b"\r\n\r\n")

    assert b"Transfer-Encoding" not in head_bytes
    assert b"Connection: close" in head_bytes
    assert stream.startswith(b"event: chat.start\n")
    assert stream.endswith(b"\n\n")


async def test_head_gets_no_body(talk: Talk) -> None:
    answer = await talk(b"HEAD /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    assert answer.endswith(b"\r\n\r\n")


async def test_expect_100_continue_is_answered(talk: Talk) -> None:
    head = b"POST /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n"
    answer = await talk(head + b"Expect: 100-continue\r\n\r\n", b"{}")

    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


BAD_REQUESTS = {
    "garbage": (b"this is not http\r\n\r\n", b"400 Bad Request"),
    "endless head": (b"GET / HTTP/1.1\r\nX: " + b"y" * 2 * http.HEAD_BYTES, b"431 "),
    "huge body": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", b"413 "),
    "two lengths": (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", b"400 "),
}


async def test_bad_request_is_refused_and_closes(
    fake: FakeUpstream, subtests: pytest.Subtests
) -> None:
    for label, (request, status) in BAD_REQUESTS.items():
        with subtests.test(label):
            async with connection_to(fake) as talk:
                reply = await talk(request)

            assert reply.startswith(b"HTTP/1.1 " + status)
            assert b"Connection: close" in reply


async def test_oversized_chunked_body_is_refused(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "BODY_BYTES", 10)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = await talk(head, b"8\r\n12345678\r\n", b"8\r\n12345678\r\n")

    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_pipeline_is_bounded(talk: Talk, fake: FakeUpstream) -> None:
    await talk(LIST * 100)

    assert len(fake.requests) <= http.QUEUED_REQUESTS + 1


async def test_failing_handler_is_a_500(
    talk: Talk, fake: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(exchange: http.Exchange) -> None:
        raise RuntimeError("planned")

    monkeypatch.setattr(fake._http, "handler", fail)
    answer = await talk(LIST)

    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"planned" not in answer


async def test_missing_request_ends_the_connection(
    fake: FakeUpstream, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setattr(http, "REQUEST_SECONDS", 0.02)
    for label, sent in {"nothing": b"", "half": b"GET /v1/models HTTP/1.1\r\n"}.items():
        with subtests.test(label):
            async with connection_to(fake) as talk:
                assert await talk(sent) == b""
