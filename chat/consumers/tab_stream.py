"""A tab's live connection as server-sent events, for where websockets are blocked."""

from __future__ import annotations

import msgspec
from django.core.exceptions import PermissionDenied
from django.http import Http404, QueryDict

from chat import access
from chat.consumers.greeting import Hello, greet
from chat.consumers.streams import STREAM_HEADERS, Refused, Stream
from chat.live.viewer import HEARTBEAT, Viewer, encode
from chat.live.watch import watch
from chat.wire.sse import encode_comment, encode_frame

# Some filters look at the first kilobytes of an answer before they pass any of it on.
PADDING = encode_comment(" " * 2048)
GREETING = encode(HEARTBEAT)
# Below the minute after which proxies give up on an answer that does not begin.
LONGEST_WAIT_SECONDS = 25

_decoder = msgspec.json.Decoder(Hello)


class TabStream(Stream):
    """``GET /live/stream/?hello=…``: the messages of the tab's websocket, until the tab leaves.

    With ``&wait=N`` the answer ends with the first of them, or without one after so many seconds:
    that gets through whatever collects answers before it passes them on.

    The address says everything that the tab would say on its websocket, and nothing is said
    later: any process can answer. A tab that follows other answers opens another stream from where
    it stands. Nothing is acknowledged: `send` waits while the client does not read.
    """

    viewer: Viewer | None = None
    transport = "sse"

    async def stream(self) -> None:
        query = QueryDict(self.scope["query_string"])
        hello, wait_seconds = _hello_of(query), _wait_of(query)
        if not watch.has_room_for(self.identity.user_pk):
            raise Refused(429, "too_many", "You have too many connections open.")
        if wait_seconds is not None:
            self.transport = "poll"
        self.viewer = viewer = Viewer(
            self.identity,
            self._say,
            self._end,
            is_acknowledged=False,
            transport=self.transport,
        )
        # Before anything is read: a right that ends meanwhile is noticed.
        watch.add(viewer)
        try:
            await greet(viewer, self.scope["user"], hello)
        except (Http404, PermissionDenied):
            raise Refused(404, "not_found", access.NOT_HERE) from None
        watch.look_now()
        await self.send_headers(status=200, headers=STREAM_HEADERS)
        await self.send_body(PADDING + encode_frame(None, None, GREETING), more_body=True)
        if wait_seconds is None:
            await viewer.run()
        else:
            await viewer.run_once(wait_seconds)
        await self.send_body(b"")

    def let_go(self) -> None:
        if self.viewer is not None:
            watch.remove(self.viewer)
            self.viewer.leave()

    async def _say(self, message: str) -> None:
        await self.send_body(encode_frame(None, None, message), more_body=True)

    async def _end(self, code: int) -> None:
        """A stream has no close codes: what the tab must know was said before."""


def _hello_of(query: QueryDict) -> Hello:
    try:
        return _decoder.decode(query.get("hello", "{}"))
    except (msgspec.DecodeError, RecursionError, ValueError):
        raise Refused(400, "unreadable", "This page is too old. Reload it.") from None


def _wait_of(query: QueryDict) -> int | None:
    """``None``: for as long as the tab stays."""
    asked = query.get("wait")
    if asked is None:
        return None
    if not (asked.isascii() and asked.isdigit()):
        return 0
    return min(int(asked[:4]), LONGEST_WAIT_SECONDS)
