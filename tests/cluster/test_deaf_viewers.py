"""Viewers whose sockets nobody reads: they cost their web process little, and nobody else anything."""

import contextlib
import socket
import threading
from uuid import UUID

import httpx
from websockets.sync import client

from chat.demo.script import AnyStep, Gate, Script, lmstudio_event, lmstudio_run, stream
from tests.support.cluster.audience import Audience
from tests.support.cluster.cluster import Cluster, Web, resident_bytes
from tests.support.cluster.stories import assert_ended
from tests.support.processes.site import Site
from tests.support.processes.viewers import Tab, cursor_of, open_socket, page_of

DEAF = 60
# Of them, wake up and read.
WAKE = 3
# Half as much again in HTML, and more than the kernel of the sending side takes for one that does not
# read: 4 MiB at most.
PARAGRAPHS = [f"Paragraph {number}: " + "words " * 150 + "> " * 150 for number in range(3000)]
# As many come at a time.
PORTION = 150
# What a deaf viewer's kernel keeps for it.
RECEIVED_BYTES = 64 * 1024
# All that may wait for one of them in the process.
MOST_WAITING_BYTES = 512 * 1024
# Less than what all are owed, and more than by what the memory of two processes differs that have shown
# an answer of this size.
MOST_BYTES = 144 * 1024 * 1024


class DeafTab(Tab):
    """A page that stands still: after a message or two not even its socket is read."""

    def __init__(self, web: Web, run: UUID) -> None:
        self.wakes = threading.Event()
        self._has_left = False
        super().__init__(web, run)

    def _open(self, web: Site, by: str) -> client.connect:
        # Otherwise the kernel takes megabytes for it, and the library some messages.
        network = socket.socket()
        network.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES)
        network.connect(("127.0.0.1", web.port))
        return open_socket(web, by=by, sock=network, max_queue=1)

    def _listen(self) -> None:
        self.wakes.wait()
        if not self._has_left:
            super()._listen()

    def leave(self) -> None:
        self._has_left = not self.wakes.is_set()
        if self._has_left:
            # Whoever does not read does not hear a goodbye, either.
            self._socket.close_socket()
        self.wakes.set()
        super().leave()


def answer_in(portions: list[list[str]], gates: list[Gate]) -> Script:
    """An answer that begins, and waits before each portion for its gate."""
    texts = ["Beginning.\n\n", *(f"{one}\n\n" for portion in portions for one in portion)]
    events = [lmstudio_event(event) for event in lmstudio_run(*texts)]
    # chat.start, two of prompt processing, message.start; then the texts.
    parts: list[bytes | AnyStep] = events[:5]
    for number, (gate, portion) in enumerate(zip(gates, portions, strict=True)):
        start = 5 + number * PORTION
        parts += [gate, b"".join(events[start : start + len(portion)])]
    return stream(*parts, *events[5 + sum(map(len, portions)) :])


def outgoing_bytes(web: Web) -> float:
    """What waits in this process for clients that do not read."""
    name = "tributary_outgoing_pending_bytes "
    lines = httpx.get(f"http://127.0.0.1:{web.port}/metrics", trust_env=False).text.splitlines()
    (value,) = (line.removeprefix(name) for line in lines if line.startswith(name))
    return float(value)


def test_their_memory_is_bounded_and_they_catch_up_when_they_read(cluster: Cluster) -> None:
    portions = [PARAGRAPHS[start : start + PORTION] for start in range(0, len(PARAGRAPHS), PORTION)]
    gates = [cluster.gate() for _ in portions]
    cluster.fake.script(answer_in(portions, gates))
    run = cluster.web.send("A long story")
    with Audience(cluster, run) as audience, contextlib.ExitStack() as stack:
        audience.until_shown("Beginning")
        deaf = [DeafTab(cluster.web, run) for _ in range(DEAF)]
        for tab in deaf:
            stack.callback(tab.leave)
        before = [resident_bytes(web) for web in cluster.webs]
        for gate, portion in zip(gates, portions, strict=True):
            cluster.fake.release(gate.name)
            audience.until_shown(portion[-1].partition(">")[0].strip())
        entries = assert_ended(cluster.web, run, "completed")
        # Whoever reads has all of it, at both, while the others have not read a word.
        for seat in audience.seats:
            seat.tab.until_seq(run, len(entries))
            seat.program.until_ended()
        grown = [
            resident_bytes(web) - earlier for web, earlier in zip(cluster.webs, before, strict=True)
        ]
        assert not any(tab.messages for tab in deaf)
        waiting = outgoing_bytes(cluster.web)

        for tab in deaf[:WAKE]:
            tab.wakes.set()
        for tab in deaf[:WAKE]:
            tab.until(lambda tab: tab.has_ended or tab.cursors[run][0] >= len(entries))
        audience.assert_have_all()

    assert waiting < DEAF * MOST_WAITING_BYTES
    owed = DEAF * sum(map(len, PARAGRAPHS))
    assert owed > MOST_BYTES
    assert grown[0] - grown[1] < MOST_BYTES
    for tab in deaf[:WAKE]:
        assert tab.cursors[run] == cursor_of(entries)
        assert tab.pages[run].state() == page_of(run, entries).state()
