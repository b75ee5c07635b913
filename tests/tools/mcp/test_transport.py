"""The transport of the MCP client keeps what that of `chat.upstreams` guarantees: its table of failures, addresses,
redirects, cookies and proxies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from chat.tools.mcp.transport import (
    Endpoint,
    GuardedTransport,
    Traffic,
    ValueCounter,
    open_client,
)
from chat.upstreams import client as upstreams
from chat.upstreams.addresses import AddressPolicy
from tests.support.hostile_server import HostileServer, answer, hang, replying
from tests.upstreams.conftest import lookup_in
from tests.upstreams.test_transport_errors import SAME_ON_BOTH

OK = answer(b"{}")


@asynccontextmanager
async def opened(
    url: str, *, most_bytes: int = 1024, table: Mapping[str, list[str]] | None = None, **values: Any
) -> AsyncIterator[tuple[httpx2.AsyncClient, Traffic]]:
    policy = AddressPolicy.parse("any", lookup=lookup_in(dict(table or {})))
    traffic = Traffic()
    async with upstreams.open_client(policy) as client:
        endpoint = Endpoint(url=url, most_bytes=most_bytes, **values)
        async with open_client(GuardedTransport(client, endpoint, traffic)) as http:
            yield http, traffic


async def read(http: httpx2.AsyncClient, url: str) -> tuple[bytes, httpx2.HTTPError | None]:
    received = []
    try:
        async with http.stream("POST", url, content=b"{}") as response:
            async for data in response.aiter_raw():
                received.append(data)
    except httpx2.HTTPError as error:
        return b"".join(received), error
    return b"".join(received), None


async def test_failures_are_those_of_the_upstream_transport(subtests: pytest.Subtests) -> None:
    for name, (data, then, expected, body) in SAME_ON_BOTH.items():
        with subtests.test(msg=name):
            async with HostileServer(replying(data, then)) as server, opened(server.url) as it:
                http, traffic = it
                received, error = await read(http, server.url)

            assert received == body
            assert (error is None) is (expected is None)
            assert (traffic.failure is None) is (expected is None)
            assert server.posts == 1


async def test_one_forbidden_address_prevents_the_connection() -> None:
    table = {"two.test": ["127.0.0.1", "169.254.169.254"]}
    async with HostileServer(replying(OK)) as server:
        url = f"http://two.test:{server.port}/"
        async with opened(url, table=table) as (http, traffic):
            _, error = await read(http, url)

    assert error is not None
    assert traffic.failure is not None
    assert traffic.failure.info.code == "address_refused"
    assert server.connections == 0


async def test_name_is_kept_for_the_host_header() -> None:
    async with HostileServer(replying(OK)) as server:
        url = f"http://server.test:{server.port}/a?b=c"
        async with opened(url, table={"server.test": ["127.0.0.1"]}) as (http, _):
            await read(http, url)

    assert server.requests[0].header("host") == f"server.test:{server.port}"
    assert server.requests[0].target == "/a?b=c"


async def test_other_origin_gets_no_request() -> None:
    headers = {"Authorization": "Bearer abcdefghijkl"}
    async with (
        HostileServer(replying(OK)) as server,
        HostileServer(replying(OK)) as other,
        opened(server.url, headers=headers) as (http, traffic),
    ):
        _, error = await read(http, other.url)

    assert error is not None
    assert traffic.failure is not None
    assert traffic.failure.info.code == "redirect"
    assert other.connections == 0


async def test_proxies_of_the_environment_and_cookies_are_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cookie = answer(b"{}", headers="Set-Cookie: a=b; Path=/\r\n")
    async with HostileServer(replying(OK)) as proxy, HostileServer(replying(cookie)) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with opened(server.url) as (http, _):
            await read(http, server.url)
            await read(http, server.url)

    assert proxy.connections == 0
    assert [request.header("cookie") for request in server.requests] == [None, None]


async def test_compressed_answer_is_refused() -> None:
    bomb = answer(b"\x1f\x8b", headers="Content-Encoding: gzip\r\n")
    async with HostileServer(replying(bomb)) as server, opened(server.url) as (http, traffic):
        _, error = await read(http, server.url)

    assert error is not None
    assert traffic.failure is not None
    assert traffic.failure.info.code == "encoded"
    assert server.requests[0].header("accept-encoding") == "identity"


async def test_limit_counts_all_answers_of_a_connection() -> None:
    large = replying(answer(b"x" * 600))
    async with HostileServer(large) as server, opened(server.url) as (http, traffic):
        _, first = await read(http, server.url)
        _, second = await read(http, server.url)

    assert first is None
    assert second is not None
    assert traffic.failure is not None
    assert traffic.failure.info.code == "too_large"


VALUES = {
    rb'{"a": [1, {"b": 2}, 3]}': 5,
    rb'["{[,", "\\", ",", "\"[,"]': 4,
    b': "\ndata: [{},{}]\r\n': 7,
}


def test_values_are_counted_whatever_the_chunks(subtests: pytest.Subtests) -> None:
    for body, number in VALUES.items():
        for size in (1, 2, 3, len(body)):
            with subtests.test(msg=f"{body!r} by {size}"):
                counter = ValueCounter()
                for at in range(0, len(body), size):
                    counted = counter.add(body[at : at + size])

                assert counted == number


async def test_stream_that_belongs_to_no_request_is_not_opened() -> None:
    async with HostileServer(replying(OK, hang)) as server, opened(server.url) as (http, _):
        response = await http.get(server.url)

    assert response.status_code == 405
    assert server.connections == 0


async def test_key_is_removed_from_what_a_server_sends() -> None:
    headers = {"Authorization": "Bearer sk-canary-0123456789"}
    echo = replying(answer(b"Bearer sk-canary-0123456789 x"))
    async with HostileServer(echo) as server, opened(server.url, headers=headers) as (http, _):
        received, _ = await read(http, server.url)

    assert b"canary" not in received
    assert received.endswith(b" x")
