"""Pages stand in line: so many are made at once, and who leaves the line holds nobody up."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.core import signals
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import override_settings
from django.urls import path

from project.pages import Pages


class Kitchen:
    """Stands for Django: makes pages, each when it is told to."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_end = asyncio.Event()

    async def make(self, request: str) -> str:
        self.begun.append(request)
        await self.may_end.wait()
        return request


@pytest.fixture
def kitchen() -> Kitchen:
    return Kitchen()


async def until_settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def asked(kitchen: Kitchen, at_once: int, *requests: str) -> list["asyncio.Task[Any]"]:
    pages = Pages(at_once)
    pages._make_in_thread = kitchen.make  # type: ignore[assignment]
    return [asyncio.ensure_future(pages.run_get_response(one)) for one in requests]  # type: ignore[arg-type]


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


def whole(request: HttpRequest) -> HttpResponse:
    threads.append(threading.current_thread().name)
    return HttpResponse(request.POST.get("word", request.body))


def in_pieces(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(iter(["one ", "two"]))


def broken(request: HttpRequest) -> HttpResponse:
    raise ZeroDivisionError


urlpatterns = [path("whole/", whole), path("in-pieces/", in_pieces), path("broken/", broken)]


@pytest.fixture
def pages() -> Iterator[Pages]:
    def note_end(**_: object) -> None:
        ended.append(len(threads))

    threads.clear()
    ended.clear()
    signals.request_finished.connect(note_end)
    with override_settings(
        ROOT_URLCONF=__name__,
        MIDDLEWARE=[f"{__name__}.note", "django.middleware.common.CommonMiddleware"],
        DEBUG_PROPAGATE_EXCEPTIONS=False,
    ):
        yield Pages(2)
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
    pages._make_in_thread = kitchen.make  # type: ignore[assignment]
    for _ in range(4):
        asking = request_of(pages, "/whole/")
        await asking.send_input({"type": "http.request"})
        await until_settled()
        await asking.send_input({"type": "http.disconnect"})
        await asking.wait()
        assert await asking.receive_nothing()

    assert len(kitchen.begun) == 4
