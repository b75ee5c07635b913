"""Everybody who looks at some runs, at every web process, as a browser and as a program; they come
back with what they have, wherever there is somebody."""

import re
from collections.abc import Iterable, Sequence
from uuid import UUID

from chat.runs.public import public_json
from chat.runs.tail import Entry
from chat.wire.sse import Frame
from tests.rendering.dom import Element, Page, _Builder
from tests.support.cluster.cluster import Cluster, Web
from tests.support.processes.viewers import (
    BEGINNING,
    Cursor,
    Program,
    Tab,
    cursor_of,
    empty_page,
    page_of,
)


class Seat:
    """One viewer of one run, through all their connections."""

    def __init__(self, web: Web, run: UUID, *, by: str = "Bob") -> None:
        self.run = run
        self.page: Page = empty_page(run)
        self.cursor: Cursor = BEGINNING
        self._by = by
        self._frames: list[Frame] = []
        self.sit_down(web)

    def sit_down(self, web: Web) -> None:
        """Connects, with what there is already."""
        self.web = web
        self.program = Program(web, self.run, by=self._by, after=len(self._frames))
        pages, cursors = {self.run: self.page}, {self.run: self.cursor}
        self.tab = Tab(web, by=self._by, pages=pages, cursors=cursors)

    def stand_up(self) -> None:
        """Leaves, or has been left, and keeps what there is."""
        self.program.leave()
        self.tab.leave()
        self._frames += self.program.frames
        self.cursor = self.cursor_now

    @property
    def frames(self) -> list[Frame]:
        return [*self._frames, *self.program.frames]

    @property
    def cursor_now(self) -> Cursor:
        return self.tab.cursors[self.run]

    def until_shown(self, text: str) -> None:
        self.tab.until_shown(self.run, text)


class Audience:
    """A seat at each web process for each run."""

    def __init__(self, cluster: Cluster, *runs: UUID) -> None:
        self._cluster = cluster
        self.seats = [Seat(web, run) for run in runs for web in cluster.webs]

    def __enter__(self) -> "Audience":
        return self

    def __exit__(self, *error: object) -> None:
        for seat in self.seats:
            seat.program.leave()
            seat.tab.leave()

    def until_shown(self, text: str) -> None:
        for seat in self.seats:
            seat.until_shown(text)

    def of(self, web: Web) -> list[Seat]:
        return [seat for seat in self.seats if seat.web is web]

    def move(self, seats: Iterable[Seat], web: Web) -> None:
        """As a browser does that lost its connection, behind a proxy that knows another process."""
        for seat in seats:
            seat.stand_up()
            seat.sit_down(web)

    def assert_have_all(self) -> None:
        """Whoever was cut off comes back; then everybody has the whole log, each event once, and
        shows what a page shows that is opened now."""
        logs: dict[UUID, list[Entry]] = {}
        for seat in self.seats:
            entries = logs.get(seat.run) or self._cluster.web.entries(seat.run)
            logs[seat.run] = entries
            self._until_whole(seat, entries)
            assert_has_all(seat, entries)
        for run, entries in logs.items():
            fresh = fresh_answer(self._cluster.web, run)
            assert fresh.inner() == page_of(run, entries).answer.inner()

    def _until_whole(self, seat: Seat, entries: Sequence[Entry]) -> None:
        """Behind the end nothing comes any more: who was cut off meanwhile has to come back."""
        while True:
            seat.tab.until(lambda tab: tab.has_ended or tab.cursors[seat.run][0] >= len(entries))
            seat.program.until_ended()
            if seat.cursor_now[0] >= len(entries) and len(seat.frames) >= len(entries):
                return
            self.move([seat], next(web for web in self._cluster.webs if web.is_alive))


def assert_has_all(seat: Seat, entries: Sequence[Entry]) -> None:
    assert [int(frame.id or 0) for frame in seat.frames] == list(range(1, len(entries) + 1))
    assert [frame.data.encode() for frame in seat.frames] == [
        public_json(entry, seat.run) for entry in entries
    ]
    assert seat.cursor_now == cursor_of(entries)
    assert seat.page.state() == page_of(seat.run, entries).state()


# --- a page that is opened now ----------------------------------------------------------


class _FirstElement(_Builder):
    """Reads one element, whatever comes behind it."""

    def handle_endtag(self, tag: str) -> None:
        super().handle_endtag(tag)
        if len(self.open) == 1:
            raise StopIteration


def fresh_answer(web: Web, run: UUID, *, by: str = "Bob") -> Element:
    """The answer as the page has it that a browser loads now."""
    with web.browser(by) as browser:
        page = browser.get(f"/c/{web.conversation_of(run)}/")
    assert page.status_code == 200, page.text
    start = re.search(rf'<\w+ [^>]*\bid="r{run.hex}"', page.text)
    assert start is not None, page.text
    builder = _FirstElement()
    try:
        builder.feed(page.text[start.start() :])
    except StopIteration:
        (element,) = builder.root.children
        assert isinstance(element, Element)
        return element
    raise AssertionError("the answer does not end")
