"""Viewers whose sockets nobody reads: they cost their web process little, and nobody else anything."""

import contextlib
import threading
from uuid import UUID

from chat.demo.script import lmstudio_events, lmstudio_run, stream
from tests.cluster.audience import Audience
from tests.cluster.cluster import Cluster, Web, resident_bytes
from tests.cluster.stories import assert_ended
from tests.processes.viewers import Tab, cursor_of, page_of

DEAF = 24
# Of them, wake up and read.
WAKE = 3
# Of the answer's HTML: more than twice the text.
PARAGRAPHS = [f"Paragraph {number} says little, at some length. " * 20 for number in range(3000)]
# What waits for all of them together, if each has a bound: a small part of what they are owed.
MOST_BYTES = 48 * 1024 * 1024


class DeafTab(Tab):
    """A page that stands still: after a few messages not even its socket is read."""

    def __init__(self, web: Web, run: UUID) -> None:
        self.wakes = threading.Event()
        self._has_left = False
        super().__init__(web, run)

    def _listen(self) -> None:
        self.wakes.wait()
        if not self._has_left:
            super()._listen()

    def leave(self) -> None:
        self._has_left = not self.wakes.is_set()
        self.wakes.set()
        super().leave()


def test_their_memory_is_bounded_and_they_catch_up_when_they_read(cluster: Cluster) -> None:
    gate = cluster.gate()
    answer = lmstudio_events(lmstudio_run("Beginning.\n\n", *(f"{one}\n\n" for one in PARAGRAPHS)))
    middle = answer.index(b"event: message.delta", answer.index(b"Beginning"))
    cluster.fake.script(stream(answer[:middle], gate, answer[middle:]))
    run = cluster.web.send("A long story")
    with Audience(cluster, run) as audience, contextlib.ExitStack() as stack:
        audience.until_shown("Beginning")
        deaf = [DeafTab(cluster.web, run) for _ in range(DEAF)]
        for tab in deaf:
            stack.callback(tab.leave)
        before = [resident_bytes(web) for web in cluster.webs]
        cluster.fake.release(gate.name)
        entries = assert_ended(cluster.web, run, "completed")
        # Whoever reads has all of it, at both, while the others have not read a word.
        for seat in audience.seats:
            seat.tab.until_seq(run, len(entries))
            seat.program.until_ended()
        grown = [
            resident_bytes(web) - earlier for web, earlier in zip(cluster.webs, before, strict=True)
        ]
        assert not any(tab.messages for tab in deaf)

        for tab in deaf[:WAKE]:
            tab.wakes.set()
        for tab in deaf[:WAKE]:
            tab.until(lambda tab: tab.has_ended or tab.cursors[run][0] >= len(entries))
        audience.assert_have_all()

    owed = DEAF * sum(map(len, PARAGRAPHS))
    assert owed > MOST_BYTES
    assert grown[0] - grown[1] < MOST_BYTES
    for tab in deaf[:WAKE]:
        assert tab.cursors[run] == cursor_of(entries)
        assert tab.pages[run].state() == page_of(run, entries).state()
