"""Memory and work stay bounded whatever a server sends: both transports."""

import asyncio
import gzip
import tracemalloc

import httpx
import pytest

from chat.upstreams.transport import MAX_INFORMATIONAL, MAX_OVERHEAD_BYTES
from tests.support.hostile_server import (
    CHUNKED_HEAD,
    HEAD,
    STREAM_HEAD,
    UNFRAMED_HEAD,
    HostileServer,
    chunk,
    hang,
    replying,
)
from tests.support.selection import EXHAUSTIVE, sample
from tests.upstreams.conftest import exchange

MIB = 1024 * 1024
# At a peak of 8 MiB of Python's own memory, which a transport that gathers the body would exceed
# at once.
ENDLESS_MIB = 64 if EXHAUSTIVE else 24
PEAK_MIB = 8


def flooding(head: bytes, piece: bytes, times: int, then=hang):
    async def behave(peer):
        await peer.request()
        await peer.send(head)
        await peer.flood(piece, times)
        await then(peer)

    return behave


async def read_size(client, url, *, enough=None, timeout=None):
    """How long the body is; reads no further than to ``enough``."""
    size = 0
    async with client.stream("POST", url, content=b"{}", timeout=timeout) as response:
        async for data in response.aiter_raw():
            size += len(data)
            if size == enough:
                break
    return size


@pytest.fixture
def peak():
    """Gives the peak of Python's memory since the test began, in MiB."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1] / MIB
    tracemalloc.stop()


FLOODS = {
    "header line": (HEAD + b"X: ", b"a" * 65536, b""),
    "headers": (HEAD, b"X-Flood: aaaaaaaaaaaaaaaa\r\n" * 2000, b""),
    "status line": (b"HTTP/1.1 200 ", b"a" * 65536, b""),
    "chunk extension": (CHUNKED_HEAD + chunk(b"kept") + b"4;", b"a" * 65536, b"kept"),
    "trailers": (
        CHUNKED_HEAD + chunk(b"kept") + b"0\r\n",
        b"X-Flood: aaaaaaaaaaaaaaaa\r\n" * 2000,
        b"kept",
    ),
}


@pytest.mark.parametrize("part", FLOODS)
async def test_flood_outside_the_body_is_refused(client, serve, part, peak):
    head, piece, kept = FLOODS[part]

    async with serve(flooding(head, piece, 5000)) as server:  # 300 MB, if it were read
        received, error = await exchange(client, server.url)
        await server.wait_gone()

    assert isinstance(error, httpx.RemoteProtocolError)
    assert received == kept
    assert peak() < PEAK_MIB
    assert server.posts == 1


async def test_overhead_is_counted_since_the_last_body_byte(client, serve):
    extension = b"a" * (MAX_OVERHEAD_BYTES // 2)
    pieces = (b"1;" + extension + b"\r\nx\r\n") * 8

    async with serve(replying(CHUNKED_HEAD + pieces + b"0\r\n\r\n", hang)) as server:
        assert await read_size(client, server.url) == 8


async def test_only_wire_refuses_many_informational_answers(client, serve, clock, transport):
    hints = b"HTTP/1.1 103 Early Hints\r\n\r\n" * (MAX_INFORMATIONAL + 1)

    async with serve(flooding(b"", hints, 1, clock.advance_until_gone)) as server:
        if transport == "wire":
            with pytest.raises(httpx.RemoteProtocolError):
                await read_size(client, server.url)
        else:
            # stock follows them for as long as they come: the deadline on the head is what
            # ends it (test_client.py).
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(60):
                    await read_size(client, server.url)
        await server.wait_gone()


async def test_endless_line_is_read_at_bounded_memory(client, serve, peak):
    endless = ENDLESS_MIB * MIB
    async with serve(flooding(UNFRAMED_HEAD, b"a" * 65536, ENDLESS_MIB * 16)) as server:
        assert await read_size(client, server.url, enough=endless) == endless

    assert peak() < PEAK_MIB


async def test_stalled_reader_slows_the_server(client, serve, peak):
    async def flood_until_stalled(peer):
        await peer.request()
        await peer.send(UNFRAMED_HEAD)
        while True:
            peer.writer.write(bytes(65536))
            try:
                await asyncio.wait_for(peer.writer.drain(), 0.05)
            except TimeoutError:
                peer.server.reached.set()
                return

    async with (
        serve(flood_until_stalled) as server,
        client.stream("POST", server.url, content=b"{}", timeout=None) as response,
    ):
        chunks = response.aiter_raw()
        await anext(chunks)
        await server.wait_reached()

        assert peak() < PEAK_MIB
        assert await anext(chunks)
        await chunks.aclose()


async def test_many_tiny_chunks_are_read_whole(client, serve):
    async with serve(flooding(CHUNKED_HEAD, chunk(b"x") * 1000, 20)) as server:
        assert await read_size(client, server.url, enough=20_000) == 20_000


async def test_compressed_bomb_stays_compressed(client, serve, peak):
    bomb = gzip.compress(bytes(64 * MIB), 9)
    head = STREAM_HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    tracemalloc.reset_peak()

    async with serve(replying(head + bomb, hang)) as server:
        size = await read_size(client, server.url)

    assert size == len(bomb)
    assert peak() < PEAK_MIB


BODY = b"data: one\n\ndata: two\n\n"
RESPONSES = {
    "chunked": CHUNKED_HEAD + chunk(BODY[:11]) + chunk(BODY[11:]) + b"0\r\nX: y\r\n\r\n",
    "length": STREAM_HEAD + b"Content-Length: 22\r\n\r\n" + BODY,
    "hinted": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    + STREAM_HEAD
    + b"Content-Length: 22\r\n\r\n"
    + BODY,
}


@pytest.mark.parametrize("kind", RESPONSES)
async def test_response_split_at_any_byte_reads_the_same(client, kind):
    whole = RESPONSES[kind]
    cuts = sample(range(1, len(whole)), 50)
    next_cut = iter(cuts)

    async def send_in_two_parts(peer):
        await peer.request()
        at = next(next_cut)
        await peer.send(whole[:at])
        await asyncio.sleep(0.001)
        await peer.send(whole[at:])

    async with HostileServer(send_in_two_parts) as server:
        bodies = {cut: (await exchange(client, server.url)) for cut in cuts}

    assert bodies == dict.fromkeys(cuts, (BODY, None))


@pytest.mark.parametrize("kind", RESPONSES)
async def test_response_byte_by_byte_reads_the_same(client, serve, kind):
    async def drip(peer):
        await peer.request()
        for byte in RESPONSES[kind]:
            await peer.send(bytes([byte]))
            await asyncio.sleep(0)

    async with serve(drip) as server:
        assert await exchange(client, server.url) == (BODY, None)


async def test_read_timeout_is_about_silence(client, serve, clock):
    async def drip(peer):
        await peer.request()
        for byte in HEAD + b"Content-Length: 1\r\n\r\nx":
            await peer.send(bytes([byte]))
            await clock.advance(10)

    async with serve(drip) as server:
        # 380 s in all, and 10 s each.
        assert await read_size(client, server.url, timeout=httpx.Timeout(None, read=60)) == 1
