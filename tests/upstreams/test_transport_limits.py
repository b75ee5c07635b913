"""Memory and work stay bounded whatever a server sends: both transports."""

import asyncio
import gzip
import tracemalloc

import httpx
import pytest

from chat.upstreams.transport import MAX_INFORMATIONAL, MAX_OVERHEAD_BYTES
from tests.upstreams.conftest import exchange, replying
from tests.upstreams.hostile import (
    CHUNKED_HEAD,
    HEAD,
    PATIENCE_SECONDS,
    STREAM_HEAD,
    UNFRAMED_HEAD,
    HostileServer,
    chunk,
)

MIB = 1024 * 1024
# The full figure is 400 MB at a peak of 40 MB (RSS); here 64 MB at a peak of 8 MB of Python's
# own memory, which a transport that gathers the body would exceed at once.
ENDLESS_MIB = 64
PEAK_MIB = 8


async def hang(peer):
    await peer.wait_gone()


def flooding(head: bytes, piece: bytes, times: int):
    async def behave(peer):
        await peer.request()
        await peer.send(head)
        await peer.flood(piece, times)

    return behave


async def read_all(client, url, *, timeout=None):
    size = 0
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with client.stream("POST", url, content=b"{}", timeout=timeout) as response:
            async for data in response.aiter_raw():
                size += len(data)
    return size


@pytest.fixture
def peak():
    """The peak of Python's memory since the test began, in MiB."""
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


@pytest.mark.parametrize("case", FLOODS)
async def test_flood_outside_the_body_is_refused_at_bounded_memory(client, serve, case, peak):
    head, piece, kept = FLOODS[case]

    async with serve(flooding(head, piece, 5000)) as server:  # 300 MB, if it were read
        received, error = await exchange(client, server.url)
        await server.wait_gone()

    assert isinstance(error, httpx.RemoteProtocolError)
    assert received == kept
    assert peak() < PEAK_MIB
    assert server.posts == 1


async def test_overhead_limit_counts_only_bytes_since_the_last_body_byte(client, serve):
    extension = b"a" * (MAX_OVERHEAD_BYTES // 2)
    pieces = (b"1;" + extension + b"\r\nx\r\n") * 8

    async with serve(replying(CHUNKED_HEAD + pieces + b"0\r\n\r\n", hang)) as server:
        assert await read_all(client, server.url) == 8


async def test_wire_refuses_a_flood_of_informational_answers(client, serve, transport):
    hint = b"HTTP/1.1 103 Early Hints\r\n\r\n"

    async with serve(flooding(b"", hint * (MAX_INFORMATIONAL + 1), 1)) as server:
        if transport == "wire":
            with pytest.raises(httpx.RemoteProtocolError):
                await read_all(client, server.url)
        else:
            # stock follows them for as long as they come: the deadline on the head is what
            # ends it (test_client.py).
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await read_all(client, server.url)
        await server.wait_gone()


async def test_endless_line_is_read_at_bounded_memory(client, serve, peak):
    async with serve(flooding(UNFRAMED_HEAD, b"a" * 65536, ENDLESS_MIB * 16)) as server:
        size = 0
        async with client.stream("POST", server.url, content=b"{}", timeout=None) as response:
            async for data in response.aiter_raw():
                size += len(data)
                if size >= ENDLESS_MIB * MIB:
                    break

    assert size == ENDLESS_MIB * MIB
    assert peak() < PEAK_MIB


async def test_reader_that_stalls_slows_the_server_and_not_our_memory(client, serve, peak):
    stalled = asyncio.Event()

    async def flood_until_stalled(peer):
        await peer.request()
        await peer.send(UNFRAMED_HEAD)
        while True:
            peer.writer.write(bytes(65536))
            try:
                await asyncio.wait_for(peer.writer.drain(), 0.3)
            except TimeoutError:
                stalled.set()
                return

    async with (
        serve(flood_until_stalled) as server,
        client.stream("POST", server.url, content=b"{}", timeout=None) as response,
    ):
        chunks = response.aiter_raw()
        await anext(chunks)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await stalled.wait()

        assert peak() < PEAK_MIB
        assert await anext(chunks)
        await chunks.aclose()


async def test_many_tiny_chunks_are_read_whole(client, serve):
    async with serve(flooding(CHUNKED_HEAD, chunk(b"x") * 1000, 20)) as server:
        size = 0
        async with client.stream("POST", server.url, content=b"{}", timeout=None) as response:
            async for data in response.aiter_raw():
                size += len(data)
                if size == 20_000:
                    break

    assert size == 20_000


async def test_compressed_bomb_stays_compressed(client, serve, peak):
    bomb = gzip.compress(bytes(64 * MIB), 9)
    head = STREAM_HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    tracemalloc.reset_peak()

    async with serve(replying(head + bomb, hang)) as server:
        size = await read_all(client, server.url)

    assert size == len(bomb)
    assert peak() < PEAK_MIB


WHOLE = {
    "chunked": CHUNKED_HEAD
    + chunk(b"data: one\n\n")
    + chunk(b"data: two\n\n")
    + b"0\r\nX: y\r\n\r\n",
    "length": STREAM_HEAD + b"Content-Length: 22\r\n\r\ndata: one\n\ndata: two\n\n",
    "hinted": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    + STREAM_HEAD
    + b"Content-Length: 22\r\n\r\ndata: one\n\ndata: two\n\n",
}


@pytest.mark.parametrize("case", WHOLE)
async def test_response_split_at_every_byte_reads_the_same(client, case):
    whole = WHOLE[case]
    splits = iter(range(1, len(whole)))

    async def in_two_parts(peer):
        await peer.request()
        at = next(splits)
        await peer.send(whole[:at])
        await asyncio.sleep(0.001)
        await peer.send(whole[at:])

    async with HostileServer(in_two_parts) as server:
        bodies = set()
        for _ in range(1, len(whole)):
            async with client.stream("POST", server.url, content=b"{}") as response:
                bodies.add(b"".join([data async for data in response.aiter_raw()]))

    assert bodies == {b"data: one\n\ndata: two\n\n"}


@pytest.mark.parametrize("case", WHOLE)
async def test_response_byte_by_byte_reads_the_same(client, serve, case):
    async def drip(peer):
        await peer.request()
        for position in range(len(WHOLE[case])):
            await peer.send(WHOLE[case][position : position + 1])
            await asyncio.sleep(0)

    async with serve(drip) as server:
        assert await exchange(client, server.url) == (b"data: one\n\ndata: two\n\n", None)


async def test_idle_timeout_is_about_silence_and_not_about_the_whole(client, serve):
    parts = [b"HTTP/1.1 200", b" OK\r\n", b"Cont", b"ent-Length: 1\r\n", b"\r\n", b"x"]

    async def slow_head(peer):
        await peer.request()
        for part in parts:
            await asyncio.sleep(0.4)
            await peer.send(part)

    async with serve(slow_head) as server:
        # Six pauses of 0.4 s against a limit of 2 s: each is much shorter, the sum is longer.
        assert await read_all(client, server.url, timeout=httpx.Timeout(None, read=2)) == 1
