"""Pages stand in line: so many are made at once, and who leaves the line holds nobody up."""

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

from project import asgi
from project.pages import (
    GIVE_WAY_SECONDS,
    MOST_PATIENCE_SECONDS,
    PATIENCE_BACK_PER_SECOND,
    URGENT_AT_ONCE,
    Pages,
)

# A test that fails must not leave its threads behind.
HELD_SECONDS = 30


class Kitchen:
    """Stands for Django: makes pages, each when it is told to."""

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

    def pages(self, at_once: int) -> Pages:
        pages = Pages(at_once, urgent_addresses="stop.*")
        pages._lane.make_in_thread = self.make  # type: ignore[assignment, method-assign]
        pages._urgent_lane.make_in_thread = self.make_urgently  # type: ignore[assignment, method-assign]
        return pages


class Clock:
    """Time passes where somebody waits for what does not come."""

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
def kitchen() -> Kitchen:
    return Kitchen()


async def until_settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def asked(kitchen: Kitchen, at_once: int, *addresses: str) -> list["asyncio.Task[Any]"]:
    return asked_of(kitchen.pages(at_once), *addresses)


def asked_of(pages: Pages, *addresses: str) -> list["asyncio.Task[Any]"]:
    requests: list[Any] = [SimpleNamespace(path_info=address) for address in addresses]
    return [asyncio.ensure_future(pages.run_get_response(request)) for request in requests]


async def test_no_more_pages_are_made_at_once_than_allowed(kitchen: Kitchen) -> None:
    making = asked(kitchen, 2, "first", "second", "third")
    await until_settled()
    assert kitchen.begun == ["first", "second"]

    kitchen.may_end.set()

    assert await asyncio.gather(*making) == ["first", "second", "third"]


async def test_whoever_leaves_the_line_keeps_nobody_waiting(kitchen: Kitchen) -> None:
    making = asked(kitchen, 1, "first", "second", "third")
    await until_settled()

    making[1].cancel()
    kitchen.may_end.set()

    assert await making[2] == "third"
    assert kitchen.begun == ["first", "third"]


async def test_without_a_bound_all_are_made_together(kitchen: Kitchen) -> None:
    making = asked(kitchen, 0, "first", "second", "third")
    await until_settled()
    assert len(kitchen.begun) == 3

    kitchen.may_end.set()

    await asyncio.gather(*making)


# --- urgent ones --------------------------------------------------------------------------------


async def test_what_is_urgent_passes_everybody_in_line(kitchen: Kitchen) -> None:
    making = asked(kitchen, 1, "first", "second", "third", "stop")
    await until_settled()
    assert kitchen.begun == ["first", "stop"]

    kitchen.may_end_urgently.set()

    assert await making[3] == "stop"
    assert not making[0].done()
    kitchen.may_end.set()
    await asyncio.gather(*making)


async def test_no_more_urgent_ones_are_made_at_once_than_have_threads(kitchen: Kitchen) -> None:
    addresses = [f"stop-{number}" for number in range(URGENT_AT_ONCE + 2)]

    making = asked(kitchen, 1, *addresses)
    await until_settled()

    assert kitchen.begun == addresses[:URGENT_AT_ONCE]
    kitchen.may_end_urgently.set()
    assert await asyncio.gather(*making) == addresses


async def test_a_page_does_not_begin_beside_an_urgent_one(kitchen: Kitchen) -> None:
    making = asked(kitchen, 1, "stop", "stop-too", "page")
    await until_settled()
    assert kitchen.begun == ["stop", "stop-too"]

    kitchen.may_end_urgently.set()
    kitchen.may_end.set()

    await asyncio.gather(*making)
    assert kitchen.begun == ["stop", "stop-too", "page"]


async def test_an_urgent_one_that_nobody_wants_any_more_keeps_no_page_waiting(
    kitchen: Kitchen,
) -> None:
    making = asked(kitchen, 1, "stop", "page")
    await until_settled()

    making[0].cancel()
    kitchen.may_end.set()

    assert await making[1] == "page"


async def test_pages_give_way_for_so_long_and_no_longer(
    kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("project.pages.GIVE_WAY_SECONDS", 0)
    making = asked(kitchen, 1, "stop", "page")
    kitchen.may_end.set()

    assert await making[1] == "page"
    assert not making[0].done()

    kitchen.may_end_urgently.set()
    await making[0]


async def test_whoever_is_urgent_without_pause_holds_pages_up_for_a_small_share_of_the_time(
    kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", clock.read)
    monkeypatch.setattr(asyncio, "wait", clock.wait)
    pages = kitchen.pages(1)
    lane = pages._urgent_lane
    kitchen.may_end.set()
    without_end = asked_of(pages, "stop")
    await until_settled()

    # The first pages are held up as long as a page can be; then almost none is.
    for _ in range(1000):
        await lane.give_way()
        clock.now += 0.01

    assert clock.waited == pytest.approx(MOST_PATIENCE_SECONDS + 10 * PATIENCE_BACK_PER_SECOND, 0.1)
    assert clock.longest == GIVE_WAY_SECONDS

    # Who gave way for long gives way again when it was quiet for long.
    before = clock.waited
    clock.now += 60
    await lane.give_way()

    assert clock.waited - before == GIVE_WAY_SECONDS
    kitchen.may_end_urgently.set()
    await asyncio.gather(*without_end)


def test_to_stop_an_answer_is_urgent_and_what_else_is_done_there_is_not() -> None:
    ids = {"public_id": uuid4()}

    urgent = re.compile(settings.URGENT_ADDRESSES)

    assert urgent.fullmatch(reverse("run_stop", kwargs=ids))
    assert not urgent.fullmatch(reverse("run_details", kwargs=ids))
    assert asgi.pages._urgent_addresses.pattern == settings.URGENT_ADDRESSES


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


# The requests that were made, for as long as somebody holds them.
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
def pages() -> Iterator[Pages]:
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
        yield Pages(2, urgent_addresses="/urgent/")
    signals.request_finished.disconnect(note_end)


def request_of(pages: Pages, address: str, method: str = "GET") -> ApplicationCommunicator:
    headers = [(b"host", b"testserver"), (b"content-type", b"application/x-www-form-urlencoded")]
    scope = {"type": "http", "method": method, "path": address, "headers": headers}
    return ApplicationCommunicator(pages, {**scope, "query_string": b"", "http_version": "1.1"})


async def answer_to(asking: ApplicationCommunicator) -> tuple[int, bytes]:
    start = await asking.receive_output()
    body = b""
    while True:
        part = await asking.receive_output()
        body += part.get("body", b"")
        if not part.get("more_body"):
            break
    await asking.wait()
    return start["status"], body


async def test_one_thread_makes_a_page_and_makes_the_next_one(pages: Pages) -> None:
    for _ in range(5):
        asking = request_of(pages, "/whole/", "POST")
        await asking.send_input({"type": "http.request", "body": b"word=he", "more_body": True})
        await asking.send_input({"type": "http.request", "body": b"llo"})
        assert await answer_to(asking) == (200, b"hello")

    pairs = list(zip(threads[::2], threads[1::2], strict=True))
    assert len(pairs) == 5
    assert all(one == other for one, other in pairs)
    assert len(set(threads)) <= 2
    assert all(name.startswith("pages") for name in threads)
    # Each ended once, and in its turn.
    assert ended == [2, 4, 6, 8, 10]


async def test_an_urgent_one_is_answered_while_all_threads_of_the_pages_are_taken(
    pages: Pages,
) -> None:
    gate.clear()
    waiting = [request_of(pages, "/held/") for _ in range(4)]
    for asking in waiting:
        await asking.send_input({"type": "http.request"})
    urgent = request_of(pages, "/urgent/", "POST")
    await urgent.send_input({"type": "http.request", "body": b"word=now"})

    assert await answer_to(urgent) == (200, b"now")

    assert {name for name in threads if name.startswith("urgent")}
    assert ended == [ended[0]]
    gate.set()
    assert [await answer_to(asking) for asking in waiting] == [(200, b"held")] * 4


@pytest.mark.parametrize(
    ("address", "status", "words"),
    [("/in-pieces/", 200, b"one two"), ("/broken/", 500, b"<!doctype html>")],
)
async def test_whatever_is_answered_a_request_ends_once(
    pages: Pages, address: str, status: int, words: bytes
) -> None:
    asking = request_of(pages, address)
    await asking.send_input({"type": "http.request"})

    found, body = await answer_to(asking)

    assert found == status
    assert body.startswith(words)
    assert len(ended) == 1


async def test_a_request_that_is_answered_is_gone_at_once(pages: Pages) -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            asking = request_of(pages, "/whole/")
            await asking.send_input({"type": "http.request"})
            await answer_to(asking)
            del asking
        # The loop's own hold on what has ended.
        await asyncio.sleep(0)

        assert len(requests) == 0
    finally:
        gc.enable()


async def test_who_goes_away_while_sending_is_not_answered(pages: Pages) -> None:
    asking = request_of(pages, "/whole/", "POST")
    await asking.send_input({"type": "http.request", "body": b"wo", "more_body": True})
    await asking.send_input({"type": "http.disconnect"})
    await asking.wait()

    assert await asking.receive_nothing()
    assert threads == []


async def test_who_goes_away_before_the_answer_keeps_no_place_in_line(
    pages: Pages, kitchen: Kitchen
) -> None:
    pages._lane.make_in_thread = kitchen.make  # type: ignore[assignment, method-assign]
    for _ in range(4):
        asking = request_of(pages, "/whole/")
        await asking.send_input({"type": "http.request"})
        await until_settled()
        await asking.send_input({"type": "http.disconnect"})
        await asking.wait()
        assert await asking.receive_nothing()

    assert len(kitchen.begun) == 4
