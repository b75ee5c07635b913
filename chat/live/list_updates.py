"""Updates of the list of conversations beside a page: the lines that have changed, for everybody who has
them in their list.

Once a second the access monitor reads the versions of the lists, and what has changed in the teams of all
these people (`chat.live.list_version`). Of a person whose version is another one the changed lines are read.
What lines cannot express is left to a request of the page.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from django.utils import timezone

from chat.core import metrics
from chat.core.threads import readers
from chat.live.list_version import MOST_CHANGES, ChangedRow

logger = logging.getLogger(__name__)

# A change carries the time at which its transaction began, by the clock of its host. It may be visible
# only so much later, and after a newer one.
LATE = timedelta(seconds=5)
OVERLAP_CHECKS = 5
# A page that was told nothing for so many checks asks for its list.
KEPT_CHECKS = 30
# People whose lines are read in one call of a thread: each costs about a millisecond.
AT_ONCE = 10


class Change(NamedTuple):
    """A conversation, and the number of the check that found it changed."""

    conversation_pk: int
    number: int
    owner_pk: int
    is_private: bool


class CheckedList(NamedTuple):
    """The version of a person's list at a check. ``changes`` are those since check ``oldest``."""

    version: str
    number: int
    oldest: int
    changes: Sequence[Change]
    # The least time between two requests of a page for its list.
    pause_seconds: float

    def changed_for(self, person: int, since: int) -> tuple[int, ...]:
        """The conversations that may have changed in this person's list after a check."""
        return tuple(
            each.conversation_pk
            for each in self.changes
            if each.number > since and (each.owner_pk == person or not each.is_private)
        )


class ListReader(NamedTuple):
    """A person, their time zone if it is known, and the conversations (keys) that may have changed."""

    person: int
    zone: str
    changed: tuple[int, ...]


@dataclass
class RecentChanges:
    """What has changed in the last seconds. `note` is called in the monitor's thread; it replaces the
    list of changes and never changes it."""

    number: int = 0
    oldest: int = 0
    changes: Sequence[Change] = ()
    _known: dict[int, object] = field(default_factory=dict)
    _noted_at: datetime | None = None

    def since(self) -> datetime:
        """From when on the next check has to look for changes."""
        return (self._noted_at or timezone.now()) - LATE

    def note(self, found: Sequence[ChangedRow], began: datetime) -> None:
        self.number += 1
        self._noted_at = began
        self.oldest = max(self.oldest, self.number - KEPT_CHECKS)
        changed = {
            row.conversation_pk: Change(
                row.conversation_pk, self.number, row.owner_pk, row.is_private
            )
            for row in found
            if self._known.get(row.conversation_pk) != row.updated_at
        }
        self._known = {row.conversation_pk: row.updated_at for row in found}
        if len(found) >= MOST_CHANGES:
            self.oldest, self.changes = self.number, ()
        elif changed or (self.changes and self.changes[0].number <= self.oldest):
            kept = (
                each
                for each in self.changes
                if each.number > self.oldest and each.conversation_pk not in changed
            )
            self.changes = [*kept, *changed.values()]


# The members of a message to the page, or ``None`` if the page has to ask for its list. Called in a
# database thread.
Lines = Mapping[str, object]
RenderLines = Callable[[Sequence[ListReader]], Mapping[ListReader, Lines | None]]


def _render_nothing(people: Sequence[ListReader]) -> dict[ListReader, Lines | None]:
    return dict.fromkeys(people)


_render: RenderLines = _render_nothing


def use_line_renderer(render: RenderLines) -> None:
    """Sets who renders the lines. `chat.apps` calls it once."""
    global _render
    _render = render


class ListViewer(Protocol):
    """A connection whose page has a list. Called on the event loop."""

    def on_lines(self, before: str, version: str, lines: Lines | None) -> None: ...


class _Wanted(NamedTuple):
    viewer: ListViewer
    reader: ListReader
    # The version that the page shows, and that of the changes.
    before: str
    version: str


@dataclass
class ListUpdates:
    _wanted: list[_Wanted] = field(default_factory=list)
    _task: asyncio.Task[None] | None = None

    def want(self, viewer: ListViewer, reader: ListReader, before: str, version: str) -> None:
        self._wanted.append(_Wanted(viewer, reader, before, version))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._update_all(), name="list-updates")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _update_all(self) -> None:
        while self._wanted:
            wanted, self._wanted = self._wanted, []
            by_reader: dict[ListReader, list[_Wanted]] = {}
            for each in wanted:
                by_reader.setdefault(each.reader, []).append(each)
            people = list(by_reader)
            for start in range(0, len(people), AT_ONCE):
                for reader, lines in (await _rendered(people[start : start + AT_ONCE])).items():
                    for each in by_reader[reader]:
                        each.viewer.on_lines(each.before, each.version, lines)


async def _rendered(people: Sequence[ListReader]) -> Mapping[ListReader, Lines | None]:
    found: Mapping[ListReader, Lines | None]
    try:
        found = await readers.call(_render, people)
    except Exception:
        logger.exception("list_updates.failed people=%d", len(people))
        found = dict.fromkeys(people)
    for lines in found.values():
        metrics.PAGE_UPDATES.labels("list", "left" if lines is None else "sent").inc()
    return found


list_updates = ListUpdates()
