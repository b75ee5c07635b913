"""Certificates, policies and clients for the transport tests. Each runs on the product's transport, and in
``make test-all`` on the reference, too, which shows that the tests expect what httpx does."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace

import httpx
import pytest
import trustme

from chat.upstreams.addresses import AddressPolicy, Lookup, system_lookup
from chat.upstreams.client import client_over, default_trust, open_client
from tests.support.hostile_server import Behaviour, HostileServer, Peer
from tests.support.loop_clock import LoopClock
from tests.support.upstream.fake import FakeUpstream
from tests.upstreams.stock_transport import StockTransport

KEY = "sk-canary-0123456789abcdef"


@dataclass(frozen=True)
class Certificates:
    server: ssl.SSLContext
    trust: ssl.SSLContext
    other_name: ssl.SSLContext


@pytest.fixture(scope="session")
def certificates() -> Certificates:
    authority = trustme.CA()
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    return Certificates(
        server=_server_context(authority, "localhost", "server.test", "127.0.0.1", "::1"),
        trust=trust,
        other_name=_server_context(authority, "other.test"),
    )


def _server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    return context


def lookup_in(table: dict[str, list[str]]) -> Lookup:
    """A name server with these entries; the system's answers for all other names."""

    async def lookup(host: str, port: int) -> list[str]:
        if host in table:
            return table[host]
        return await system_lookup(host, port)

    return lookup


LOOPBACK_NAMES = {"localhost": ["127.0.0.1"], "server.test": ["127.0.0.1"]}


@pytest.fixture(params=["wire", pytest.param("stock", marks=pytest.mark.slow)])
def transport(request: pytest.FixtureRequest) -> str:
    return request.param


def open_over(
    transport: str, policy: AddressPolicy, trust: ssl.SSLContext | None = None
) -> httpx.AsyncClient:
    """A client over our transport, or over the reference."""
    if transport == "wire":
        return open_client(policy, trust)
    return client_over(StockTransport(ssl_context=trust or default_trust(), policy=policy))


@pytest.fixture(params=["http", "https"])
def scheme(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def policy() -> AddressPolicy:
    return AddressPolicy.parse("any", lookup=lookup_in(LOOPBACK_NAMES))


@pytest.fixture
async def client(
    transport: str, policy: AddressPolicy, certificates: Certificates
) -> AsyncIterator[httpx.AsyncClient]:
    async with open_over(transport, policy, certificates.trust) as client:
        yield client


@pytest.fixture
async def wire_client() -> AsyncIterator[httpx.AsyncClient]:
    """A client as the product opens it, for tests of what lies above the transports."""
    async with open_client(AddressPolicy.parse("any")) as client:
        yield client


@pytest.fixture
async def fake() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as fake:
        yield fake


Serve = Callable[[Behaviour], AbstractAsyncContextManager[HostileServer]]


@pytest.fixture
def serve(scheme: str, certificates: Certificates) -> Serve:
    """A hostile server with this behaviour, over http and over https."""

    @asynccontextmanager
    async def start(behave: Behaviour) -> AsyncIterator[HostileServer]:
        async with HostileServer(behave, certificates.server if scheme == "https" else None) as it:
            yield it

    return start


class Clock(LoopClock):
    async def advance_until_gone(self, peer: Peer) -> None:
        """Passes as much time as it takes until the client closes the connection."""
        await self.advance_until(peer.wait_gone(), limit_seconds=150)


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all time-outs of this test."""
    clock = Clock()
    # Deadlines that more than one time-out shares.
    monotonic = asyncio.get_running_loop().time
    monkeypatch.setattr("chat.upstreams.client.time", SimpleNamespace(monotonic=monotonic))
    return clock


async def exchange(
    client: httpx.AsyncClient,
    url: str,
    *,
    content: bytes = b"{}",
    timeout: httpx.Timeout | None = None,
    pause: float | None = None,
) -> tuple[bytes, httpx.HTTPError | None]:
    """The body that arrived and the exception that ended it, if one did."""
    received = []
    try:
        async with client.stream("POST", url, content=content, timeout=timeout) as response:
            async for data in response.aiter_raw():
                received.append(data)
                if pause is not None:
                    await asyncio.sleep(pause)
    except httpx.HTTPError as error:
        return b"".join(received), error
    return b"".join(received), None
