"""Live channel of the list of conversations beside a page: the lines that have changed.

Once a second the versions of the lists and the changes in the teams of these people are read
(`chat.conversations.list_version`), and the changed lines of each person with a new version. The
page requests changes that lines cannot express.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import msgspec
from django.utils import timezone

from chat.conversations.list_updates import Lines, ListReader, render_lines
from chat.conversations.list_version import access_part, order_part, read_lists
from chat.conversations.recent_changes import OVERLAP_CHECKS, Change, RecentChanges
from chat.live.access_monitor import Room
from chat.live.channels import Channel, Tab
from chat.live.updates import Updates

# The most lists of conversations that pages of this process fetch in a second after changes. In a busy
# team there is always a change, and a list costs 10 to 30 ms; with more pages each one is notified
# less often.
LISTS_PER_SECOND = 10
# Updates of all lists in a second; with more pages each one gets them less often.
LINES_PER_SECOND = 200
# People whose lines are read in one call of a thread: each costs about a millisecond.
AT_ONCE = 10

updates: Updates[None, ListReader, Lines] = Updates(
    "list", lambda _, people: render_lines(people), at_once=AT_ONCE
)


class CheckedList(NamedTuple):
    """The version of a person's list at a check, with the ``changes`` since check ``oldest``."""

    version: str
    number: int
    oldest: int
    changes: Sequence[Change]
    # The pages that have a list.
    pages: int

    def changed_for(self, person: int, since: int, *, only_late: bool = False) -> tuple[int, ...]:
        """The conversations that may have changed in this person's list after a check."""
        # Changes are in the order of their numbers, and a tab needs those of the last seconds of half a minute.
        first = bisect_right(self.changes, since, key=attrgetter("number"))
        return tuple(
            each.conversation_pk
            for each in self.changes[first:]
            if (each.is_late or not only_late) and (each.owner_pk == person or not each.is_private)
        )


class ListLook:
    """Versions and changes, read together for all people."""

    def __init__(self) -> None:
        self.recent = RecentChanges()

    def read(self, asked: Sequence[int]) -> Mapping[int, CheckedList]:
        began, recent = timezone.now(), self.recent
        lists = read_lists(set(asked), recent.since())
        recent.record_check(lists.changed, began, lists.snapshot)
        return {
            person: CheckedList(version, recent.number, recent.oldest, recent.changes, len(asked))
            for person, version in lists.versions.items()
        }


class _Shown(msgspec.Struct):
    version: str


_decoder = msgspec.json.Decoder(_Shown)


class ListChannel(Channel):
    """The list that a tab shows, by its version."""

    name = "list"
    look = ListLook

    def __init__(self, tab: Tab) -> None:
        super().__init__(tab)
        self._version = ""
        self._told_at = 0.0
        # The last check at which the list was up to date.
        self._check: int | None = None
        # The version before the last message. Until that has arrived, the page names this one.
        self._before = ""

    def start(self, said: msgspec.Raw) -> None:
        """Takes the page's version: at first, and after each request."""
        version = _decoder.decode(said).version
        if version not in (self._version, self._before):
            self._version, self._before, self._check = version, "", None
            self._told_at = asyncio.get_running_loop().time()
        self.asks = self.tab.reader.person

    def check(self, rooms: Sequence[Room], found: CheckedList | None) -> None:
        """A lost conversation is announced at once, and the tab fetches its list. For other changes it gets
        the lines or, after a pause, an announcement."""
        if found is None:
            return
        now = asyncio.get_running_loop().time()
        version, shown = found.version, self._version
        if version == shown:
            self._tell_late(found, now)
            return
        is_loss = access_part(version) != access_part(shown)
        changed = self._changed(found)
        are_lines = bool(changed) and not is_loss and order_part(version) == order_part(shown)
        if not is_loss and now - self._told_at < _pause_seconds(found, are_lines=are_lines):
            return
        self._version, self._before = version, shown
        self._told_at, self._check = now, found.number
        if are_lines:
            self._want_lines(changed, shown)
        else:
            self.send({"list": version})

    def _tell_late(self, checked: CheckedList, now: float) -> None:
        """Sends late changes: the page may have been rendered before them, although it shows this
        version."""
        since = checked.number - OVERLAP_CHECKS if self._check is None else self._check
        changed = checked.changed_for(self.tab.reader.person, since, only_late=True)
        if changed and now - self._told_at < _pause_seconds(checked, are_lines=True):
            return
        self._check = checked.number
        if changed:
            self._told_at = now
            self._want_lines(changed, self._version)

    def _changed(self, checked: CheckedList) -> tuple[int, ...]:
        """The changed conversations; empty if they are unknown."""
        if self._check is None or self._check < checked.oldest:
            return ()
        return checked.changed_for(self.tab.reader.person, self._check - OVERLAP_CHECKS)

    def _want_lines(self, changed: tuple[int, ...], before: str) -> None:
        reader = ListReader(self.tab.reader.person, self.tab.reader.zone, changed)
        updates.want(None, _WantedLines(self, reader, before, self._version))


@dataclass(frozen=True, slots=True, eq=False)
class _WantedLines:
    """``before`` is the page's version, and ``version`` that of the changes: the same for late
    ones."""

    channel: ListChannel
    asked: ListReader
    before: str
    version: str

    def reader(self) -> ListReader:
        return self.asked

    def tell(self, lines: Lines | None) -> None:
        more = {} if lines is None else {"after": self.before, **lines}
        late = {"late": True} if self.before == self.version else {}
        self.channel.send({"list": self.version, **late, **more})


def _pause_seconds(checked: CheckedList, *, are_lines: bool) -> float:
    """The least time between two messages to a page."""
    return checked.pages / (LINES_PER_SECOND if are_lines else LISTS_PER_SECOND)
