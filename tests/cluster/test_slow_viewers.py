"""Viewers that do not read their sockets cost their web process little memory, and others nothing."""

import contextlib
import socket
import threading
from uuid import UUID

import httpx
from websockets.sync import client

from tests.support.cluster.cluster import Cluster, Web, resident_bytes
from tests.support.cluster.viewers import Viewers
from tests.support.pages import cursor_of, page_of
from tests.support.processes.runs import assert_ended
from tests.support.processes.site import SOON_SECONDS, Site
from tests.support.processes.viewers import Tab, open_socket
from tests.support.upstream.script import (
    AnyStep,
    Gate,
    JsonObject,
    Script,
    lmstudio_event,
    lmstudio_result,
    stream,
)

VIEWERS = 60
# So many of them begin to read at the end.
READING_AGAIN = 3
# Half as much again in HTML.
PARAGRAPHS = [f"Paragraph {number}: " + "words " * 150 + "> " * 150 for number in range(800)]
# So many are written at a time.
PORTION = 50
# What the kernel keeps for a viewer that does not read, on its own side and on that of the server.
SOCKET_BYTES = 64 * 1024
# What may wait for each of them in the process.
MOST_WAITING_BYTES = 512 * 1024
# Less than they are owed together, and more than the memory of two processes differs by chance.
MOST_BYTES = 40 * 1024 * 1024


class SlowTab(Tab):
    """Does not read its socket until ``reads`` is set."""

    def __init__(self, web: Web, run: UUID) -> None:
        self.reads = threading.Event()
        self._has_left = False
        super().__init__(web, run)

    def _open(self, web: Site, by: str) -> client.connect:
        # By default the kernel buffers megabytes, and the library some messages.
        network = socket.socket()
        network.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
        network.connect(("127.0.0.1", web.port))
        return open_socket(web, by=by, sock=network, max_queue=1)

    def _listen(self) -> None:
        self.reads.wait()
        if not self._has_left:
            super()._listen()

    def leave(self) -> None:
        self._has_left = not self.reads.is_set()
        if self._has_left:
            # A close handshake would wait for an answer that is never read.
            self._socket.close_socket()
        self.reads.set()
        super().leave()


def script_of(portions: list[list[str]], gates: list[Gate]) -> Script:
    """An answer that begins, and waits before each portion for its gate. Each is a message of its own:
    of a longer one a page shows the beginning."""
    texts = [["Beginning.\n\n"], *([f"{one}\n\n" for one in portion] for portion in portions)]
    beginning, *rest = [
        b"".join(lmstudio_event(event) for event in _message(portion)) for portion in texts
    ]
    parts: list[bytes | AnyStep] = [
        lmstudio_event({"type": "chat.start", "model_instance_id": "test/model"}),
        beginning,
    ]
    for gate, message in zip(gates, rest, strict=True):
        parts += [gate, message]
    output: list[JsonObject] = [{"type": "message", "content": "".join(one)} for one in texts]
    result = lmstudio_result(output)
    return stream(*parts, lmstudio_event({"type": "chat.end", "result": result}))


def _message(texts: list[str]) -> list[JsonObject]:
    deltas: list[JsonObject] = [{"type": "message.delta", "content": text} for text in texts]
    return [{"type": "message.start"}, *deltas, {"type": "message.end"}]


def outgoing_bytes(web: Web) -> float:
    """What waits in this process for clients that do not read."""
    name = "tributary_outgoing_pending_bytes "
    address = f"http://127.0.0.1:{web.port}/metrics"
    lines = httpx.get(address, timeout=SOON_SECONDS, trust_env=False).text.splitlines()
    (value,) = (line.removeprefix(name) for line in lines if line.startswith(name))
    return float(value)


def test_memory_for_slow_viewers_is_bounded(cluster: Cluster) -> None:
    portions = [PARAGRAPHS[start : start + PORTION] for start in range(0, len(PARAGRAPHS), PORTION)]
    gates = [cluster.gate() for _ in portions]
    web = cluster.web
    web.terminate()
    web.start(change="small_send_buffers")
    cluster.fake.script(script_of(portions, gates))
    run = web.send("A long story")
    with Viewers(cluster, run) as viewers, contextlib.ExitStack() as stack:
        viewers.until_shown("Beginning")
        slow = [SlowTab(web, run) for _ in range(VIEWERS)]
        for tab in slow:
            stack.callback(tab.leave)
        before = [resident_bytes(one) for one in cluster.webs]
        for gate, portion in zip(gates, portions, strict=True):
            cluster.fake.release(gate.name)
            viewers.until_shown(portion[-1].partition(">")[0].strip())
        entries = assert_ended(web, run, "completed")
        # The others have all of it, at both processes, while the slow ones have read nothing.
        for viewer in viewers.all:
            viewer.tab.until_seq(run, len(entries))
            viewer.program.until_ended()
        grown = [
            resident_bytes(one) - earlier for one, earlier in zip(cluster.webs, before, strict=True)
        ]
        assert not any(tab.messages for tab in slow)
        waiting = outgoing_bytes(web)

        reading = slow[:READING_AGAIN]
        for tab in reading:
            tab.reads.set()
        for tab in reading:
            tab.until(lambda tab: tab.has_ended or tab.cursors[run][0] >= len(entries))
        viewers.assert_complete()

    assert waiting < VIEWERS * MOST_WAITING_BYTES
    owed = VIEWERS * sum(map(len, PARAGRAPHS))
    assert owed > MOST_BYTES
    assert grown[0] - grown[1] < MOST_BYTES
    for tab in reading:
        assert tab.cursors[run] == cursor_of(entries)
        assert tab.pages[run].state() == page_of(run, entries).state()
    # The next test gets a process with ordinary buffers.
    web.terminate()
