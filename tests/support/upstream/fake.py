"""The fake upstream of the tests: the demo without pauses, with scripts, records and waiting."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Self

from chat.demo.application import DemoApplication
from chat.demo.frames import json_bytes
from chat.demo.models import DEMO_SERVERS
from tests.support.upstream.control import Control, Performance, Record
from tests.support.upstream.http import Exchange, HttpServer, Request
from tests.support.upstream.script import Script

# Longer than anything that goes right; what goes wrong should not hold up a test run.
WAIT_SECONDS = 60.0
JSON = {"Content-Type": "application/json"}
# The rest gives the demo's answer to a wrong address, with any key.
NEEDS_KEY = {path for server in DEMO_SERVERS for path in (server.chat, server.models_path)}


def unauthorised(request: Request) -> dict[str, object]:
    """Like the real servers, it shows the beginning of what was sent: a trap for code that stores it."""
    begin = request.header("authorization").removeprefix("Bearer ")[:8]
    message = f"Malformed API token provided: {begin}…" if begin else "An API token is required"
    return {
        "error": {"message": message, "type": "invalid_request_error", "code": "invalid_api_key"}
    }


async def serve_application(application: DemoApplication, exchange: Exchange) -> None:
    """Answer by an ASGI application. It is cancelled when the client leaves; where it ends without
    the end of its answer, the connection is closed."""
    request = exchange.request
    bodies = [{"type": "http.request", "body": request.body}]

    async def receive() -> object:
        if bodies:
            return bodies.pop()
        return await asyncio.Event().wait()

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = {name.decode(): value.decode() for name, value in message["headers"]}
            length = headers.pop("content-length", None)
            framing = "length" if length else "chunked"
            await exchange.head(
                message["status"], headers, framing=framing, length=int(length or 0)
            )
        elif message.get("more_body"):
            await exchange.write(message["body"])
        else:
            await exchange.finish(message["body"])

    scope = {"type": "http", "method": request.method, "path": request.path}
    await application(scope, receive, send)
    if exchange.outcome == "open":
        exchange.close()


class FakeUpstream:
    """An upstream for tests, on a port of its own.

    In an event loop: ``async with FakeUpstream() as fake:``. From synchronous code:
    ``fake = FakeUpstream.start_in_thread()`` and at the end ``fake.stop()``.
    Scripts are used up in order by the requests that they fit; a request that no script fits goes
    to the demo servers. Without ``required_key`` any request is authorized.
    """

    def __init__(self, *, speed: float = 0.0, required_key: str = "", port: int = 0) -> None:
        self.control = Control()
        self._demo = DemoApplication(speed=speed)
        self._required_key = required_key
        self._http = HttpServer(self._handle, port=port)
        self._thread: threading.Thread | None = None
        self._stopping: Callable[[], object] | None = None

    async def open(self) -> None:
        """Listen. Raises ``OSError`` where the address cannot be had."""
        self.control.bind()
        await self._http.start()

    async def aclose(self) -> None:
        """Stop listening and end every connection, in whatever state it is."""
        await self._http.stop()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    @property
    def url(self) -> str:
        return self._http.url

    async def _handle(self, exchange: Exchange) -> None:
        found = self.control.take(exchange.request)
        self.control.record(exchange)
        if found:
            await Performance(exchange, self.control).run(found)
        elif self._needs_another_key(exchange.request):
            await exchange.answer(401, JSON, json_bytes(unauthorised(exchange.request)))
        else:
            await serve_application(self._demo, exchange)

    def _needs_another_key(self, request: Request) -> bool:
        if not self._required_key or request.path not in NEEDS_KEY:
            return False
        is_bearer = request.header("authorization") == f"Bearer {self._required_key}"
        return not is_bearer and request.header("x-api-key") != self._required_key

    # --- scripting -----------------------------------------------------------------------------

    def script(self, *scripts: Script) -> None:
        """Queue what happens to the next requests."""
        self.control.add(*scripts)

    def release(self, gate: str) -> None:
        """Open a gate for good."""
        self.control.release(gate)

    def clear(self) -> None:
        """Forget scripts, gates, counts and records."""
        self.control.clear()

    # --- what happened ---------------------------------------------------------------------------

    @property
    def requests(self) -> list[Record]:
        return self.control.requests

    @property
    def posts(self) -> int:
        return self.control.posts

    @property
    def disconnects(self) -> int:
        """How many clients left before their answer was complete."""
        return self.control.disconnects

    @property
    def waiting(self) -> list[str]:
        """The gates at which an answer waits just now."""
        return self.control.waiting

    async def until(self, holds: Callable[[Self], bool], *, timeout: float = WAIT_SECONDS) -> None:
        """Wait until ``holds(fake)``, from any event loop. Raises ``TimeoutError``."""
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        with self.control.watched(lambda: loop.call_soon_threadsafe(changed.set)):
            async with asyncio.timeout(timeout):
                while not holds(self):
                    await changed.wait()
                    changed.clear()

    def wait_until(self, holds: Callable[[Self], bool], *, timeout: float = WAIT_SECONDS) -> None:
        """Wait until ``holds(fake)``, from a thread that is not the fake's. Raises ``TimeoutError``."""
        changed = threading.Event()
        with self.control.watched(changed.set):
            while not holds(self):
                if not changed.wait(timeout):
                    raise TimeoutError("the fake upstream did not get there")
                changed.clear()

    # --- in a thread -----------------------------------------------------------------------------

    @classmethod
    def start_in_thread(cls, *, speed: float = 0.0, required_key: str = "") -> Self:
        """A fake with an event loop in a thread of its own; it listens when this returns."""
        fake = cls(speed=speed, required_key=required_key)
        is_ready = threading.Event()
        fake._thread = threading.Thread(
            target=lambda: asyncio.run(fake._serve(is_ready)), name="fake-upstream", daemon=True
        )
        fake._thread.start()
        if not is_ready.wait(WAIT_SECONDS) or fake._stopping is None:
            raise RuntimeError("the fake upstream could not start")
        return fake

    def stop(self) -> None:
        """End a fake that runs in a thread, and wait for the thread."""
        if self._stopping and self._thread:
            self._stopping()
            self._thread.join(WAIT_SECONDS)

    async def _serve(self, is_ready: threading.Event) -> None:
        loop = asyncio.get_running_loop()
        end = asyncio.Event()
        try:
            await self.open()
            self._stopping = lambda: loop.call_soon_threadsafe(end.set)
        finally:
            is_ready.set()
        await end.wait()
        await self.aclose()
