"""Pages stand in line: so many are made at once, and who leaves the line holds nobody up."""

import asyncio
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIHandler

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
def kitchen(monkeypatch: pytest.MonkeyPatch) -> Kitchen:
    kitchen = Kitchen()

    async def make(handler: object, request: Any) -> Any:
        return await kitchen.make(request)

    monkeypatch.setattr(ASGIHandler, "run_get_response", make)
    return kitchen


async def until_settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def asked(pages: Pages, *requests: str) -> list["asyncio.Task[Any]"]:
    return [asyncio.ensure_future(pages.run_get_response(one)) for one in requests]  # type: ignore[arg-type]


async def test_no_more_pages_are_made_at_once_than_allowed(kitchen: Kitchen) -> None:
    making = asked(Pages(2), "first", "second", "third")
    await until_settled()
    assert kitchen.begun == ["first", "second"]

    kitchen.may_end.set()

    assert await asyncio.gather(*making) == ["first", "second", "third"]


async def test_whoever_leaves_the_line_keeps_nobody_waiting(kitchen: Kitchen) -> None:
    making = asked(Pages(1), "first", "second", "third")
    await until_settled()

    making[1].cancel()
    kitchen.may_end.set()

    assert await making[2] == "third"
    assert kitchen.begun == ["first", "third"]


async def test_without_a_bound_all_are_made_together(kitchen: Kitchen) -> None:
    making = asked(Pages(0), "first", "second", "third")
    await until_settled()
    assert len(kitchen.begun) == 3

    kitchen.may_end.set()

    await asyncio.gather(*making)
