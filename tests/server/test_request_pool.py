"""Pages are queued: so many are made at once, and one that is cancelled delays no other."""

import asyncio
import gc
import re
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
from project import asgi
from project.server.request_pool import (
    GIVE_WAY_SECONDS,
    MOST_PATIENCE_SECONDS,
    PATIENCE_BACK_PER_SECOND,
    PRIORITY_THREADS,
    RequestPool,
)

# A failing test must not leave its threads behind.
HELD_SECONDS = 30


class PageMaker:
    """Stands for Django: makes pages, each when the test lets it."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_end = asyncio.Event()
        self.may_end_urgently = asyncio.Event()

    async def make(self, request: Any) -> str:
        self.begun.append(request.path_info)
        await self.may_end.wait()
        return str(request.path_info)

    async def make_urgently(self, request: Any) -> str:
        self.begun.append(request.path_info)
        await self.may_end_urgently.wait()
        return str(request.path_info)

    def pages(self, at_once: int) -> RequestPool:
        pages = RequestPool(RequestQueue(at_once), priority_urls="stop.*")
        pages._lane.make_in_thread = self.make  # type: ignore[assignment, method-assign]
        pages._priority_worker.make_in_thread = self.make_urgently  # type: ignore[assignment, method-assign]
        return pages


class Clock:
    """A clock that moves on by the time-out of each wait."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waited = 0.0
        self.longest = 0.0

    def read(self) -> float:
        return self.now

    async def wait(self, _: object, *, timeout: float) -> None:
        self.now += timeout
        self.waited += timeout
        self.longest = max(self.longest, timeout)


@pytest.fixture
def maker() -> PageMaker:
    return PageMaker()


async def until_settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def request_all(pages: RequestPool, *addresses: str) -> list["asyncio.Task[Any]"]:
    requests: list[Any] = [SimpleNamespace(path_info=address) for address in addresses]
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


# --- urgent ones --------------------------------------------------------------------------------


async def test_urgent_page_passes_the_queue(maker: PageMaker) -> None:
    making = request_all(maker.pages(1), "first", "second", "third", "stop")
    await until_settled()
    assert maker.begun == ["first", "stop"]

    maker.may_end_urgently.set()

    assert await making[3] == "stop"
    assert not making[0].done()
    maker.may_end.set()
    await asyncio.gather(*making)


async def test_urgent_pages_are_bounded_too(maker: PageMaker) -> None:
    addresses = [f"stop-{number}" for number in range(PRIORITY_THREADS + 2)]

    making = request_all(maker.pages(1), *addresses)
    await until_settled()

    assert maker.begun == addresses[:PRIORITY_THREADS]
    maker.may_end_urgently.set()
    assert await asyncio.gather(*making) == addresses


async def test_page_waits_for_urgent_ones(maker: PageMaker) -> None:
    making = request_all(maker.pages(1), "stop", "stop-too", "page")
    await until_settled()
    assert maker.begun == ["stop", "stop-too"]

    maker.may_end_urgently.set()
    maker.may_end.set()

    await asyncio.gather(*making)
    assert maker.begun == ["stop", "stop-too", "page"]


async def test_cancelled_urgent_page_delays_no_page(
    maker: PageMaker,
) -> None:
    making = request_all(maker.pages(1), "stop", "page")
    await until_settled()

    making[0].cancel()
    maker.may_end.set()

    assert await making[1] == "page"


async def test_page_waits_for_urgent_ones_up_to_a_limit(
    maker: PageMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("project.server.request_pool.GIVE_WAY_SECONDS", 0)
    making = request_all(maker.pages(1), "stop", "page")
    maker.may_end.set()

    assert await making[1] == "page"
    assert not making[0].done()

    maker.may_end_urgently.set()
    await making[0]


async def test_endless_urgent_pages_delay_others_a_tenth_of_the_time(
    maker: PageMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", clock.read)
    monkeypatch.setattr(asyncio, "wait", clock.wait)
    pages = maker.pages(1)
    lane = pages._priority_worker
    maker.may_end.set()
    endless = request_all(pages, "stop")
    await until_settled()

    # The first pages wait as long as a page can; later ones hardly at all.
    for _ in range(1000):
        await lane.give_way()
        clock.now += 0.01

    assert clock.waited == pytest.approx(MOST_PATIENCE_SECONDS + 10 * PATIENCE_BACK_PER_SECOND, 0.1)
    assert clock.longest == GIVE_WAY_SECONDS

    # After a quiet minute a page waits again.
    before = clock.waited
    clock.now += 60
    await lane.give_way()

    assert clock.waited - before == GIVE_WAY_SECONDS
    maker.may_end_urgently.set()
    await asyncio.gather(*endless)


def test_stopping_an_answer_is_urgent() -> None:
    ids = {"public_id": uuid4()}

    urgent = re.compile(settings.PRIORITY_URLS)

    assert urgent.fullmatch(reverse("run_stop", kwargs=ids))
    assert not urgent.fullmatch(reverse("run_details", kwargs=ids))
    assert asgi.request_pool._priority_urls.pattern == settings.PRIORITY_URLS


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
    path("urgent/", whole),
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
        yield RequestPool(RequestQueue(2), priority_urls="/urgent/", message_urls="/whole/|/held/")
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


async def test_urgent_page_is_answered_while_all_threads_are_busy(
    pages: RequestPool,
) -> None:
    gate.clear()
    waiting = [request_of(pages, "/held/") for _ in range(4)]
    for exchange in waiting:
        await exchange.send_input({"type": "http.request"})
    urgent = request_of(pages, "/urgent/", "POST")
    await urgent.send_input({"type": "http.request", "body": b"word=now"})

    assert await answer_to(urgent) == (200, b"now")

    assert {name for name in threads if name.startswith("urgent")}
    assert ended == [ended[0]]
    gate.set()
    assert [await answer_to(exchange) for exchange in waiting] == [(200, b"held")] * 4


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
    pages._lane.make_in_thread = maker.make  # type: ignore[assignment, method-assign]
    for _ in range(4):
        exchange = request_of(pages, "/whole/")
        await exchange.send_input({"type": "http.request"})
        await until_settled()
        await exchange.send_input({"type": "http.disconnect"})
        await exchange.wait()
        assert await exchange.receive_nothing(timeout=0)

    assert len(maker.begun) == 4
