"""Cancelling at any point closes the connection, on both transports."""

import asyncio
import gc
import os
import socket

import httpx
import pytest

from chat.upstreams.addresses import AddressPolicy
from tests.support.hostile_server import (
    CHUNKED_HEAD,
    PATIENCE_SECONDS,
    UNFRAMED_HEAD,
    FreezingRelay,
    HostileServer,
    chunk,
)
from tests.support.selection import EXHAUSTIVE
from tests.upstreams.conftest import open_over

# A leak of one descriptor or task per cancel shows with a few.
CANCELS = 300 if EXHAUSTIVE else 50
STREAMS = 500 if EXHAUSTIVE else 100


async def never_answer(peer):
    peer.server.reached.set()
    await peer.wait_gone()


async def read_the_request_and_hang(peer):
    await peer.request()
    peer.server.reached.set()


async def begin_an_answer(peer):
    await peer.request()
    await peer.send(UNFRAMED_HEAD + b"begun")


async def flood_for_ever(peer):
    await peer.request()
    await peer.send(CHUNKED_HEAD)
    while True:
        await peer.send(chunk(bytes(65536)))


async def read_no_body(peer):
    await peer.reader.readuntil(b"\r\n\r\n")
    peer.server.reached.set()
    # With its buffer full the server does not read on.
    await peer.server.go_on.wait()


async def consume(client, url, *, content=b"{}", begun=None):
    async with client.stream("POST", url, content=content, timeout=None) as response:
        async for _ in response.aiter_raw():
            if begun:
                begun.set()


async def cancel(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            await task


async def test_cancel_in_the_name_lookup_makes_no_connection(transport, certificates):
    asked = asyncio.Event()

    async def lookup(host, port):
        asked.set()
        await asyncio.Event().wait()
        return []

    policy = AddressPolicy.parse("any", lookup=lookup)
    async with (
        HostileServer(never_answer) as server,
        open_over(transport, policy, certificates.trust) as client,
    ):
        task = asyncio.create_task(consume(client, server.url))
        await asked.wait()
        await cancel(task)

    assert server.connections == 0


async def test_cancel_in_connect_leaves_no_socket(client):
    # A listener whose queue is full: the kernel leaves further connections waiting.
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        # Closes what other tests have left, before the descriptors are counted.
        gc.collect()
        before = _descriptors()
        task = asyncio.create_task(consume(client, f"http://localhost:{listener.getsockname()[1]}"))
        while _descriptors() == before:
            await asyncio.sleep(0.01)
        await cancel(task)
        await asyncio.sleep(0)

        assert _descriptors() == before


async def test_cancel_in_the_handshake_closes_the_socket(client):
    async with HostileServer(never_answer) as server:
        task = asyncio.create_task(consume(client, f"https://localhost:{server.port}"))
        await server.wait_reached()
        await cancel(task)
        await server.wait_gone()

    assert server.posts == 0


async def test_cancel_while_writing_closes_the_socket(client, serve):
    async with serve(read_no_body) as server:
        task = asyncio.create_task(consume(client, server.url, content=bytes(24_000_000)))
        await server.wait_reached()
        await cancel(task)
        server.go_on.set()
        await server.wait_gone()


MOMENTS = {
    "before the head": (read_the_request_and_hang, False),
    "in the body": (begin_an_answer, True),
    "under a flood": (flood_for_ever, True),
}


@pytest.mark.parametrize(("behave", "has_begun"), MOMENTS.values(), ids=MOMENTS)
async def test_cancel_after_the_request_closes_the_socket(client, serve, behave, has_begun):
    begun = asyncio.Event()

    async with serve(behave) as server:
        task = asyncio.create_task(consume(client, server.url, begun=begun))
        await (begun if has_begun else server.reached).wait()
        await cancel(task)
        await server.wait_gone()

    assert server.posts == 1


async def test_cancel_closes_the_socket_of_a_frozen_peer(client, serve):
    begun = asyncio.Event()

    async with serve(begin_an_answer) as server, FreezingRelay(server.port) as relay:
        url = f"{server.scheme}://localhost:{relay.port}"
        task = asyncio.create_task(consume(client, url, begun=begun))
        await begun.wait()
        relay.frozen.set()
        await cancel(task)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await relay.client_left.wait()


async def test_leaving_the_body_early_closes_the_socket(client, serve):
    async with serve(begin_an_answer) as server:
        async with client.stream("POST", server.url, content=b"{}") as response:
            async for _ in response.aiter_raw():
                break
        await server.wait_gone()


@pytest.mark.parametrize("in_body", [False, True], ids=["before the head", "in the body"])
async def test_many_cancels_leak_no_descriptors_or_tasks(client, serve, in_body):
    async with serve(begin_an_answer if in_body else read_the_request_and_hang) as server:
        await _cancel_times(client, server, 10, in_body=in_body)
        await server.wait_gone(10)
        gc.collect()
        before = (_descriptors(), len(asyncio.all_tasks()))

        await _cancel_times(client, server, CANCELS, in_body=in_body)
        await server.wait_gone(10 + CANCELS)

        assert (_descriptors(), len(asyncio.all_tasks())) == before


async def _cancel_times(client, server, count, *, in_body):
    for _ in range(count):
        begun = asyncio.Event()
        server.reached.clear()
        task = asyncio.create_task(consume(client, server.url, begun=begun))
        await (begun.wait() if in_body else server.wait_reached())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_hundreds_of_streams_complete_at_once(client):
    async def behave(peer):
        await peer.request()
        await peer.send(CHUNKED_HEAD)
        for _ in range(5):
            await peer.send(chunk(b"data: x\n\n"))
        await peer.send(b"0\r\n\r\n")

    async with HostileServer(behave) as server:

        async def read():
            async with client.stream("POST", server.url, content=b"{}") as response:
                return b"".join([data async for data in response.aiter_raw()])

        bodies = await asyncio.gather(*(read() for _ in range(STREAMS)))

    assert bodies == [b"data: x\n\n" * 5] * STREAMS
    assert server.posts == STREAMS


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_request_after_a_cancelled_one_works(client, serve):
    async with serve(begin_an_answer) as server:
        task = asyncio.create_task(consume(client, server.url))
        await asyncio.sleep(0)
        await cancel(task)
        async with client.stream("POST", server.url, content=b"{}") as response:
            assert await anext(response.aiter_raw()) == b"begun"
            assert isinstance(response, httpx.Response)
