"""A request goes to the address that was checked, under the name that was asked for."""

import random
import ssl

import httpx
import pytest

from chat.upstreams.addresses import AddressPolicy
from tests.support.hostile_server import HostileServer, answer, hang, replying
from tests.upstreams.conftest import exchange, lookup_in, open_over

OK = answer(b"{}")


@pytest.fixture
def open_pinned(transport, certificates):
    """A client whose name server holds this table."""

    def open_it(table, setting="any", trust=None):
        policy = AddressPolicy.parse(setting, lookup=lookup_in(table))
        return open_over(transport, policy, trust or certificates.trust)

    return open_it


# form: (the server's address, the address that the name has)
ADDRESSES = {
    "v4": ("127.0.0.1", "127.0.0.1"),
    "v6": ("::1", "::1"),
    "mapped": ("127.0.0.1", "::ffff:127.0.0.1"),
}


@pytest.mark.parametrize("form", ADDRESSES)
async def test_name_is_kept_for_host_and_certificate(open_pinned, certificates, scheme, form):
    listening, dialled = ADDRESSES[form]
    is_tls = scheme == "https"
    server_names = []
    if is_tls:
        certificates.server.sni_callback = lambda _socket, name, _context: server_names.append(name)

    server = HostileServer(replying(OK), certificates.server if is_tls else None, host=listening)
    async with server, open_pinned({"server.test": [dialled]}) as client:
        response = await client.post(f"{scheme}://server.test:{server.port}/x", content=b"{}")
    certificates.server.sni_callback = None

    assert response.status_code == 200
    assert server.requests[0].header("host") == f"server.test:{server.port}"
    assert server_names == (["server.test"] if is_tls else [])


async def test_literal_address_is_checked(open_pinned, subtests):
    for host in ["127.0.0.1", "127.1", "2130706433", "[::ffff:127.0.0.1]"]:
        with subtests.test(msg=host):
            async with HostileServer(replying(OK)) as server:
                async with open_pinned({}) as client:
                    await client.post(f"http://{host}:{server.port}/", content=b"{}")
                async with open_pinned({}, setting="") as client:
                    _, error = await exchange(client, f"http://{host}:{server.port}/")

            assert isinstance(error, httpx.ConnectError)
            assert server.connections == 1


async def test_certificate_must_name_a_literal_address(open_pinned, certificates):
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


async def test_one_forbidden_address_prevents_the_connection(open_pinned):
    table = {"two.test": ["127.0.0.1", "169.254.169.254"]}
    async with HostileServer(replying(OK)) as server, open_pinned(table) as client:
        _, error = await exchange(client, f"http://two.test:{server.port}/")

    assert isinstance(error, httpx.ConnectError)
    assert server.connections == 0


async def test_each_lookup_is_checked(transport, certificates):
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])

    async def lookup(host, port):
        return next(answers)

    policy = AddressPolicy.parse("127.0.0.1/32:*", lookup=lookup)
    async with (
        HostileServer(replying(OK)) as server,
        open_over(transport, policy, certificates.trust) as client,
    ):
        await client.post(f"http://rebind.test:{server.port}/", content=b"{}")
        _, error = await exchange(client, f"http://rebind.test:{server.port}/")

    assert isinstance(error, httpx.ConnectError)
    assert server.connections == 1


async def test_certificate_for_another_name_prevents_the_request(open_pinned, certificates):
    async with (
        HostileServer(replying(OK), certificates.other_name) as server,
        open_pinned({"server.test": ["127.0.0.1"]}) as client,
    ):
        _, error = await exchange(client, f"https://server.test:{server.port}/")

    assert type(error) is httpx.ConnectError
    assert server.posts == 0


async def test_unknown_authority_prevents_the_request(open_pinned, certificates):
    async with (
        HostileServer(replying(OK), certificates.server) as server,
        open_pinned({}, trust=ssl.create_default_context()) as client,
    ):
        _, error = await exchange(client, f"https://localhost:{server.port}/")

    assert type(error) is httpx.ConnectError
    assert server.posts == 0


async def test_proxy_variables_are_ignored(monkeypatch, open_pinned):
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


async def test_every_request_has_its_own_connection(client, serve):
    async with serve(replying(OK, hang)) as server:
        for _ in range(3):
            await client.post(server.url, content=b"{}")

    assert server.connections == 3


async def test_redirect_is_not_followed(client, serve):
    moved = answer(b"", status="307 Temporary Redirect", headers="Location: http://other.test/\r\n")

    async with serve(replying(moved)) as server:
        response = await client.post(server.url, content=b"{}")

    assert response.status_code == 307
    assert server.connections == 1


async def test_cookies_are_never_sent_back(client, serve):
    async with serve(replying(answer(b"{}", headers="Set-Cookie: a=b; Path=/\r\n"))) as server:
        await client.post(server.url, content=b"{}")
        await client.post(server.url, content=b"{}")

    assert [request.header("cookie") for request in server.requests] == [None, None]


async def test_path_and_query_arrive_as_given(client, serve):
    async with serve(replying(OK)) as server:
        await client.post(f"{server.url}/a%3A%7Eb/c%2Cd?e=f%2Cg", content=b"{}")

    assert server.requests[0].target == "/a%3A%7Eb/c%2Cd?e=f%2Cg"


async def test_body_arrives_whole(client, serve, subtests):
    for size in [1, 65_000, 65_536, 300_000, 3_000_000]:
        body = random.Random(size).randbytes(size)
        with subtests.test(msg=f"{size} bytes"):
            async with serve(replying(OK)) as server:
                await client.post(server.url, content=body)

            assert server.requests[0].body == body
