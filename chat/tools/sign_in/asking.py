"""Questions that a request of a person asks strangers' servers: bounded in time as a whole, and in number.

Each such request holds one of the few places of a web process (`MAX_CONCURRENT_REQUESTS`) while it waits.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar

from asgiref.sync import async_to_sync
from django.utils.translation import gettext_noop

from chat.tools.sign_in.documents import UNREACHABLE
from chat.tools.sign_in.metadata import SignInFailed
from chat.upstreams.client import Client
from chat.upstreams.configured import client_for_found

Answer = TypeVar("Answer")

# The time of all questions of one request together.
ASK_SECONDS = 8.0
# Requests of this process that may ask servers at the same time, and how long another one waits for its turn.
AT_ONCE = 2
TURN_SECONDS = 1.0

BUSY = gettext_noop("Other people are signing in right now. Try again in a moment.")

_turns = threading.Condition()
_asked: set[str] = set()


class Asking:
    """The questions of one request about the tool server at this address. Its documents lead to private addresses only
    if the server is at one itself."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._end = monotonic() + ASK_SECONDS

    def run(self, question: Callable[[Client], Awaitable[Answer]]) -> Answer:
        """Raises ``SignInFailed``, also when the time of the request is over."""
        return async_to_sync(self._ask)(question)

    async def _ask(self, question: Callable[[Client], Awaitable[Answer]]) -> Answer:
        try:
            async with asyncio.timeout(self._end - monotonic()):
                async with await client_for_found(self.server) as client:
                    return await question(client)
        except TimeoutError:
            raise SignInFailed(UNREACHABLE) from None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Only one request asks about a server, and ``AT_ONCE`` ask at all. Raises ``SignInFailed`` for others."""
        with _turns:
            if not _turns.wait_for(self._is_free, TURN_SECONDS):
                raise SignInFailed(BUSY)
            _asked.add(self.server)
        try:
            yield
        finally:
            with _turns:
                _asked.discard(self.server)
                _turns.notify_all()

    def _is_free(self) -> bool:
        return self.server not in _asked and len(_asked) < AT_ONCE
