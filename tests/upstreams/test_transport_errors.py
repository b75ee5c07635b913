"""What each kind of failure raises, and what was delivered before it: both transports."""

import asyncio
import socket

import httpx
import pytest

from tests.support.hostile_server import (
    CHUNKED_HEAD,
    HEAD,
    PATIENCE_SECONDS,
    STREAM_HEAD,
    UNFRAMED_HEAD,
    HostileServer,
    Peer,
    chunk,
    hang,
    replying,
    reset,
    speak_plainly,
)
from tests.upstreams.conftest import exchange

BAD, CLOSE = httpx.RemoteProtocolError, Peer.finish
# name: (bytes of the answer, what follows, exception, body delivered before it)
SAME_ON_BOTH = {
    "closed before a head": (b"", CLOSE, BAD, b""),
    "closed inside the head": (HEAD, CLOSE, BAD, b""),
    "reset before a head": (b"", reset, httpx.ReadError, b""),
    "chunked body cut": (CHUNKED_HEAD + chunk(b"kept"), CLOSE, BAD, b"kept"),
    "chunk itself cut": (CHUNKED_HEAD + b"8\r\nkept", CLOSE, BAD, b"kept"),
    "length short": (STREAM_HEAD + b"Content-Length: 9\r\n\r\nkept", CLOSE, BAD, b"kept"),
    "chunked body reset": (CHUNKED_HEAD + chunk(b"kept"), reset, httpx.ReadError, b"kept"),
    "unframed body reset": (UNFRAMED_HEAD + b"kept", reset, httpx.ReadError, b"kept"),
    "unframed body closed": (UNFRAMED_HEAD + b"kept", CLOSE, None, b"kept"),
    "malformed chunk size": (CHUNKED_HEAD + chunk(b"kept") + b"zz\r\n", hang, BAD, b"kept"),
    "not HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", hang, BAD, b""),
    "bad header": (HEAD + b"no colon here\r\n\r\n", hang, BAD, b""),
    "complete": (CHUNKED_HEAD + chunk(b"kept") + b"0\r\n\r\n", CLOSE, None, b"kept"),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", hang, None, b""),
    "empty by length": (HEAD + b"Content-Length: 0\r\n\r\n", hang, None, b""),
    "hints before the head": (
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 3
        + HEAD
        + b"Content-Length: 4\r\n\r\nkept",
        hang,
        None,
        b"kept",
    ),
    "bytes after the end": (
        HEAD + b"Content-Length: 4\r\n\r\nkeptHTTP/1.1 200 OK\r\n\r\nforged",
        hang,
        None,
        b"kept",
    ),
    "switching protocols": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        hang,
        BAD,
        b"",
    ),
    "foreign transfer coding": (
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + chunk(b"x"),
        hang,
        BAD,
        b"",
    ),
}


async def test_failure_is_the_same_on_both_transports(client, serve, subtests):
    for name, (data, then, expected, body) in SAME_ON_BOTH.items():
        with subtests.test(msg=name):
            async with serve(replying(data, then)) as server:
                received, error = await exchange(client, server.url)

            assert received == body
            assert isinstance(error, expected or type(None))
            assert server.posts == 1


# name: (bytes, exception on wire, on stock): the differences that are known.
DIFFERENT = {
    "length and chunked together": (
        HEAD
        + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunk(b"x")
        + b"0\r\n\r\n",
        httpx.RemoteProtocolError,
        None,
    ),
    "head with bare line feeds": (
        b"HTTP/1.1 200 OK\nContent-Length: 1\n\nx",
        httpx.RemoteProtocolError,
        None,
    ),
}


async def test_only_wire_refuses_ambiguous_framing(client, serve, transport, subtests):
    for name, (data, on_wire, on_stock) in DIFFERENT.items():
        with subtests.test(msg=name):
            async with serve(replying(data, hang)) as server:
                _, error = await exchange(client, server.url)

            expected = on_wire if transport == "wire" else on_stock
            assert (type(error) if error else None) is expected
            assert server.posts == 1


async def test_refused_connection_is_a_connect_error(client, scheme):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening
        _, error = await exchange(client, f"{scheme}://localhost:{taken.getsockname()[1]}")

    assert type(error) is httpx.ConnectError


@pytest.mark.parametrize(
    "host", ["nowhere.invalid", "a" * 70 + ".test"], ids=["unknown", "impossible"]
)
async def test_name_without_address_is_a_connect_error(client, scheme, host):
    _, error = await exchange(client, f"{scheme}://{host}/")

    assert type(error) is httpx.ConnectError


async def test_slow_handshake_is_a_connect_timeout(client, clock):
    async with HostileServer(clock.advance_until_gone) as server:
        _, error = await exchange(
            client, f"https://localhost:{server.port}", timeout=httpx.Timeout(None, connect=60)
        )
        await server.wait_gone()

    assert type(error) is httpx.ConnectTimeout
    assert server.posts == 0


async def test_tls_to_a_plain_server_is_a_connect_error(client):
    async with HostileServer(speak_plainly) as server:
        _, error = await exchange(client, f"https://localhost:{server.port}")

    assert type(error) is httpx.ConnectError


@pytest.mark.parametrize(
    ("data", "kept"),
    [(b"", b""), (UNFRAMED_HEAD + b"kept", b"kept")],
    ids=["before the head", "in the body"],
)
async def test_silence_is_a_read_timeout(client, serve, clock, data, kept):
    async with serve(replying(data, clock.advance_until_gone)) as server:
        received, error = await exchange(client, server.url, timeout=httpx.Timeout(None, read=60))
        await server.wait_gone()

    assert type(error) is httpx.ReadTimeout
    assert received == kept
    assert server.posts == 1


async def test_peer_that_never_reads_is_a_write_timeout(client, serve):
    async def read_the_head_only(peer):
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.server.go_on.wait()

    async with serve(read_the_head_only) as server:
        _, error = await exchange(
            client, server.url, content=bytes(24_000_000), timeout=httpx.Timeout(None, write=0.05)
        )

    assert type(error) is httpx.WriteTimeout


async def test_early_refusal_of_a_large_body_is_read(client, serve):
    async def refuse(peer):
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await peer.wait_gone()

    async with serve(refuse) as server:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async with client.stream("POST", server.url, content=bytes(24_000_000)) as response:
                body = b"".join([data async for data in response.aiter_raw()])

    assert (response.status_code, body) == (413, b"big")


async def test_bytes_before_a_cut_reach_a_slow_reader(client, serve):
    sent = b"0123456789abcdef" * 12_000  # 192,000 bytes: below what is queued unread

    async with serve(replying(CHUNKED_HEAD + chunk(sent))) as server:
        received, error = await exchange(client, server.url, pause=0.005)

    assert isinstance(error, httpx.RemoteProtocolError)
    assert received == sent


async def test_tls_end_without_close_notify_ends_the_body(client, certificates):
    async def drop(peer):
        await peer.request()
        await peer.send(UNFRAMED_HEAD + b"kept")
        raw = peer.writer.get_extra_info("socket")
        raw.shutdown(socket.SHUT_WR)

    async with HostileServer(drop, certificates.server) as server:
        received, error = await exchange(client, server.url)

    assert (received, error) == (b"kept", None)


async def test_header_that_would_split_the_request_is_refused(client, serve, subtests):
    async with serve(replying(HEAD + b"Content-Length: 0\r\n\r\n")) as server:
        for header in [("X-A", "a\r\nX-B: b"), ("X-A", "a\nb"), ("X-A", "a\0b"), ("X A", "b")]:
            with subtests.test(msg=repr(header)), pytest.raises(httpx.LocalProtocolError):
                await client.post(server.url, content=b"", headers=[header])

    assert server.posts == 0


async def test_scheme_other_than_http_is_refused(client):
    with pytest.raises(httpx.UnsupportedProtocol):
        await client.get("ftp://localhost/")
