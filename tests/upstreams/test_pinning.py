"""A request goes to the address that was checked, under the name that was asked for."""

import random
import ssl

import httpx
import pytest

from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.client import open_client
from tests.upstreams.conftest import exchange, names, replying
from tests.upstreams.hostile import HostileServer, answer

OK = answer(b"{}")


@pytest.fixture
def open_pinned(transport, certificates):
    """A client whose name server holds this table."""

    def open_it(table, setting="any", trust=None):
        policy = AddressPolicy.parse(setting, lookup=names(table))
        return open_client(policy, trust or certificates.trust, transport)

    return open_it


ADDRESSES = {
    "v4": ("127.0.0.1", "127.0.0.1"),
    "v6": ("::1", "::1"),
    "mapped": ("127.0.0.1", "::ffff:127.0.0.1"),
}


@pytest.mark.parametrize("form", ADDRESSES)
@pytest.mark.parametrize("is_tls", [False, True], ids=["http", "https"])
async def test_name_is_kept_for_host_and_certificate(open_pinned, certificates, form, is_tls):
    listening, dialled = ADDRESSES[form]
    seen = []
    if is_tls:
        certificates.server.sni_callback = lambda _socket, name, _context: seen.append(name)

    server = HostileServer(replying(OK), certificates.server if is_tls else None, host=listening)
    async with server, open_pinned({"server.test": [dialled]}) as client:
        response = await client.post(
            f"{server.scheme}://server.test:{server.port}/x", content=b"{}"
        )
    certificates.server.sni_callback = None

    assert response.status_code == 200
    assert server.requests[0].header("host") == f"server.test:{server.port}"
    assert seen == (["server.test"] if is_tls else [])


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "[::ffff:127.0.0.1]"])
async def test_literal_address_passes_through_the_check(open_pinned, host):
    async with HostileServer(replying(OK)) as server, open_pinned({}) as client:
        await client.post(f"http://{host}:{server.port}/", content=b"{}")
        async with open_pinned({}, setting="") as client:
            _, error = await exchange(client, f"http://{host}:{server.port}/")

    assert isinstance(error, httpx.ConnectError)
    assert server.connections == 1


async def test_literal_address_is_what_the_certificate_must_name(open_pinned, certificates):
    async with (
        HostileServer(replying(OK), certificates.server) as server,
        open_pinned({}) as client,
    ):
        response = await client.post(f"https://127.0.0.1:{server.port}/", content=b"{}")

    assert response.status_code == 200


async def test_second_address_is_tried_when_the_first_refuses(open_pinned):
    async with (
        HostileServer(replying(OK)) as server,
        open_pinned({"two.test": ["127.0.0.2", "127.0.0.1"]}) as client,
    ):
        response = await client.post(f"http://two.test:{server.port}/", content=b"{}")

    assert response.status_code == 200
    assert server.posts == 1


async def test_name_with_one_forbidden_address_makes_no_connection(open_pinned):
    table = {"two.test": ["127.0.0.1", "169.254.169.254"]}
    async with HostileServer(replying(OK)) as server, open_pinned(table) as client:
        _, error = await exchange(client, f"http://two.test:{server.port}/")

    assert isinstance(error, httpx.ConnectError)
    assert server.connections == 0


async def test_second_lookup_that_differs_is_checked_again(open_pinned, transport, certificates):
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])

    async def lookup(host, port):
        return next(answers)

    policy = AddressPolicy.parse("127.0.0.1/32:*", lookup=lookup)
    async with (
        HostileServer(replying(OK)) as server,
        open_client(policy, certificates.trust, transport) as client,
    ):
        await client.post(f"http://rebind.test:{server.port}/", content=b"{}")
        _, error = await exchange(client, f"http://rebind.test:{server.port}/")

    assert isinstance(error, httpx.ConnectError)
    assert server.connections == 1


async def test_certificate_for_another_name_is_refused_before_the_request(
    open_pinned, certificates
):
    async with (
        HostileServer(replying(OK), certificates.other_name) as server,
        open_pinned({"server.test": ["127.0.0.1"]}) as client,
    ):
        _, error = await exchange(client, f"https://server.test:{server.port}/")

    assert type(error) is httpx.ConnectError
    assert server.posts == 0


async def test_unknown_authority_is_refused_before_the_request(open_pinned, certificates):
    async with (
        HostileServer(replying(OK), certificates.server) as server,
        open_pinned({}, trust=ssl.create_default_context()) as client,
    ):
        _, error = await exchange(client, f"https://localhost:{server.port}/")

    assert type(error) is httpx.ConnectError
    assert server.posts == 0


async def test_proxy_variables_of_the_environment_are_ignored(monkeypatch, open_pinned):
    async with (
        HostileServer(replying(answer(b"proxied"))) as proxy,
        HostileServer(replying(OK)) as server,
    ):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with open_pinned({}) as client:
            response = await client.post(f"http://localhost:{server.port}/", content=b"{}")

    assert response.content == b"{}"
    assert proxy.connections == 0


async def test_every_request_has_a_connection_of_its_own(client, serve):
    async with serve(replying(answer(b"{}"), lambda peer: peer.wait_gone())) as server:
        for _ in range(3):
            await client.post(server.url, content=b"{}")

    assert server.connections == 3


async def test_redirect_is_not_followed(client, serve):
    moved = answer(
        b"", status="307 Temporary Redirect", headers="Location: http://elsewhere.test/\r\n"
    )

    async with serve(replying(moved)) as server:
        response = await client.post(server.url, content=b"{}")

    assert response.status_code == 307
    assert server.connections == 1


async def test_cookies_never_travel(client, serve):
    async with serve(replying(answer(b"{}", headers="Set-Cookie: a=b; Path=/\r\n"))) as server:
        await client.post(server.url, content=b"{}")
        await client.post(server.url, content=b"{}")

    assert [request.header("cookie") for request in server.requests] == [None, None]


async def test_path_and_query_arrive_as_given(client, serve):
    async with serve(replying(answer(b"{}"))) as server:
        await client.post(f"{server.url}/a%3A%7Eb/c%2Cd?e=f%2Cg", content=b"{}")

    assert server.requests[0].target == "/a%3A%7Eb/c%2Cd?e=f%2Cg"


@pytest.mark.parametrize("size", [1, 65_000, 65_536, 300_000, 3_000_000])
async def test_body_arrives_whole(client, serve, size):
    body = random.Random(size).randbytes(size)

    async with serve(replying(answer(b"{}"))) as server:
        await client.post(server.url, content=body)

    assert server.requests[0].body == body


async def test_stock_speaks_through_the_proxy_it_is_given(certificates):
    policy = AddressPolicy.parse("")
    async with (
        HostileServer(replying(answer(b"proxied"))) as proxy,
        open_client(
            policy, certificates.trust, "stock", proxy=f"http://127.0.0.1:{proxy.port}"
        ) as client,
    ):
        response = await client.post("http://api.example.com/v1", content=b"{}")
        _, error = await exchange(client, "http://2852039166/latest")

    assert response.content == b"proxied"
    assert proxy.requests[0].target == "http://api.example.com/v1"
    assert isinstance(error, httpx.ConnectError)
    assert proxy.connections == 1


async def test_wire_says_that_it_has_no_proxy(certificates):
    with pytest.raises(ValueError, match="stock"):
        open_client(AddressPolicy(), certificates.trust, "wire", proxy="http://127.0.0.1:1")
