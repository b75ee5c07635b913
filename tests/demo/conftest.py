"""A fake upstream per test, and clients for it."""

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest_asyncio

from tests.demo.answers import connect
from tests.support.upstream.fake import FakeUpstream

Ask = Callable[..., Awaitable[httpx.Response]]


@pytest_asyncio.fixture
async def fake() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as fake:
        yield fake


@pytest_asyncio.fixture
async def client(fake: FakeUpstream) -> AsyncIterator[httpx.AsyncClient]:
    async with connect(fake) as client:
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
        messages = [{"role": "user", "content": text}]
        body = {"model": "tributary/demo-writer", "messages": messages, "stream": True, **members}
        return await client.post("/v1/chat/completions", json=body)

    return ask
