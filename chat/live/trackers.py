"""What a tab shows beside its live answers, and what it is sent when that changes: its conversation's page,
and its list of conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from chat.live.access_monitor import LISTS_PER_SECOND, Room
from chat.live.list_updates import OVERLAP_CHECKS, CheckedList, Lines, ListReader, list_updates
from chat.live.list_version import access_part, order_part
from chat.live.page_updates import PageReader, PageUpdate, ShownPage, encode, page_updates

# A page says at once that it has applied an update. One that does not is told to ask.
UPDATE_SECONDS = 5.0
# Updates of all lists in a second; with more pages each one gets them less often.
LINES_PER_SECOND = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Whose tab it is. ``zone`` is the name of their time zone, if it is known."""

    person: int
    zone: str = ""
    csrf_token: str = ""


class PageTracker:
    """The conversation that a tab shows. ``says_what_it_has``: whether it can tell that it has applied an
    update; one that only listens gets one, and then asks for changes."""

    def __init__(
        self, reader: Reader, send: Callable[[str], None], *, says_what_it_has: bool
    ) -> None:
        self.room: UUID | None = None
        self._reader = reader
        self._send = send
        self._says_what_it_has = says_what_it_has
        self._revision = 0
        self._may_write: bool | None = None
        # Not known at first, and while the page is asking for its changes itself.
        self._page: ShownPage | None = None
        self._is_asking = False
        self._updated_at: float | None = None

    def enter(self, room: UUID | None, revision: int, may_write: bool | None) -> None:
        self.room, self._revision, self._may_write = room, revision, may_write

    def show(self, page: ShownPage | None) -> None:
        """The tab shows this now. ``None``: it is asking for changes by itself, and says what it shows
        when it has them."""
        self._page, self._updated_at = page, None
        # One that only listens cannot say when it has them.
        self._is_asking = page is None and self._says_what_it_has
        if page is not None:
            self._bring_up_to_date()

    def on_room(self, room: Room) -> None:
        if room.conversation_id != self.room:
            return
        is_new = room.revision != self._revision
        has_other_rights = self._may_write not in (None, room.may_write)
        self._revision, self._may_write = room.revision, room.may_write
        if has_other_rights:
            # The revision is unchanged. Without a number in the message the tab fetches the changes.
            self._send(encode({"room": room.conversation_id.hex}))
        elif is_new or self._is_overdue:
            self._bring_up_to_date()

    @property
    def _is_overdue(self) -> bool:
        """Whether an update seems to be lost."""
        if self._updated_at is None or not self._says_what_it_has:
            return False
        return asyncio.get_running_loop().time() - self._updated_at > UPDATE_SECONDS

    def _bring_up_to_date(self) -> None:
        if self.room is None or self._is_asking:
            return
        is_updating = self._updated_at is not None
        if self._page is None or self._is_overdue or (is_updating and not self._says_what_it_has):
            self._tell_revision()
        elif self.page_to_update is not None:
            page_updates.want(self.room, self)

    def _tell_revision(self) -> None:
        """The tab fetches the changes unless it has them."""
        self._page = self._updated_at = None
        if self.room is not None:
            self._send(encode({"room": self.room.hex, "revision": self._revision}))

    @property
    def page_to_update(self) -> ShownPage | None:
        """Not while an update is on its way: the page says when it has it, and shows something else."""
        page = self._page
        if page is None or self._updated_at is not None or page.revision >= self._revision:
            return None
        return page

    def reader_of(self, page: ShownPage) -> PageReader:
        return PageReader(self._reader.person, page.state, self._reader.zone)

    def on_update(self, page: ShownPage, update: PageUpdate | None) -> None:
        if page is not self._page or self.room is None:
            return
        if update is None:
            self._tell_revision()
            return
        self._updated_at = asyncio.get_running_loop().time()
        self._send(update.message(self.room, page.number, self._reader.csrf_token))


class ListTracker:
    """The list of conversations beside a tab's page, by its version (empty: it has none)."""

    def __init__(self, reader: Reader, send: Callable[[str], None]) -> None:
        self.version = ""
        self._reader = reader
        self._send = send
        self._told_at = 0.0
        # The last check at which the list was up to date.
        self._check: int | None = None
        # The version before the last message. Until that has arrived, the page names this one.
        self._before = ""

    def enter(self, version: str) -> None:
        """The version that the page shows: at first, and when it has got another one by a request."""
        if version not in (self.version, self._before):
            self.version, self._before, self._check = version, "", None
            self._told_at = asyncio.get_running_loop().time()

    def on_list(self, checked: CheckedList) -> None:
        """A lost conversation is announced at once, and the tab fetches its list. Of other changes it gets
        the lines, or, after a pause, an announcement."""
        now = asyncio.get_running_loop().time()
        version, shown = checked.version, self.version
        if version == shown:
            self._tell_late(checked, now)
            return
        is_loss = access_part(version) != access_part(shown)
        changed = self._changed(checked)
        are_lines = bool(changed) and not is_loss and order_part(version) == order_part(shown)
        pause = _pause_of_lines(checked) if are_lines else checked.pause_seconds
        if not is_loss and now - self._told_at < pause:
            return
        self.version, self._before = version, shown
        self._told_at, self._check = now, checked.number
        if are_lines:
            reader = ListReader(self._reader.person, self._reader.zone, changed)
            list_updates.want(self, reader, shown, version)
        else:
            self._send(encode({"list": version}))

    def _tell_late(self, checked: CheckedList, now: float) -> None:
        """The page may have been made before a late change, although it shows this version."""
        since = checked.number - OVERLAP_CHECKS if self._check is None else self._check
        changed = checked.changed_for(self._reader.person, since, only_late=True)
        if changed and now - self._told_at < _pause_of_lines(checked):
            return
        self._check = checked.number
        if changed:
            self._told_at = now
            reader = ListReader(self._reader.person, self._reader.zone, changed)
            list_updates.want(self, reader, self.version, self.version)

    def _changed(self, checked: CheckedList) -> tuple[int, ...]:
        """Empty where it is not known what has changed."""
        if self._check is None or self._check < checked.oldest:
            return ()
        return checked.changed_for(self._reader.person, self._check - OVERLAP_CHECKS)

    def on_lines(self, before: str, version: str, lines: Lines | None) -> None:
        more = {} if lines is None else {"after": before, **lines}
        late = {"late": True} if before == version else {}
        self._send(encode({"list": version, **late, **more}))


def _pause_of_lines(checked: CheckedList) -> float:
    return checked.pause_seconds * LISTS_PER_SECOND / LINES_PER_SECOND
