"""Pages are queued: so many are made at once, and one that is cancelled delays no other."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.core import signals
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import override_settings
from django.urls import path, reverse
from django.utils.functional import SimpleLazyObject

from chat.core import request_queue
from chat.core.request_queue import RequestQueue
from project.server.request_pool import RequestPool

# A failing test must not leave its threads behind.
HELD_SECONDS = 30


class PageMaker:
    """Stands for Django: makes pages, each when the test lets it."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_end = asyncio.Event()

    async def make(self, request: Any) -> str:
        self.begun.append(request.path_info)
        await self.may_end.wait()
        return str(request.path_info)

    def pages(self, at_once: int) -> RequestPool:
        pages = RequestPool(RequestQueue(at_once), message_urls=settings.MESSAGE_URLS)
        pages._make_in_thread = self.make  # type: ignore[assignment, method-assign]
        return pages


@pytest.fixture
def maker() -> PageMaker:
    return PageMaker()


async def until_settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def request_all(
    pages: RequestPool, *addresses: str, method: str = "GET"
) -> list["asyncio.Task[Any]"]:
    requests: list[Any] = [
        SimpleNamespace(path_info=address, method=method, COOKIES={}, META={})
        for address in addresses
    ]
    return [asyncio.ensure_future(pages.run_get_response(request)) for request in requests]


async def test_no_more_pages_are_made_at_once_than_allowed(maker: PageMaker) -> None:
    making = request_all(maker.pages(2), "first", "second", "third")
    await until_settled()
    assert maker.begun == ["first", "second"]

    maker.may_end.set()

    assert await asyncio.gather(*making) == ["first", "second", "third"]


async def test_cancelled_page_delays_no_other(maker: PageMaker) -> None:
    making = request_all(maker.pages(1), "first", "second", "third")
    await until_settled()

    making[1].cancel()
    maker.may_end.set()

    assert await making[2] == "third"
    assert maker.begun == ["first", "third"]


async def test_unbounded_pages_are_made_at_once(maker: PageMaker) -> None:
    making = request_all(maker.pages(0), "first", "second", "third")
    await until_settled()
    assert len(maker.begun) == 3

    maker.may_end.set()

    await asyncio.gather(*making)


async def test_stop_does_not_wait_behind_pages(maker: PageMaker) -> None:
    pages, stop = maker.pages(4), reverse("run_stop", args=[uuid4()])
    waiting = request_all(pages, *(f"page-{number}" for number in range(200)))
    await until_settled()

    stopping = request_all(pages, stop, method="POST")
    await until_settled()

    # There is a place for messages alone.
    assert maker.begun[4:] == [stop]
    maker.may_end.set()
    await asyncio.gather(*stopping, *waiting)


# --- with Django --------------------------------------------------------------------------------

# The threads that took part in making a page, and how often a request ended.
threads: list[str] = []
ended: list[object] = []


def note(respond: Any) -> Any:
    """A middleware."""

    def noting(request: HttpRequest) -> Any:
        threads.append(threading.current_thread().name)
        return respond(request)

    return noting


# The requests that were made, as long as they are referenced.
requests: weakref.WeakSet[HttpRequest] = weakref.WeakSet()


def hang_on(respond: Any) -> Any:
    """A middleware, as those of the sessions and of the messages."""

    def hanging(request: HttpRequest) -> Any:
        requests.add(request)
        request.user = SimpleLazyObject(lambda: request.session)  # type: ignore[assignment]
        return respond(request)

    return hanging


def whole(request: HttpRequest) -> HttpResponse:
    threads.append(threading.current_thread().name)
    return HttpResponse(request.POST.get("word", request.body))


def in_pieces(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(iter(["one ", "two"]))


def broken(request: HttpRequest) -> HttpResponse:
    raise ZeroDivisionError


# Open while views may end.
gate = threading.Event()


def held(request: HttpRequest) -> HttpResponse:
    threads.append(threading.current_thread().name)
    gate.wait(HELD_SECONDS)
    return HttpResponse(b"held")


urlpatterns = [
    path("whole/", whole),
    path("held/", held),
    path("in-pieces/", in_pieces),
    path("broken/", broken),
]


@pytest.fixture
def pages() -> Iterator[RequestPool]:
    def note_end(**_: object) -> None:
        ended.append(len(threads))

    threads.clear()
    ended.clear()
    signals.request_finished.connect(note_end)
    with override_settings(
        ROOT_URLCONF=__name__,
        MIDDLEWARE=[
            f"{__name__}.note",
            f"{__name__}.hang_on",
            "django.middleware.common.CommonMiddleware",
        ],
        DEBUG_PROPAGATE_EXCEPTIONS=False,
    ):
        yield RequestPool(RequestQueue(2), message_urls="/whole/|/held/")
    signals.request_finished.disconnect(note_end)


def request_of(pages: RequestPool, address: str, method: str = "GET") -> ApplicationCommunicator:
    headers = [(b"host", b"testserver"), (b"content-type", b"application/x-www-form-urlencoded")]
    scope = {"type": "http", "method": method, "path": address, "headers": headers}
    return ApplicationCommunicator(pages, {**scope, "query_string": b"", "http_version": "1.1"})


async def answer_to(exchange: ApplicationCommunicator) -> tuple[int, bytes]:
    start = await exchange.receive_output()
    body = b""
    while True:
        part = await exchange.receive_output()
        body += part.get("body", b"")
        if not part.get("more_body"):
            break
    await exchange.wait()
    return start["status"], body


async def test_each_page_is_made_in_one_reused_thread(pages: RequestPool) -> None:
    for _ in range(5):
        exchange = request_of(pages, "/whole/", "POST")
        await exchange.send_input({"type": "http.request", "body": b"word=he", "more_body": True})
        await exchange.send_input({"type": "http.request", "body": b"llo"})
        assert await answer_to(exchange) == (200, b"hello")

    pairs = list(zip(threads[::2], threads[1::2], strict=True))
    assert len(pairs) == 5
    assert all(one == other for one, other in pairs)
    assert len(set(threads)) <= 2
    assert all(name.startswith("pages") for name in threads)
    # Each finished once, and before the next began.
    assert ended == [2, 4, 6, 8, 10]


async def test_message_is_answered_while_pages_hold_all_places(pages: RequestPool) -> None:
    gate.clear()
    waiting = [request_of(pages, "/held/") for _ in range(4)]
    for exchange in waiting:
        await exchange.send_input({"type": "http.request"})
    message = request_of(pages, "/whole/", "POST")
    await message.send_input({"type": "http.request", "body": b"word=now"})

    assert await answer_to(message) == (200, b"now")

    gate.set()
    assert [await answer_to(exchange) for exchange in waiting] == [(200, b"held")] * 4


async def test_message_too_many_is_told_when_to_come_again(
    pages: RequestPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_queue, "MOST_WAITING_MESSAGES", 0)
    gate.clear()
    held = [request_of(pages, "/held/", "POST") for _ in range(3)]
    for exchange in held:
        await exchange.send_input({"type": "http.request"})
    while len([name for name in threads if name.startswith("pages")]) < 6:
        await asyncio.sleep(0.01)
    message = request_of(pages, "/whole/", "POST")
    await message.send_input({"type": "http.request", "body": b"word=now"})

    start = await message.receive_output()

    assert start["status"] == 503
    headers = {name.lower(): value for name, value in start["headers"]}
    assert int(headers[b"retry-after"]) >= 1
    gate.set()
    assert [await answer_to(exchange) for exchange in held] == [(200, b"held")] * 3


@pytest.mark.parametrize(
    ("address", "status", "words"),
    [("/in-pieces/", 200, b"one two"), ("/broken/", 500, b"<!doctype html>")],
)
async def test_request_finishes_once(
    pages: RequestPool, address: str, status: int, words: bytes
) -> None:
    exchange = request_of(pages, address)
    await exchange.send_input({"type": "http.request"})

    found, body = await answer_to(exchange)

    assert found == status
    assert body.startswith(words)
    assert len(ended) == 1


async def test_answered_request_is_freed_at_once(pages: RequestPool) -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            exchange = request_of(pages, "/whole/")
            await exchange.send_input({"type": "http.request"})
            await answer_to(exchange)
            del exchange
        # The thread that made an answer, and the event loop, let go of it a moment later. What only
        # the collector could free would stay for ever: it is switched off.
        async with asyncio.timeout(60):
            while len(requests):
                await asyncio.sleep(0.01)
    finally:
        gc.enable()


async def test_client_that_leaves_while_sending_is_not_answered(pages: RequestPool) -> None:
    exchange = request_of(pages, "/whole/", "POST")
    await exchange.send_input({"type": "http.request", "body": b"wo", "more_body": True})
    await exchange.send_input({"type": "http.disconnect"})
    await exchange.wait()

    assert await exchange.receive_nothing(timeout=0)
    assert threads == []


async def test_client_that_leaves_before_the_answer_frees_its_place(
    pages: RequestPool, maker: PageMaker
) -> None:
    pages._make_in_thread = maker.make  # type: ignore[assignment, method-assign]
    for _ in range(4):
        exchange = request_of(pages, "/whole/")
        await exchange.send_input({"type": "http.request"})
        await until_settled()
        await exchange.send_input({"type": "http.disconnect"})
        await exchange.wait()
        assert await exchange.receive_nothing(timeout=0)

    assert len(maker.begun) == 4
