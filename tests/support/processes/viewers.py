"""Viewers of a run of a real site: an API client that reads its events, and a page in a tab."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self
from uuid import UUID

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync import client

from chat.wire.sse import Decoder, Frame
from tests.rendering.dom import Page
from tests.support.open_blocks import completed
from tests.support.pages import BEGINNING, Cursor, page_of
from tests.support.processes.site import ORIGIN, SOON_SECONDS, Site


class Listener:
    """Receives in a thread of its own, until the connection ends or is left."""

    def __init__(self) -> None:
        self.has_ended = False
        self.failure: Exception | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def until(self, holds: Callable[[Self], object]) -> None:
        """Raises ``TimeoutError``, at once when the connection has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self.has_ended or holds(self), SOON_SECONDS)
            if not holds(self):
                raise TimeoutError(f"it did not arrive; {self!r}")

    def __repr__(self) -> str:
        return f"{type(self).__name__} ended={self.has_ended} failure={self.failure!r}"

    def until_ended(self) -> None:
        self.until(lambda listener: listener.has_ended)

    def _guarded(self) -> None:
        try:
            self._listen()
        except Exception as failure:
            self.failure = failure
        with self._changed:
            self.has_ended = True
            self._changed.notify_all()

    def _listen(self) -> None:
        raise NotImplementedError


class Program(Listener):
    """Reads ``/api/v1/runs/<id>/events``; ``frames`` are those with events."""

    def __init__(self, site: Site, run: UUID, *, by: str = "Bob", after: int = 0) -> None:
        super().__init__()
        self.frames: list[Frame] = []
        self.raw = b""
        self._client = httpx.Client(timeout=SOON_SECONDS, trust_env=False, verify=False)
        url = f"http://127.0.0.1:{site.port}/api/v1/runs/{run}/events?after={after}"
        self._request = self._client.build_request("GET", url, headers=site.headers(by))
        self._response: httpx.Response | None = None
        self._thread.start()

    def _listen(self) -> None:
        decoder = Decoder()
        self._response = response = self._client.send(self._request, stream=True)
        with contextlib.closing(response):
            assert response.status_code == 200
            for data in response.iter_raw():
                with self._changed:
                    self.raw += data
                    self.frames += [one for one in decoder.feed(data) if one.event]
                    self._changed.notify_all()

    def until_event(self, kind: str) -> None:
        self.until(lambda program: any(frame.event == kind for frame in program.frames))

    @property
    def seqs(self) -> list[int]:
        return [int(frame.id or 0) for frame in self.frames]

    def leave(self) -> None:
        if self._response is not None:
            # Closing alone would not wake the thread that reads.
            with contextlib.suppress(OSError):
                network: socket.socket = self._response.extensions["network_stream"].get_extra_info(
                    "socket"
                )
                network.shutdown(socket.SHUT_RDWR)
        self._client.close()
        self._thread.join(SOON_SECONDS)


class ReadingConnection(client.ClientConnection):
    """Delivers what was read before the close frame even if that can no longer be answered.

    The library's own connection drops what it has just read when it cannot send.
    """

    def send_data(self) -> None:
        with contextlib.suppress(OSError):
            super().send_data()


def open_socket(
    site: Site, *, by: str = "", origin: str | None = ORIGIN, **options: Any
) -> client.connect:
    """A websocket as a browser in which ``by`` is signed in opens it from a page of ``origin``;
    ``options`` are those of the library."""
    return client.connect(
        f"ws://127.0.0.1:{site.port}/live/",
        origin=origin,
        additional_headers={"Cookie": site.headers(by)["Cookie"]},
        compression=None,
        proxy=None,
        open_timeout=SOON_SECONDS,
        close_timeout=SOON_SECONDS,
        # No browser pings. With a ping each 20 seconds the library would close the connection of a
        # viewer that doesn't read, or of a server that has been busy for that long.
        ping_interval=None,
        max_size=None,
        create_connection=ReadingConnection,
        **options,
    )


class Tab(Listener):
    """A page in a browser tab with its websocket: applies patches and acknowledges them."""

    def __init__(
        self,
        site: Site,
        *runs: UUID,
        by: str = "Bob",
        room: UUID | None = None,
        pages: dict[UUID, Page] | None = None,
        cursors: dict[UUID, Cursor] | None = None,
    ) -> None:
        super().__init__()
        self.messages: list[dict[str, Any]] = []
        self.pages = pages or {run: page_of(run, []) for run in runs}
        self._held: dict[UUID, dict[str, str]] = {run: {} for run in self.pages}
        self.cursors = cursors or dict.fromkeys(runs, BEGINNING)
        self.close_code: int | None = None
        self._stack = contextlib.ExitStack()
        self._socket = self._stack.enter_context(self._open(site, by))
        self._hello(room)
        self._thread.start()

    def _open(self, site: Site, by: str) -> client.connect:
        return open_socket(site, by=by)

    def _hello(self, room: UUID | None) -> None:
        runs = [
            {"run": run.hex, "seq": seq, "check": check, "holds": True}
            for run, (seq, check) in self.cursors.items()
        ]
        channels = {"queue": {}, "page": {"revision": 0}}
        self.say(type="hello", room=room and room.hex, runs=runs, channels=channels)

    def say(self, **message: object) -> None:
        self._socket.send(json.dumps(message))

    def _listen(self) -> None:
        try:
            for text in self._socket:
                with self._changed:
                    self._take(json.loads(text))
                    self._changed.notify_all()
        except ConnectionClosed:
            pass
        self.close_code = self._socket.close_code

    def _take(self, message: dict[str, Any]) -> None:
        if "heartbeat" in message:
            return
        if "content" in message:
            # The values that frames leave out.
            message = {"replaces": False, "live": True, **message}
        self.messages.append(message)
        if "content" not in message:
            return
        run = UUID(message["run"])
        assert message["replaces"] or message["after"] == self.cursors[run][0]
        self.pages[run].apply(completed(message, self._held[run]))
        self.cursors[run] = message["seq"], message["check"]
        self.say(type="ack", runs={run.hex: message["seq"]})

    def __repr__(self) -> str:
        return f"{super().__repr__()} code={self.close_code} at={self.cursors}"

    def until_seq(self, run: UUID, seq: int) -> None:
        self.until(lambda tab: tab.cursors[run][0] >= seq)

    def until_shown(self, run: UUID, text: str) -> None:
        self.until(lambda tab: text in tab.pages[run].answer.text())

    def until_over(self, run: UUID) -> None:
        self.until(
            lambda tab: any(
                message.get("run") == run.hex and not message["live"] for message in tab.messages
            )
        )

    def leave(self) -> None:
        self._stack.close()
        self._thread.join(SOON_SECONDS)


@contextlib.contextmanager
def watching(site: Site, run: UUID) -> Iterator[tuple[Program, Tab]]:
    """Bob's API client and Bob's page, from the beginning of the run."""
    program, tab = Program(site, run), Tab(site, run)
    try:
        yield program, tab
    finally:
        program.leave()
        tab.leave()
