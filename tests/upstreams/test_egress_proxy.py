"""Requests through an HTTP proxy: tunnels for https, whole addresses for http."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import httpx
import pytest

from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.client import open_client
from chat.upstreams.egress_proxy import EgressProxy
from chat.upstreams.failures import was_never_sent
from tests.support.hostile_server import HostileServer, answer, hang, replying
from tests.upstreams.conftest import Certificates, exchange

OK = answer(b"{}")


@dataclass
class TunnelProxy:
    """A proxy that knows only CONNECT. ``reply`` is sent before anything is copied; without a ``target`` it
    is all that is sent."""

    reply: bytes = b"HTTP/1.1 200 Connection established\r\nContent-Length: 0\r\n\r\n"
    target: int = 0
    heads: list[str] = field(default_factory=list)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(self.reply)
        if not self.target:
            writer.close()
            return
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.target)
        await asyncio.wait(
            [
                asyncio.create_task(copy(reader, server_writer)),
                asyncio.create_task(copy(server_reader, writer)),
            ],
            return_when=asyncio.FIRST_COMPLETED,
        )
        server_writer.close()
        writer.close()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


@asynccontextmanager
async def proxying(proxy: TunnelProxy) -> AsyncIterator[TunnelProxy]:
    async with AsyncExitStack() as stack:
        server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        stack.push_async_callback(server.wait_closed)
        stack.callback(server.close)
        proxy.port = server.sockets[0].getsockname()[1]
        yield proxy


def client_of(certificates: Certificates, port: int, user: str = "") -> httpx.AsyncClient:
    """Private addresses are forbidden. ``user`` is what stands before the host of the proxy."""
    policy = AddressPolicy.parse("")
    return open_client(policy, certificates.trust, proxy=f"http://{user}127.0.0.1:{port}")


async def test_https_goes_through_a_tunnel(certificates: Certificates) -> None:
    body = b"x" * 300_000
    async with (
        HostileServer(replying(answer(b"from far away")), certificates.server) as server,
        proxying(TunnelProxy(target=server.port)) as proxy,
        client_of(certificates, proxy.port, "ana:p%40ss@") as client,
    ):
        response = await client.post("https://server.test/v1?a=b", content=body)

    assert response.content == b"from far away"
    assert proxy.heads == [
        "CONNECT server.test:443 HTTP/1.1\r\nHost: server.test:443\r\n"
        "Proxy-Authorization: Basic YW5hOnBAc3M=\r\n\r\n"
    ]
    request = server.requests[0]
    assert (request.target, request.body) == ("/v1?a=b", body)
    assert request.header("proxy-authorization") is None


async def test_http_goes_to_the_proxy_with_its_whole_address(certificates: Certificates) -> None:
    async with (
        HostileServer(replying(answer(b"proxied"))) as proxy,
        client_of(certificates, proxy.port, "ana:secret@") as client,
    ):
        response = await client.post("http://api.example.com:8080/v1?a=b", content=b"{}")

    assert response.content == b"proxied"
    request = proxy.requests[0]
    assert request.target == "http://api.example.com:8080/v1?a=b"
    assert request.header("host") == "api.example.com:8080"
    assert request.header("proxy-authorization") == "Basic YW5hOnNlY3JldA=="


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_forbidden_addresses_are_not_passed_to_the_proxy(
    certificates: Certificates, scheme: str
) -> None:
    async with (
        HostileServer(replying(OK)) as proxy,
        client_of(certificates, proxy.port) as client,
    ):
        for host in ("2852039166", "127.0.0.1:9", "[::1]"):
            _, error = await exchange(client, f"{scheme}://{host}/latest")
            assert type(error) is httpx.ConnectError

    assert proxy.connections == 0


REFUSALS = [
    b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 403 Forbidden\r\n\r\nNo.",
    b"HTTP/1.1 502 Bad Gateway\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"",
]


@pytest.mark.parametrize("reply", REFUSALS)
async def test_refused_tunnel_means_that_nothing_was_sent(
    certificates: Certificates, reply: bytes
) -> None:
    async with (
        proxying(TunnelProxy(reply=reply)) as proxy,
        client_of(certificates, proxy.port, "ana:canary@") as client,
    ):
        _, error = await exchange(client, "https://server.test/v1")

    assert type(error) is httpx.ProxyError
    assert was_never_sent(error)
    assert "canary" not in repr(error)


async def test_certificate_is_checked_behind_the_tunnel(certificates: Certificates) -> None:
    async with (
        HostileServer(replying(OK), certificates.other_name) as server,
        proxying(TunnelProxy(target=server.port)) as proxy,
        client_of(certificates, proxy.port) as client,
    ):
        _, error = await exchange(client, "https://server.test/v1")

    assert type(error) is httpx.ConnectError
    assert server.requests == []


async def test_silent_proxy_is_given_up(certificates: Certificates) -> None:
    async with (
        HostileServer(hang) as proxy,
        client_of(certificates, proxy.port) as client,
    ):
        with pytest.raises(httpx.ConnectTimeout):
            await client.post("https://server.test/v1", timeout=httpx.Timeout(5, connect=0.05))


@pytest.mark.parametrize(
    "url",
    ["https://proxy:1", "socks5://proxy:1", "proxy:3128", "http://", "http://p/path", "http://p:x"],
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError):
        EgressProxy.parse(url)


def test_address_is_read() -> None:
    assert EgressProxy.parse("http://proxy") == EgressProxy(host="proxy", port=3128)
    assert EgressProxy.parse("http://u:p@[::1]:99/").authorization == b"Basic dTpw"
    assert "dTpw" not in repr(EgressProxy.parse("http://u:p@proxy"))
