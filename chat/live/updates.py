"""Updates of tabs, rendered in a database thread, once for all tabs that show the same."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, Protocol, TypeVar

from chat.core import metrics
from chat.core.threads import readers

logger = logging.getLogger(__name__)

Subject = TypeVar("Subject", bound=Hashable)
Reader = TypeVar("Reader", bound=Hashable)
Update = TypeVar("Update")
Asked = TypeVar("Asked", bound=Hashable, covariant=True)
Told = TypeVar("Told", contravariant=True)


class Waiting(Protocol[Asked, Told]):
    """A tab that waits for an update. Its methods are called on the event loop."""

    def reader(self) -> Asked | None:
        """The data that the update depends on, at the moment of rendering; ``None`` if the tab no longer waits."""
        ...

    def tell(self, update: Told | None) -> None:
        """Sends an update; ``None`` means that the tab has to request it."""
        ...


@dataclass
class Updates(Generic[Subject, Reader, Update]):
    """Renders one subject after the other. Requests that arrive meanwhile are rendered together.

    ``render`` leaves out readers without access, and returns ``None`` for those that have to
    request the update. It gets at most ``at_once`` readers. ``kind`` is for the log and the
    metrics.
    """

    kind: str
    render: Callable[[Subject, Sequence[Reader]], Mapping[Reader, Update | None]]
    at_once: int = sys.maxsize
    _wanted: dict[Subject, dict[Waiting[Reader, Update], None]] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    def want(self, subject: Subject, waiting: Waiting[Reader, Update]) -> None:
        self._wanted.setdefault(subject, {})[waiting] = None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._update_all(), name=f"updates-{self.kind}")

    async def _update_all(self) -> None:
        while self._wanted:
            subject = next(iter(self._wanted))
            by_reader: dict[Reader, list[Waiting[Reader, Update]]] = {}
            for waiting in self._wanted.pop(subject):
                if (reader := waiting.reader()) is not None:
                    by_reader.setdefault(reader, []).append(waiting)
            remaining = iter(by_reader)
            while some := list(islice(remaining, self.at_once)):
                for reader, update in (await self._rendered(subject, some)).items():
                    for waiting in by_reader[reader]:
                        self._tell(waiting, update)

    async def _rendered(
        self, subject: Subject, asked: Sequence[Reader]
    ) -> Mapping[Reader, Update | None]:
        try:
            return await readers.call(self.render, subject, asked)
        except Exception:
            # The pages request the changes, and get the error then.
            logger.exception("updates.failed kind=%s readers=%d", self.kind, len(asked))
            return dict.fromkeys(asked)

    def _tell(self, waiting: Waiting[Reader, Update], update: Update | None) -> None:
        metrics.PAGE_UPDATES.labels(self.kind, "left" if update is None else "sent").inc()
        try:
            waiting.tell(update)
        except Exception:
            logger.exception("updates.failed kind=%s", self.kind)
