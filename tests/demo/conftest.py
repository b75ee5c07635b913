"""A fake upstream per test, and a client that talks to it."""

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest_asyncio

from chat.demo.fake import FakeUpstream

Ask = Callable[..., Awaitable[httpx.Response]]


@pytest_asyncio.fixture
async def fake() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as fake:
        yield fake


@pytest_asyncio.fixture
async def client(fake: FakeUpstream) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=fake.url, trust_env=False) as client:
        yield client


@pytest_asyncio.fixture
async def ask_native(client: httpx.AsyncClient) -> Ask:
    async def ask(text: object, **members: object) -> httpx.Response:
        body = {"model": "tributary/demo-writer", "input": text, "stream": True, **members}
        return await client.post("/api/v1/chat", json=body)

    return ask


@pytest_asyncio.fixture
async def ask_openai(client: httpx.AsyncClient) -> Ask:
    async def ask(text: str, **members: object) -> httpx.Response:
        body = {
            "model": "tributary/demo-writer",
            "messages": [{"role": "user", "content": text}],
            "stream": True,
            **members,
        }
        return await client.post("/v1/chat/completions", json=body)

    return ask


async def read_until_broken(client: httpx.AsyncClient, path: str, body: object) -> bytes:
    """What arrives of a stream before its connection breaks off, which it has to."""
    received = bytearray()
    try:
        async with client.stream("POST", path, json=body) as response:
            async for data in response.aiter_raw():
                received += data
    except httpx.TransportError:
        return bytes(received)
    raise AssertionError("the stream ended in order")
