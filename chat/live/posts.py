"""Forms that a tab posts over its websocket: the messages, and their order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import msgspec

from chat.live.access_monitor import Identity

logger = logging.getLogger(__name__)

# A page posts one form after the other.
MOST_WAITING = 8


class Post(msgspec.Struct, tag="post"):
    """A form as a page would post it over HTTP: its address and fields, and the page's headers and
    cookies. ``id`` is repeated in the answer."""

    id: int
    action: str
    fields: list[tuple[str, str]]
    headers: dict[str, str] = {}
    cookie: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """The person and the scope of the handshake. The session is checked with each form."""

    identity: Identity
    scope: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunRun:
    """The run that a form has queued, in a conversation that the visitor may read, at this revision."""

    run_id: UUID
    run_pk: int
    conversation_id: UUID
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response of the form's view."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    begun: BegunRun | None = None

    def message(self, id: int, *, follows: UUID | None = None) -> dict[str, object]:
        """The message to the page. ``follows`` is a run whose frames it gets from the first one on."""
        shown = {"answer": id, "status": self.status, "headers": self.headers, "body": self.body}
        return shown | ({"follows": follows.hex} if follows else {})


Respond = Callable[[Post, Visitor], Awaitable[Answer]]

_respond: list[Respond] = []


def use_respond(respond: Respond) -> None:
    """``respond`` answers the forms of all tabs."""
    _respond[:] = [respond]


async def respond_to(post: Post, visitor: Visitor) -> Answer:
    return await _respond[0](post, visitor)


class PostQueue:
    """The forms of one tab, handled in order and one at a time, beside its other messages."""

    def __init__(self, handle: Callable[[Post], Awaitable[None]]) -> None:
        self._handle = handle
        self._waiting: list[Post] = []
        self._working: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """True if a form is being handled."""
        return self._working is not None and not self._working.done()

    def add(self, post: Post) -> bool:
        """Returns whether there was room."""
        if len(self._waiting) >= MOST_WAITING:
            return False
        self._waiting.append(post)
        if not self.is_busy:
            self._working = asyncio.create_task(self._work(), name="posts")
        return True

    async def _work(self) -> None:
        while self._waiting:
            await self._handle(self._waiting.pop(0))

    async def close(self) -> None:
        """Drops waiting forms. The thread finishes the current form without an answer: the page
        sends it again, and its key makes it count once."""
        self._waiting.clear()
        if self._working is not None:
            self._working.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._working
