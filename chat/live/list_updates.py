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
from chat.live.list_version import MOST_CHANGES, ChangedRow, Snapshot

logger = logging.getLogger(__name__)

# A change carries the time at which it was made, by the clock of its host, and is visible when its
# transaction ends, perhaps after a newer one. In SQLite it has waited for at most five seconds for other
# transactions. In PostgreSQL, `RecentChanges` knows which transactions have not ended, and this is for the
# difference between the clocks of hosts.
LATE = timedelta(seconds=6)
# Changes of transactions that take longer may be missed.
LONGEST = timedelta(seconds=60)
OVERLAP_CHECKS = 5
# A page that was told nothing for so many checks asks for its list.
KEPT_CHECKS = 30
# People whose lines are read in one call of a thread: each costs about a millisecond.
AT_ONCE = 10


class Change(NamedTuple):
    """A conversation, and the number of the check that found it changed. ``is_late``: perhaps it became
    visible after a newer change, and left the versions of lists as they were."""

    conversation_pk: int
    number: int
    owner_pk: int
    is_private: bool
    is_late: bool = False


class CheckedList(NamedTuple):
    """The version of a person's list at a check. ``changes`` are those since check ``oldest``."""

    version: str
    number: int
    oldest: int
    changes: Sequence[Change]
    # The least time between two requests of a page for its list.
    pause_seconds: float

    def changed_for(self, person: int, since: int, *, only_late: bool = False) -> tuple[int, ...]:
        """The conversations that may have changed in this person's list after a check."""
        return tuple(
            each.conversation_pk
            for each in self.changes
            if each.number > since
            and (each.is_late or not only_late)
            and (each.owner_pk == person or not each.is_private)
        )


class ListReader(NamedTuple):
    """A person, their time zone if it is known, and the conversations (keys) that may have changed."""

    person: int
    zone: str
    changed: tuple[int, ...]


@dataclass
class RecentChanges:
    """What has changed in the last seconds. `note` is called in the monitor's thread; it replaces the
    list of changes and never changes it.

    A check looks back to the latest check whose open transactions have all ended by now: each of them
    may have made a change before that check, which is visible only now.
    """

    number: int = 0
    oldest: int = 0
    changes: Sequence[Change] = ()
    _known: dict[int, object] = field(default_factory=dict)
    # The time of the newest change that was ever found, as the database writes it.
    _newest: str = ""
    _looks_from: datetime = field(default_factory=lambda: timezone.now() - LONGEST)
    # When each later check began, and the first transaction that had not begun to write by then.
    _unsettled: list[tuple[datetime, int]] = field(default_factory=list)

    def since(self) -> datetime:
        """From when on the next check has to look for changes."""
        return self._looks_from - LATE

    def note(self, found: Sequence[ChangedRow], began: datetime, snapshot: Snapshot) -> None:
        """``found`` by a check that ``began`` at this time."""
        self.number += 1
        self.oldest = max(self.oldest, self.number - KEPT_CHECKS)
        # What the first check finds from further back was visible when any page was made.
        since = "" if self._newest else str(began - LATE)
        # The texts of both databases are in the order of the times.
        self._newest = max([self._newest, since, *(str(row.updated_at) for row in found)])
        changed = {
            row.conversation_pk: Change(
                row.conversation_pk,
                self.number,
                row.owner_pk,
                row.is_private,
                is_late=since < str(row.updated_at) < self._newest,
            )
            for row in found
            if self._known.get(row.conversation_pk) != row.updated_at
        }
        self._known = {row.conversation_pk: row.updated_at for row in found}
        self._settle(began, snapshot)
        if len(found) >= MOST_CHANGES:
            self.oldest, self.changes = self.number, ()
        elif changed or (self.changes and self.changes[0].number <= self.oldest):
            kept = (
                each
                for each in self.changes
                if each.number > self.oldest and each.conversation_pk not in changed
            )
            self.changes = [*kept, *changed.values()]

    def _settle(self, began: datetime, snapshot: Snapshot) -> None:
        self._unsettled.append((began, snapshot.next))
        while self._unsettled:
            at, following = self._unsettled[0]
            if following > snapshot.oldest and began - at < LONGEST:
                return
            self._looks_from = at
            del self._unsettled[0]


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

    def on_lines(self, before: str, version: str, lines: Lines | None) -> None:
        """``before`` is ``version`` where the changes are late."""
        ...


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
