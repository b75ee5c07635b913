"""The connection test finds the address that was meant, and never sends the key to another server."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx
import pytest

from chat.demo.models import DEMO_SERVERS, DemoServer
from chat.dialects import DIALECTS
from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.client import open_client
from chat.upstreams.corrections import UsualPlaces, other_listeners
from chat.upstreams.probe import ProbeStep, probe
from chat.upstreams.probe_requests import ProbeTarget
from tests.support.browser.site import free_port
from tests.support.hostile_server import Behaviour, HostileServer, Peer, answer
from tests.support.upstream.fake import FakeUpstream
from tests.upstreams.conftest import KEY, Certificates, lookup_in

ANY = AddressPolicy.parse("any")
PLACES = UsualPlaces(ports=(1234,), hosts=("host.docker.internal",))
MODELS = answer(b'{"data":[{"id":"tiny"}]}')
NO_KEY = answer(b'{"error":{"message":"no key"}}', status="401 Unauthorized")
NOT_FOUND = answer(b'{"error":{"message":"no such path"}}', status="404 Not Found")
BESIDE = "host.docker.internal"
# (what was typed, as a change of the right address); {path} is the path of the right one, and {end} that of
# the dialect's own request.
TYPED = [
    "http://localhost:{port}{path}{end}",
    "http://localhost:{port}{path}/models",
    "http://localhost:{port}{path}/v1",
    "http://localhost:{port}{path}/chat/completions/",
    "https://localhost:{port}{path}",
    "http://localhost:{free}{path}",
    "http://localhost:{free}{path}{end}",
    "https://localhost{path}",
]
ENDS = {
    "anthropic_messages": "/messages",
    "bitseek": "/chat/completions",
    "lmstudio": "/api/v1/chat",
    "openai_chat": "/chat/completions",
    "openai_completions": "/completions",
    "openai_responses": "/responses",
    "xerotier": "/chat/completions",
}


async def outcome(
    client: httpx.AsyncClient, url: str, dialect: str, *, policy: AddressPolicy, **more: object
) -> ProbeStep:
    """The step that failed, or the last one."""
    target = ProbeTarget(base_url=url, dialect=DIALECTS[dialect], key=KEY, **more)  # type: ignore[arg-type]
    steps = [step async for step in probe(client, policy, target) if step.state != "running"]
    return next((step for step in steps if step.state == "failed"), steps[-1])


@pytest.mark.parametrize("server", DEMO_SERVERS, ids=lambda server: server.dialect)
async def test_meant_address_is_found(
    wire_client: httpx.AsyncClient,
    fake: FakeUpstream,
    server: DemoServer,
    subtests: pytest.Subtests,
) -> None:
    dialect, path = server.dialect, server.path
    port = urlsplit(fake.url).port
    right = f"http://localhost:{port}{path}"
    typed = [*TYPED, *(["http://localhost:{port}{short}"] if path.endswith("/v1") else [])]
    has_list = bool(DIALECTS[dialect].models_path)
    for pattern in typed:
        url = pattern.format(
            port=port, path=path, end=ENDS[dialect], free=free_port(), short=path[: -len("/v1")]
        )
        if not has_list and pattern != TYPED[0]:
            continue
        with subtests.test(url):
            found = await outcome(
                wire_client,
                url,
                dialect,
                policy=ANY,
                model="m",
                places=UsualPlaces(ports=(port or 0,)),
            )

            assert (found.correction, found.subject, found.state) == (right, "address", "failed")
            assert right in found.text


def routes(listing: bytes, at: str) -> Behaviour:
    """A server that has its list of models at one address only."""

    async def behave(peer: Peer) -> None:
        request = await peer.request()
        await peer.send(listing if request.target == at else NOT_FOUND)
        await peer.finish()

    return behave


async def test_encrypted_address_is_found(
    client: httpx.AsyncClient, policy: AddressPolicy, certificates: Certificates
) -> None:
    async with HostileServer(routes(MODELS, "/v1/models"), certificates.server) as server:
        plain = server.url.replace("https://", "http://")

        found = await outcome(client, plain, "openai_chat", policy=policy)

    assert found.correction == f"{server.url}/v1"
    # The key was sent nowhere: plain http never got through, and the other address is not the typed one.
    assert KEY not in repr([request.headers for request in server.requests])


async def test_certificate_that_is_not_valid_leads_to_no_plain_http(
    client: httpx.AsyncClient, policy: AddressPolicy, certificates: Certificates
) -> None:
    async with HostileServer(routes(MODELS, "/models"), certificates.other_name) as server:
        found = await outcome(
            client, server.url, "openai_chat", policy=policy, trust=certificates.trust
        )

    assert (found.name, found.correction) == ("tls", "")


@pytest.mark.parametrize(
    ("listing", "correction"), [(MODELS, "{url}/v1"), (NO_KEY, "{url}/v1"), (NOT_FOUND, "")]
)
async def test_key_goes_to_other_paths_only(
    wire_client: httpx.AsyncClient, listing: bytes, correction: str
) -> None:
    """A server that refuses the key at one of them is the one that was meant."""
    async with HostileServer(routes(listing, "/v1/models")) as server:
        found = await outcome(wire_client, server.url, "openai_chat", policy=ANY)

    assert found.correction == correction.format(url=server.url)
    assert {request.header("authorization") for request in server.requests} == {f"Bearer {KEY}"}


@pytest.mark.parametrize(("listing", "is_found"), [(MODELS, True), (NO_KEY, False)])
async def test_other_port_is_asked_without_the_key(
    wire_client: httpx.AsyncClient, listing: bytes, is_found: bool
) -> None:
    async with HostileServer(routes(listing, "/v1/models")) as server:
        url = f"http://localhost:{free_port()}"
        places = UsualPlaces(ports=(server.port,))
        found = await outcome(wire_client, url, "openai_chat", policy=ANY, places=places)

    assert bool(found.correction) is is_found
    assert server.requests
    assert KEY not in repr([request.headers for request in server.requests])


async def test_host_of_a_container_is_found() -> None:
    """People type localhost, which inside a container is the container."""
    lookup = lookup_in({"localhost": ["127.0.0.2"], BESIDE: ["127.0.0.1"]})
    policy = AddressPolicy.parse("any", lookup=lookup)
    async with (
        open_client(policy) as client,
        HostileServer(routes(MODELS, "/v1/models")) as server,
    ):
        url = f"http://localhost:{server.port}"
        places = UsualPlaces(hosts=(BESIDE,))
        found = await outcome(client, url, "openai_chat", policy=policy, places=places)

    assert found.correction == f"http://{BESIDE}:{server.port}/v1"


async def test_ports_of_foreign_machines_are_not_tried() -> None:
    listeners = other_listeners("https://api.example.com:444/v1", PLACES, is_private=False)

    assert list(listeners) == []


async def test_correction_is_under_the_same_policy() -> None:
    async with HostileServer(routes(MODELS, "/v1/models")) as server:
        policy = AddressPolicy.parse("any", own_ports=frozenset([server.port]))
        places = UsualPlaces(ports=(server.port,))
        async with open_client(policy) as client:
            url = f"http://localhost:{free_port()}"
            found = await outcome(client, url, "openai_chat", policy=policy, places=places)

    assert found.correction == ""
    assert server.requests == []
