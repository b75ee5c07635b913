"""Searching and reading over real sockets: what is sent, what becomes of the answer, what is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

import pytest
from pytest_django import Settings

from chat.events import JsonObject
from chat.models import SearchService, ToolKind
from chat.tools.kinds import Address, CallFailed, CallOutput, CallRequest
from chat.tools.web import page, results, search
from chat.tools.web.page import read_page
from chat.tools.web.search import search_web
from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.client import Client, open_client
from tests.support.remote_host import RemoteHost
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import answer
from tests.tools.calling import never

KEY = "key-canary-0123456789"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with open_client(AddressPolicy.parse("any")) as client:
        yield client


@pytest.fixture
def host(settings: Settings) -> Iterator[RemoteHost]:
    with RemoteHost() as host:
        settings.PICTURE_PRIVATE_NETWORKS = host.network
        yield host


def request(
    client: Client, kind: ToolKind, arguments: JsonObject, address: Address | None = None
) -> CallRequest:
    async def sent() -> None:
        """Nothing to store."""

    return CallRequest(
        kind=kind,
        address=address or Address(url=""),
        arguments=arguments,
        most_bytes=100_000,
        client=client,
        sent=sent,
        report=lambda progress: None,
        store_task=never,
        ask=never,
    )


async def search_at(
    client: Client, url: str, service: str = SearchService.SEARXNG, **arguments: object
) -> CallOutput:
    headers = {"Authorization": f"Bearer {KEY}"} if service == SearchService.TAVILY else {}
    address = Address(url=url, service=service, headers=headers)
    return await search_web(request(client, ToolKind.SEARCH, arguments, address))


def found(*urls: str, content: str = "A river") -> JsonObject:
    return {"results": [{"title": "Elbe", "url": url, "content": content} for url in urls]}


# --- searching ------------------------------------------------------------------------------------


async def test_search_gives_results_and_sources(client: Client, host: RemoteHost) -> None:
    body = found("https://a.example/1", "https://a.example/2", "https://a.example/3")
    host.serve("/search?q=the+elbe&format=json", json.dumps(body).encode())

    output = await search_at(client, host.url, query="the  elbe\n", count=2)

    assert "1. Elbe\nhttps://a.example/1\nA river" in output.text
    assert [source.url for source in output.sources] == [
        "https://a.example/1",
        "https://a.example/2",
    ]
    assert not output.is_error


async def test_key_is_sent_and_not_repeated(client: Client, fake: FakeUpstream) -> None:
    fake.script(answer(found("https://a.example/1", content=f"Your key is {KEY}")))

    output = await search_at(client, fake.url, SearchService.TAVILY, query="elbe")

    assert KEY not in output.text
    (asked,) = fake.requests
    assert asked.body == {"query": "elbe", "max_results": search.DEFAULT_RESULTS}
    assert "authorization" in asked.headers


@pytest.mark.parametrize(
    ("service", "status", "sentence"),
    [
        (SearchService.SEARXNG, 403, search.NO_JSON),
        (SearchService.TAVILY, 401, search.KEY_REFUSED),
        (SearchService.BRAVE, 422, search.KEY_REFUSED),
        (SearchService.BRAVE, 429, search.TOO_OFTEN),
        (SearchService.SEARXNG, 302, search.STATUS % 302),
        (SearchService.SEARXNG, 500, search.STATUS % 500),
    ],
)
async def test_error_is_a_sentence(
    client: Client, host: RemoteHost, fake: FakeUpstream, service: str, status: int, sentence: str
) -> None:
    host.serve("/search?q=elbe&format=json", b"No", status=status)
    host.serve("/?q=elbe&count=5", b"No", status=status)
    fake.script(answer({"detail": "No"}, status=status))
    url = fake.url if service == SearchService.TAVILY else host.url

    with pytest.raises(CallFailed) as failed:
        await search_at(client, url, service, query="elbe")

    assert str(failed.value) == sentence
    assert not failed.value.may_have_run


@pytest.mark.parametrize("query", [None, "", " \n ", 5, "x" * 401])
async def test_invalid_query_is_not_sent(client: Client, host: RemoteHost, query: object) -> None:
    with pytest.raises(CallFailed):
        await search_at(client, host.url, query=query)

    assert host.requests == []


# --- reading --------------------------------------------------------------------------------------


async def read(client: Client, url: object, **arguments: object) -> CallOutput:
    return await read_page(request(client, ToolKind.PAGE, {"url": url, **arguments}))


HTML = {"Content-Type": "text/html; charset=utf-8"}


async def test_page_is_read_and_is_a_source(client: Client, host: RemoteHost) -> None:
    url = host.serve(
        "/p?q=1", "<title>Elbe</title><p>A river in Bad Schandau, über 1000 km</p>".encode(), **HTML
    )

    output = await read(client, f"{url}#part")

    assert output.text.endswith("Elbe\n\nA river in Bad Schandau, über 1000 km")
    assert [(source.title, source.url) for source in output.sources] == [("Elbe", url)]
    [(path, headers)] = host.requests
    assert path == "/p?q=1"
    assert not {"Cookie", "Authorization"} & set(headers)


async def test_long_page_is_read_in_parts(client: Client, host: RemoteHost) -> None:
    words = "".join(f"<p>{number:09}</p>" for number in range(5000))
    url = host.serve("/long", words.encode(), **HTML)

    first = await read(client, url)
    second = await read(client, url, start=results.PART_CHARACTERS)

    assert f"start={results.PART_CHARACTERS}" in first.text
    assert len(first.text) < results.PART_CHARACTERS + 500
    assert second.text.endswith("000004999")
    with pytest.raises(CallFailed, match="ends before"):
        await read(client, url, start=10**9)


async def test_redirects_are_followed_to_addresses_that_are_checked_again(
    client: Client, host: RemoteHost
) -> None:
    host.serve("/end", b"<p>The end</p>", **HTML)
    host.serve("/two", b"", status=301, Location="/end")
    start = host.serve("/one", b"", status=302, Location=f"{host.url}/two")

    output = await read(client, start)

    assert output.text.endswith("The end")
    assert output.sources[0].url == f"{host.url}/end"
    assert host.paths == ["/one", "/two", "/end"]


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:9/",
        "http://[::1]/",
        "http://2130706433:1/",
        "file:///etc/passwd",
        "http://user:secret@a.example/",
        "",
    ],
)
async def test_redirect_to_another_network_is_refused(
    client: Client, host: RemoteHost, target: str
) -> None:
    start = host.serve("/one", b"secret", status=302, **({"Location": target} if target else {}))

    with pytest.raises(CallFailed) as failed:
        await read(client, start)

    assert "aren’t allowed" in str(failed.value) or str(failed.value) == page.BAD_REDIRECT
    assert host.paths == ["/one"]


async def test_endless_redirects_end(client: Client, host: RemoteHost) -> None:
    start = host.serve("/one", b"", status=302, Location="/one")

    with pytest.raises(CallFailed, match="too often"):
        await read(client, start)

    assert len(host.paths) == page.MOST_REDIRECTS + 1


async def test_private_address_is_refused_whatever_servers_may_have(
    client: Client, host: RemoteHost, settings: Settings
) -> None:
    url = host.serve("/p", b"secret", **HTML)
    settings.PICTURE_PRIVATE_NETWORKS = ""
    settings.UPSTREAM_PRIVATE_NETWORKS = "any"

    with pytest.raises(CallFailed, match="aren’t allowed"):
        await read(client, url)

    assert host.paths == []


@pytest.mark.parametrize(
    "url",
    [None, 5, "", "example.com", "ftp://a.example/", "http://", "http://u:p@a.example/",
     "javascript:alert(1)", "http://a.example/\nx", "http://a.example:port/", "http://" + "a" * 3000],
)  # fmt: skip
async def test_other_addresses_are_refused(client: Client, url: object) -> None:
    with pytest.raises(CallFailed) as failed:
        await read(client, url)

    assert str(failed.value) == page.BAD_ADDRESS


async def test_other_files_are_not_read(client: Client, host: RemoteHost) -> None:
    picture = host.serve("/a.png", b"\x89PNG\x00", **{"Content-Type": "image/png"})
    text = host.serve(
        "/a.txt", "grün".encode("latin-1"), **{"Content-Type": "text/plain; charset=latin-1"}
    )
    gone = f"{host.url}/gone"
    huge = host.serve("/huge", b"x" * 200_000, **HTML)

    with pytest.raises(CallFailed, match="image/png"):
        await read(client, picture)
    with pytest.raises(CallFailed, match="larger"):
        await read(client, huge)
    assert (await read(client, text)).text.endswith("grün")
    output = await read(client, gone)
    assert output.is_error
    assert output.sources == ()
