"""Recent changes in the lists of conversations that people have open, by the checks of `ListLook`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from django.utils import timezone

from chat.conversations.list_version import MOST_CHANGES, ChangedRow, Snapshot

# A change carries the time at which it was made, by the clock of its host, and is visible when its
# transaction ends, perhaps after a newer one. In SQLite it has waited for at most five seconds for other
# transactions. In PostgreSQL, `RecentChanges` knows which transactions have not ended, and this is for the
# difference between the clocks of hosts.
LATE = timedelta(seconds=6)
# Changes of transactions that take longer may be missed.
LONGEST = timedelta(seconds=60)
OVERLAP_CHECKS = 5
# A page that got no message for this many checks asks for its list.
KEPT_CHECKS = 30


class Change(NamedTuple):
    """A conversation, and the number of the check that found it changed. ``is_late``: perhaps it became
    visible after a newer change, and left the versions of lists as they were."""

    conversation_pk: int
    number: int
    owner_pk: int
    is_private: bool
    is_late: bool = False


@dataclass
class RecentChanges:
    """The changes of the last seconds. `record_check` is called in the monitor's thread; it replaces the
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
        """The time from which on the next check looks for changes."""
        return self._looks_from - LATE

    def record_check(
        self, found: Sequence[ChangedRow], began: datetime, snapshot: Snapshot
    ) -> None:
        self.number += 1
        self.oldest = max(self.oldest, self.number - KEPT_CHECKS)
        # Older changes of the first check were visible when any page was made.
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
