"""Viewers of runs at every web process, each as a page and as an API client. When they are cut off
they come back with what they have, to any process that is alive."""

import re
from collections.abc import Iterable, Sequence
from uuid import UUID

from chat.runs.event_buffer import LogEntry
from chat.wire.sse import Frame
from tests.rendering.dom import Element, Page, _Builder
from tests.support.cluster.cluster import Cluster, Web
from tests.support.pages import BEGINNING, Cursor, cursor_of, page_of, sent
from tests.support.processes.viewers import Program, Tab


class Viewer:
    """One viewer of one run, through all their connections."""

    def __init__(self, web: Web, run: UUID, *, by: str = "Bob") -> None:
        self.run = run
        self.page: Page = page_of(run, [])
        self.cursor: Cursor = BEGINNING
        self._by = by
        self._frames: list[Frame] = []
        self.connect(web)

    def connect(self, web: Web) -> None:
        """Goes on from what there is already."""
        self.web = web
        self.program = Program(web, self.run, by=self._by, after=len(self._frames))
        pages, cursors = {self.run: self.page}, {self.run: self.cursor}
        self.tab = Tab(web, by=self._by, pages=pages, cursors=cursors)

    def leave(self) -> None:
        self.program.leave()
        self.tab.leave()

    def move(self, web: Web) -> None:
        """As a browser that lost its connection, behind a proxy that knows another process."""
        self.leave()
        self._frames += self.program.frames
        self.cursor = self.current_cursor
        self.connect(web)

    @property
    def frames(self) -> list[Frame]:
        return [*self._frames, *self.program.frames]

    @property
    def current_cursor(self) -> Cursor:
        return self.tab.cursors[self.run]

    def until_shown(self, text: str) -> None:
        self.tab.until_shown(self.run, text)

    def has_all(self, entries: Sequence[LogEntry]) -> bool:
        return self.current_cursor[0] >= len(entries) and len(self.frames) >= len(entries)

    def assert_complete(self, entries: Sequence[LogEntry]) -> None:
        assert [int(frame.id or 0) for frame in self.frames] == list(range(1, len(entries) + 1))
        assert [frame.data for frame in self.frames] == sent(self.run, entries)
        assert self.current_cursor == cursor_of(entries)
        assert self.page.state() == page_of(self.run, entries).state()


class Viewers:
    """One viewer of each run at each web process."""

    def __init__(self, cluster: Cluster, *runs: UUID) -> None:
        self._cluster = cluster
        self.all = [Viewer(web, run) for run in runs for web in cluster.webs]

    def __enter__(self) -> "Viewers":
        return self

    def __exit__(self, *error: object) -> None:
        for viewer in self.all:
            viewer.leave()

    def until_shown(self, text: str) -> None:
        for viewer in self.all:
            viewer.until_shown(text)

    def at(self, web: Web) -> list[Viewer]:
        return [viewer for viewer in self.all if viewer.web is web]

    def move(self, viewers: Iterable[Viewer], web: Web) -> None:
        for viewer in viewers:
            viewer.move(web)

    def assert_complete(self) -> None:
        """Everybody has the whole log, each event once, and shows what a reload shows. A viewer that was
        cut off comes back first."""
        logs: dict[UUID, list[LogEntry]] = {}
        for viewer in self.all:
            entries = logs.get(viewer.run) or self._cluster.web.entries(viewer.run)
            logs[viewer.run] = entries
            self._until_complete(viewer, entries)
            viewer.assert_complete(entries)
        for run, entries in logs.items():
            fresh = fresh_answer(self._cluster.web, run)
            assert fresh.inner() == page_of(run, entries).answer.inner()

    def _until_complete(self, viewer: Viewer, entries: Sequence[LogEntry]) -> None:
        while True:
            viewer.tab.until(
                lambda tab: tab.has_ended or tab.cursors[viewer.run][0] >= len(entries)
            )
            viewer.program.until_ended()
            if viewer.has_all(entries):
                return
            viewer.move(next(web for web in self._cluster.webs if web.is_alive))


# --- a page that is opened now ----------------------------------------------------------


class _FirstElement(_Builder):
    """Reads one element and stops, whatever comes behind it."""

    def handle_endtag(self, tag: str) -> None:
        super().handle_endtag(tag)
        if len(self.open) == 1:
            raise StopIteration


def fresh_answer(web: Web, run: UUID, *, by: str = "Bob") -> Element:
    """The answer on a page that a browser loads now."""
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
