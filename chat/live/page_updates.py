"""Updates of conversation pages: what has changed around the live answers, rendered once for all pages
that show the same to people with the same rights, and sent over their live connections.

A page says what it shows (`ShownPage`) whenever that changes, so the server sends what is new without
being asked. The feature that owns the page renders: `use_renderer`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol
from uuid import UUID

import msgspec

from chat.core import metrics
from chat.core.threads import readers

logger = logging.getLogger(__name__)


def _plain(text: object) -> str:
    """Templates return a subclass of ``str``, which the encoder does not know."""
    if isinstance(text, str):
        return text + ""
    raise TypeError(type(text).__name__)


_encoder = msgspec.json.Encoder(enc_hook=_plain)


def encode(message: object) -> str:
    """A message to a page, or a part of one."""
    return _encoder.encode(message).decode()


# In the HTML of an update these stand for the viewer's own CSRF token, and for an idempotency key that
# no other page has. Nobody can know them, so no text of a conversation contains one.
CSRF_PLACE = secrets.token_hex(16)
KEY_PLACE = secrets.token_hex(16)
# What a page says of itself is longer only if it shows hundreds of open questions.
MOST_STATE_BYTES = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPage:
    """What a tab shows of its conversation. ``state`` is JSON for the renderer; an update names the
    ``number`` of the state that it was made for, and fits no other."""

    number: int
    revision: int
    state: bytes


class PageReader(NamedTuple):
    """A person and the page that they look at. ``zone`` is the name of their time zone, if it is known."""

    person: int
    state: bytes
    zone: str = ""


@dataclass(frozen=True, kw_only=True)
class PageUpdate:
    """Patches that bring a page to this revision, with the places of what each viewer has for itself."""

    revision: int
    html: str

    @cached_property
    def _encoded(self) -> list[str]:
        """As JSON, around the places of keys."""
        return encode(self.html).split(KEY_PLACE)

    def message(self, room: UUID, number: int, csrf_token: str) -> str:
        first, *others = self._encoded
        parts = [first, *(f"{uuid.uuid4()}{other}" for other in others)]
        content = "".join(parts).replace(CSRF_PLACE, csrf_token)
        about = f'"room":"{room.hex}","revision":{self.revision},"page":{number}'
        return f'{{{about},"content":{content}}}'


# For each reader the update, or ``None`` if the page has to ask for it. Readers without access are
# left out. Called in a database thread.
Render = Callable[[UUID, Sequence[PageReader]], Mapping[PageReader, PageUpdate | None]]


def _render_nothing(room: UUID, pages: Sequence[PageReader]) -> dict[PageReader, PageUpdate | None]:
    return dict.fromkeys(pages)


_render: Render = _render_nothing


def use_renderer(render: Render) -> None:
    """Sets who renders the updates. `chat.apps` calls it once."""
    global _render
    _render = render


class PageViewer(Protocol):
    """A connection whose page may be updated. Its methods are called on the event loop."""

    @property
    def page_to_update(self) -> ShownPage | None:
        """The page, if it still waits for an update."""
        ...

    def reader_of(self, page: ShownPage) -> PageReader: ...

    def on_update(self, page: ShownPage, update: PageUpdate | None) -> None: ...


@dataclass
class PageUpdates:
    """Renders one conversation after the other in a thread. Changes that come meanwhile are rendered
    together."""

    _wanted: dict[UUID, set[PageViewer]] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    def want(self, room: UUID, viewer: PageViewer) -> None:
        self._wanted.setdefault(room, set()).add(viewer)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._update_all(), name="page-updates")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _update_all(self) -> None:
        while self._wanted:
            room = next(iter(self._wanted))
            viewers = self._wanted.pop(room)
            try:
                await self._update(room, viewers)
            except Exception:
                logger.exception("page_updates.failed room=%s", room)

    async def _update(self, room: UUID, viewers: set[PageViewer]) -> None:
        pages = {
            viewer: (page, viewer.reader_of(page))
            for viewer in viewers
            if (page := viewer.page_to_update) is not None
        }
        if not pages:
            return
        asked = list(dict.fromkeys(reader for _, reader in pages.values()))
        updates: Mapping[PageReader, PageUpdate | None]
        try:
            updates = await readers.call(_render, room, asked)
        except Exception:
            # The pages ask for the changes, and are told then what is wrong.
            logger.exception("page_updates.failed room=%s", room)
            updates = dict.fromkeys(asked)
        for viewer, (page, reader) in pages.items():
            if reader in updates:
                outcome = "left" if updates[reader] is None else "sent"
                metrics.PAGE_UPDATES.labels("conversation", outcome).inc()
                viewer.on_update(page, updates[reader])


page_updates = PageUpdates()
