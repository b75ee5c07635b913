"""Live channel of a conversation's page: changes around its live answers.

A page reports its state whenever that changes, so the server can push updates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

import msgspec

from chat.conversations.page_updates import PageReader, PageUpdate, render_updates
from chat.live.access_monitor import Room
from chat.live.channels import Channel, Tab
from chat.live.updates import Updates

# Pages confirm an update at once. After this time they are told to request their changes.
UPDATE_SECONDS = 5.0
# A page's description of itself is longer only if it shows hundreds of open questions.
MOST_STATE_BYTES = 8000

updates: Updates[UUID, PageReader, PageUpdate] = Updates("conversation", render_updates)


class ShownPage(msgspec.Struct):
    """A page's description of itself. ``state`` is that of `PageState`; an update names the
    ``number`` of the only state that it fits. ``is_asking``: the page is requesting its changes,
    and reports its state afterwards. ``writes`` is in the first message."""

    revision: int = 0
    writes: bool | None = None
    number: int = 0
    state: msgspec.Raw = msgspec.Raw()
    is_asking: bool = False


_decoder = msgspec.json.Decoder(ShownPage)


class PageChannel(Channel):
    """A tab over an event stream can't confirm an update: it gets one, and then requests
    changes."""

    name = "page"

    def __init__(self, tab: Tab) -> None:
        super().__init__(tab)
        self._revision = 0
        self._may_write: bool | None = None
        # None at first, and while the page requests its changes.
        self._page: ShownPage | None = None
        self._is_asking = False
        self._updated_at: float | None = None
        # The page that an update is being rendered for.
        self._rendered_page: ShownPage | None = None

    def start(self, said: msgspec.Raw) -> None:
        shown = _decoder.decode(said)
        self._revision, self._may_write = shown.revision, shown.writes
        self._show(shown)

    def receive(self, said: msgspec.Raw) -> None:
        self._show(_decoder.decode(said))

    def _show(self, shown: ShownPage) -> None:
        if len(bytes(shown.state)) > MOST_STATE_BYTES:
            # The renderer does not know this state, so the page requests its changes.
            shown.state = msgspec.Raw(b"{}")
        self._page = shown if bytes(shown.state) else None
        self._updated_at = None
        # A page that can't send can't report that it has its changes.
        self._is_asking = shown.is_asking and self.tab.is_two_way
        if self._page is not None:
            self._bring_up_to_date()

    def check(self, rooms: Sequence[Room], found: object) -> None:
        for room in rooms:
            if room.conversation_id == self.tab.room:
                self._check(room)

    def _check(self, room: Room) -> None:
        is_new = room.revision != self._revision
        has_other_rights = self._may_write not in (None, room.may_write)
        self._revision, self._may_write = room.revision, room.may_write
        if has_other_rights:
            # The revision is unchanged. Without a number in the message the tab fetches the changes.
            self.send({"room": room.conversation_id.hex})
        elif is_new or self._is_overdue:
            self._bring_up_to_date()

    @property
    def _is_overdue(self) -> bool:
        """True if an update seems to be lost."""
        if self._updated_at is None or not self.tab.is_two_way:
            return False
        return asyncio.get_running_loop().time() - self._updated_at > UPDATE_SECONDS

    def _bring_up_to_date(self) -> None:
        if self.tab.room is None or self._is_asking:
            return
        is_updating = self._updated_at is not None
        if self._page is None or self._is_overdue or (is_updating and not self.tab.is_two_way):
            self._tell_revision()
        elif self._needs_update:
            updates.want(self.tab.room, self)

    def _tell_revision(self) -> None:
        """The tab fetches the changes unless it has them."""
        self._page = self._updated_at = None
        if self.tab.room is not None:
            self.send({"room": self.tab.room.hex, "revision": self._revision})

    @property
    def _needs_update(self) -> bool:
        """True if the page is outdated and no update is on its way; the page confirms each update."""
        is_older = self._page is not None and self._page.revision < self._revision
        return is_older and self._updated_at is None

    # --- while it waits for an update --------------------------------------------------------

    def reader(self) -> PageReader | None:
        self._rendered_page = page = self._page
        if page is None or not self._needs_update:
            return None
        return PageReader(self.tab.reader.person, bytes(page.state), self.tab.reader.zone)

    def tell(self, update: PageUpdate | None) -> None:
        page = self._rendered_page
        if page is None or page is not self._page or self.tab.room is None:
            return
        if update is None:
            self._tell_revision()
            return
        self._updated_at = asyncio.get_running_loop().time()
        csrf_token = self.tab.reader.csrf_token
        self.tab.send_text(update.message(self.tab.room, page.number, csrf_token))
