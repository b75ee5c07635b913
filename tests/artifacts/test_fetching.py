"""Files of mockups are fetched from their server: with its key, within limits, nowhere else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.utils import timezone

from chat.artifacts import fetching
from chat.artifacts.actions import TOO_LARGE
from chat.artifacts.fetching import GONE, NO_SERVER, MockupFetcher, encoded, prefix_of, take_due
from chat.artifacts.paths import BAD_PATH
from chat.core.notify import ChangeNotifier
from chat.core.threads import DatabaseThreads
from chat.events import JsonObject, MockupUpdate
from chat.models import Conversation, Mockup, MockupFile, Run, StoredFile, Upstream
from chat.runs.event_buffer import MemoryEventBuffer
from chat.runs.runner import Runner
from chat.upstreams.addresses import REFUSED_TEXT, AddressPolicy
from chat.upstreams.client import Client, open_client
from tests.support.answers import Answer, png
from tests.support.hostile_server import Behaviour, HostileServer, Peer, replying
from tests.support.hostile_server import answer as http_answer
from tests.support.processes.site import SOON_SECONDS

KEY = "sk-canary-0123456789abcdef"
A = "/v1/mockups/b-1/a"
B = "/v1/mockups/b-1/b"
threads = DatabaseThreads("fetch-test", size=2)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with open_client(AddressPolicy.parse("any")) as client:
        yield client
    await threads.close()


@dataclass
class Bundles:
    """Makes answers with bundles at a server's address, and fetches what they announce."""

    answer: Answer
    upstream: Upstream
    client: Client

    def _point(self, url: str, **fields: object) -> None:
        upstream = self.upstream
        upstream.base_url = url
        for name, value in fields.items():
            setattr(upstream, name, value)
        upstream.set_key(KEY)
        upstream.save()

    async def make(self, server: HostileServer, *events: MockupUpdate, **fields: object) -> Run:
        """``fields`` are those of the server's row."""
        await threads.call(self._point, f"{server.url}/v1", **fields)
        return await self.add(*events)

    async def add(self, *events: MockupUpdate) -> Run:
        return await threads.call(self.answer, *events)

    async def fetch(self) -> dict[str, MockupFile]:
        await MockupFetcher(client=self.client, threads=threads).fetch_due()
        return await self.files()

    async def files(self) -> dict[str, MockupFile]:
        def read() -> dict[str, MockupFile]:
            rows = MockupFile.objects.select_related("file").order_by("version__number")
            return {row.path: row for row in rows}

        return await threads.call(read)

    async def body(self, path: str) -> bytes:
        file = (await self.files())[path]
        return bytes(await threads.call(lambda: StoredFile.objects.get(pk=file.file_id).body))

    async def make_due(self) -> None:
        """What is to be tried again later is due now."""
        earlier = timezone.now() - timedelta(seconds=1)
        await threads.call(lambda: MockupFile.objects.update(due_at=earlier))


@pytest.fixture
def bundles(transactional_db: None, answer: Answer, upstream: Upstream, client: Client) -> Bundles:
    return Bundles(answer=answer, upstream=upstream, client=client)


def created(*paths: str, size: int = 1, bundle_id: str = "b-1") -> MockupUpdate:
    files: list[JsonObject] = [
        {"path": path, "contentType": "text/html", "size": size} for path in paths
    ]
    return MockupUpdate(op="created", bundle_id=bundle_id, entry=paths[0], files=files)


def updated(*changed: str, bundle_id: str = "b-1") -> MockupUpdate:
    return MockupUpdate(op="updated", bundle_id=bundle_id, changed=list(changed))


def serving(bodies: dict[str, bytes]) -> HostileServer:
    """Answers with the body of each target, and 404 for the others."""

    async def behave(peer: Peer) -> None:
        request = await peer.request()
        body = bodies.get(request.target)
        status = "200 OK" if body is not None else "404 Not Found"
        await peer.send(http_answer(b"nothing" if body is None else body, status=status))
        await peer.finish()

    return HostileServer(behave)


def outcome(file: MockupFile) -> tuple[str, str]:
    return file.status, file.reason


# --- what is fetched ---------------------------------------------------------------------------


async def test_listed_files_are_fetched_with_the_key(bundles: Bundles) -> None:
    pages = {
        "/v1/mockups/b-1/index.html": b"<h1>Shop</h1>",
        "/v1/mockups/b-1/img/%C3%BC%20%3F.png": png(),
    }
    async with serving(pages) as server:
        await bundles.make(server, created("index.html", "img/ü ?.png"))
        files = await bundles.fetch()

    assert {file.status for file in files.values()} == {"stored"}
    assert await bundles.body("index.html") == b"<h1>Shop</h1>"
    assert files["img/ü ?.png"].file.name == "ü ?.png"
    assert {request.target for request in server.requests} == set(pages)
    assert {request.header("authorization") for request in server.requests} == {f"Bearer {KEY}"}
    assert {request.method for request in server.requests} == {"GET"}


async def test_last_file_updates_the_conversation(
    bundles: Bundles, conversation: Conversation
) -> None:
    async def revision() -> int:
        return (await threads.call(Conversation.objects.get, pk=conversation.pk)).revision

    async with serving({A: b"1"}) as server:
        await bundles.make(server, created("a", "missing"))
        before = await revision()
        await bundles.fetch()

    assert await revision() == before + 1


async def test_only_changed_files_are_fetched_again(bundles: Bundles) -> None:
    pages = {A: b"first", B: b"same"}
    async with serving(pages) as server:
        await bundles.make(server, created("a", "b"))
        await bundles.fetch()
        pages[A] = b"second"
        await bundles.add(updated("a"))
        await bundles.fetch()

    assert await bundles.body("a") == b"second"
    assert sorted(request.target for request in server.requests) == [A, A, B]


async def test_versions_share_a_fetch(bundles: Bundles) -> None:
    async with serving({A: b"1", B: b"2"}) as server:
        await bundles.make(server, created("a", "b"), updated("a"))
        await bundles.fetch()

    rows = MockupFile.objects.order_by("version__number", "path").values_list("path", "status")
    assert await threads.call(lambda: list(rows)) == [
        *(("a", "refused"), ("b", "stored")),
        *(("a", "stored"), ("b", "stored")),
    ]
    assert len(server.requests) == 2


async def test_two_runners_fetch_a_file_once(bundles: Bundles) -> None:
    async with serving({A: b"1"}) as server:
        await bundles.make(server, created("a"))
        await asyncio.gather(bundles.fetch(), bundles.fetch())

    assert len(server.requests) == 1


async def test_file_of_a_lost_runner_is_fetched_after_its_lease(bundles: Bundles) -> None:
    async with serving({A: b"1"}) as server:
        await bundles.make(server, created("a"))
        assert len(await threads.call(take_due)) == 1

        assert (await bundles.fetch())["a"].status == "wanted"
        await bundles.make_due()
        assert (await bundles.fetch())["a"].status == "stored"


async def test_file_is_given_up_after_so_many_attempts(bundles: Bundles) -> None:
    async with serving({}) as server:
        await bundles.make(server, created("a"))
        for _ in range(fetching.ATTEMPTS):
            await threads.call(take_due)
            await bundles.make_due()
        files = await bundles.fetch()

    assert outcome(files["a"]) == ("refused", GONE)
    assert server.requests == []


async def test_runner_fetches_what_was_wanted_before_it_started(bundles: Bundles) -> None:
    async with serving({A: b"1"}) as server:
        await bundles.make(server, created("a"))
        runner = Runner(buffer=MemoryEventBuffer(), notifier=ChangeNotifier())
        await runner.start()
        async with asyncio.timeout(SOON_SECONDS):
            while (await bundles.files())["a"].status != "stored":
                await asyncio.sleep(0.01)
        await runner.drain(0)


async def test_empty_files_are_stored(bundles: Bundles) -> None:
    async with serving({A: b""}) as server:
        await bundles.make(server, created("a"))
        files = await bundles.fetch()

    assert (files["a"].status, await bundles.body("a")) == ("stored", b"")
    assert await threads.call(Mockup.objects.count) == 1


async def test_size_of_a_bundle_is_limited(bundles: Bundles, settings: object) -> None:
    settings.MOCKUP_BUNDLE_BYTES = 150
    async with serving({A: bytes(100), B: bytes(100)}) as server:
        await bundles.make(server, created("a", "b"))
        files = await bundles.fetch()

    assert sorted(file.status for file in files.values()) == ["refused", "stored"]


async def test_busy_server_is_retried_a_limited_number_of_times(bundles: Bundles) -> None:
    busy = replying(http_answer(b"", status="503 Service Unavailable"))
    async with HostileServer(busy) as server:
        await bundles.make(server, created("a"))
        statuses = []
        for _ in range(fetching.ATTEMPTS + 1):
            statuses.append((await bundles.fetch())["a"].status)
            await bundles.make_due()

    assert statuses == ["wanted"] * (fetching.ATTEMPTS - 1) + ["refused"] * 2
    assert len(server.requests) == fetching.ATTEMPTS


# --- what is not fetched -----------------------------------------------------------------------


@pytest.mark.parametrize("bundle_id", ["../v1/models", "a/b", "..", "%2e%2e", "a\\b"])
async def test_bundle_ids_with_a_path_are_refused(bundles: Bundles, bundle_id: str) -> None:
    async with serving({}) as server:
        await bundles.make(server, created("a", bundle_id=bundle_id))
        files = await bundles.fetch()

    assert outcome(files["a"]) == ("refused", BAD_PATH)
    assert server.requests == []


@pytest.mark.parametrize("fields", [{"is_enabled": False}, {"dialect": "gone"}])
async def test_disabled_server_is_not_asked(bundles: Bundles, fields: dict[str, object]) -> None:
    async with serving({}) as server:
        await bundles.make(server, created("a"), **fields)
        files = await bundles.fetch()

    assert outcome(files["a"]) == ("refused", NO_SERVER)
    assert server.connections == 0


async def test_nothing_is_fetched_for_a_deleted_conversation(bundles: Bundles) -> None:
    async with serving({}) as server:
        await bundles.make(server, created("a"))
        await threads.call(lambda: Conversation.objects.update(deleted_at=timezone.now()))
        await bundles.fetch()

    assert server.connections == 0


async def test_bundle_deleted_during_its_fetch_is_no_error(bundles: Bundles) -> None:
    async def behave(peer: Peer) -> None:
        await peer.request()
        await threads.call(Mockup.objects.all().delete)
        await peer.send(http_answer(b"nothing", status="404 Not Found"))
        await peer.finish()

    async with HostileServer(behave) as server:
        await bundles.make(server, created("index.html"))

        assert await bundles.fetch() == {}


# --- hostile servers ---------------------------------------------------------------------------


async def endless(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    await peer.flood(b"10000\r\n" + bytes(0x10000) + b"\r\n", 1000)


async def drip(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        await peer.send(b".")
        await asyncio.sleep(0.01)


async def echo_key(peer: Peer) -> None:
    """Repeats the credential wherever an answer has room for it."""
    request = await peer.request()
    key = request.header("authorization") or ""
    await peer.send(
        http_answer(
            f'{{"error":{{"message":"bad key {key}","code":"{key}"}}}}'.encode(),
            status=f"403 {key}",
            headers=f"X-Key: {key}\r\n",
        )
    )
    await peer.finish()


def redirect(to: str) -> Behaviour:
    return replying(http_answer(b"", status="302 Found", headers=f"Location: {to}\r\n"))


async def test_endless_body_is_cut_off_at_the_limit(bundles: Bundles, settings: object) -> None:
    settings.MOCKUP_FILE_BYTES = 100_000
    async with HostileServer(endless) as server:
        await bundles.make(server, created("a"))
        files = await bundles.fetch()
        await server.wait_gone()

    assert outcome(files["a"]) == ("refused", TOO_LARGE)


async def test_dripping_body_ends_at_the_deadline(bundles: Bundles, settings: object) -> None:
    settings.MOCKUP_FETCH_SECONDS = 0.3
    async with HostileServer(drip) as server:
        await bundles.make(server, created("a"))
        files = await bundles.fetch()
        await server.wait_gone()

    assert files["a"].status == "refused"
    assert "in time" in files["a"].reason


async def test_redirects_are_not_followed(bundles: Bundles) -> None:
    async with (
        HostileServer(replying(http_answer(b"secret"))) as inner,
        HostileServer(redirect(f"http://localhost:{inner.port}/")) as server,
    ):
        await bundles.make(server, created("a"))
        files = await bundles.fetch()

    assert files["a"].status == "refused"
    assert "redirect" in files["a"].reason
    assert inner.requests == []


async def test_forbidden_addresses_are_not_connected_to(
    bundles: Bundles, answer: Answer, upstream: Upstream
) -> None:
    async with serving({A: b"1"}) as server, open_client(AddressPolicy.parse("")) as strict:
        await bundles.make(server, created("a"))
        files = await Bundles(answer=answer, upstream=upstream, client=strict).fetch()

    assert files["a"].status == "refused"
    assert REFUSED_TEXT in files["a"].reason
    assert server.connections == 0


async def test_key_is_in_no_error_and_no_log(
    bundles: Bundles, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with HostileServer(echo_key) as server:
        await bundles.make(server, created("a"))
        files = await bundles.fetch()

    assert files["a"].reason == "The server answered with HTTP status 403."
    assert KEY not in caplog.text
    assert "canary" not in repr(files["a"].__dict__)


async def test_key_is_removed_from_stored_files(bundles: Bundles) -> None:
    async with serving({A: f"let k='{KEY}'".encode()}) as server:
        await bundles.make(server, created("a"))
        await bundles.fetch()

    assert KEY.encode() not in await bundles.body("a")


async def test_key_is_sent_to_no_other_server(bundles: Bundles) -> None:
    async with serving({}) as server, serving({"/files/b-1/a": b"1"}) as other:
        options = {"mockup_prefix": f"http://localhost:{other.port}/files/"}
        await bundles.make(server, created("a"), options=options)
        files = await bundles.fetch()

    assert files["a"].status == "stored"
    assert [request.header("authorization") for request in other.requests] == [None]
    assert server.requests == []


# --- addresses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base_url", "option", "prefix"),
    [
        ("http://h/p/e/v1", None, "http://h/p/e/v1/mockups"),
        ("http://h/v1/", "", "http://h/v1/mockups"),
        ("http://h:1", 7, "http://h:1/v1/mockups"),
        ("http://h/v1/v1", None, "http://h/v1/v1/mockups"),
        ("https://h/p/v1", "/bundles/", "https://h/bundles/"),
        ("https://h/p/v1", "https://files.h/m", "https://files.h/m"),
    ],
)
def test_address_of_bundles(base_url: str, option: object, prefix: str) -> None:
    options = {} if option is None else {"mockup_prefix": option}

    assert prefix_of(Upstream(base_url=base_url, options=options)) == prefix


def test_every_segment_is_encoded() -> None:
    assert encoded("b/a b?c#d%.html") == "b/a%20b%3Fc%23d%25.html"
