"""A hardened Daphne: bounded memory regardless of clients, and an orderly startup and shutdown."""

# Daphne comes first: importing it installs the asyncio reactor, which must precede any other
# import of the reactor.
import daphne.server  # isort: skip

import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from types import FrameType
from typing import Any

from daphne.endpoints import build_endpoint_description_strings
from twisted.internet import defer
from twisted.internet import reactor as _reactor
from twisted.logger import (
    FilteringLogObserver,
    LogLevel,
    LogLevelFilterPredicate,
    STDLibLogObserver,
    globalLogBeginner,
)

from project.server.backpressure import SEND_NOW, BufferLimits
from project.server.connections import ConnectionLimits, HTTPFactory, WebSocketFactory

__all__ = ["ConnectionLimits", "Server", "fixed_root_path"]

logger = logging.getLogger(__name__)

# Twisted types it as a module; it is the asyncio reactor that Daphne installed.
reactor: Any = _reactor

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Hook = Callable[[], Awaitable[None]]

# After a restart, all tabs reconnect within a few seconds.
BACKLOG = 1024
# How often deadlines are checked.
CHECK_SECONDS = 1.0


def fixed_root_path(application: Application) -> Application:
    """Always serves at the root. Daphne would trust a root path in a request header."""

    async def at_the_root(scope: Scope, receive: Receive, send: Send) -> None:
        await application({**scope, "root_path": ""}, receive, send)

    return at_the_root


async def nothing() -> None:
    """A hook that does nothing."""


class Server(daphne.server.Server):
    """Serves one application on one TCP address until it is stopped.

    ``on_start`` is awaited once the reactor runs; if it raises, the server stops and ``run`` raises
    the same exception. ``on_stop`` is awaited at the end, even if the start failed or was canceled;
    meanwhile no connections are accepted, and open ones are still served. Then websockets are
    closed with 1012, streams end, and other responses get ``close_seconds``. The first SIGTERM or
    SIGINT starts this; the second exits immediately.
    """

    def __init__(
        self,
        application: Application,
        *,
        host: str,
        port: int,
        limits: ConnectionLimits | None = None,
        on_start: Hook = nothing,
        on_stop: Hook = nothing,
    ) -> None:
        self.limits = limits or ConnectionLimits()
        super().__init__(
            fixed_root_path(application),
            endpoints=build_endpoint_description_strings(host=host, port=port),
            server_name="",
            websocket_timeout=-1,
            websocket_connect_timeout=self.limits.connect_seconds,
            ping_interval=self.limits.ping_seconds,
            application_close_timeout=self.limits.close_seconds,
        )
        self.buffer_limits = BufferLimits(
            stall_seconds=self.limits.stall_seconds, ceiling_bytes=self.limits.outgoing_bytes
        )
        self.connections: dict[Any, dict[str, Any]] = {}
        self._host = host
        self._port = port
        self._on_start = on_start
        self._on_stop = on_stop
        self._is_stopping = False
        # Set when all connections were told to close; a websocket that opens later is told as well.
        self.is_leaving = False
        self._failure: Exception | None = None
        self.http_factory = HTTPFactory(self)
        self.ws_factory = self._websocket_factory()

    def _websocket_factory(self) -> WebSocketFactory:
        factory = WebSocketFactory(self, server="")
        factory.setProtocolOptions(
            autoPingTimeout=self.limits.pong_seconds,
            allowNullOrigin=True,
            openHandshakeTimeout=self.limits.connect_seconds,
            closeHandshakeTimeout=self.limits.farewell_seconds,
            webStatus=False,
        )
        return factory

    # Startup and shutdown.

    def listen(self) -> str:
        """Binds the port and returns the address. Raises Twisted's ``CannotListenError``."""
        self._listener = reactor.listenTCP(
            self._port, self.http_factory, backlog=BACKLOG, interface=self._host
        )
        address = self._listener.getHost()
        host = f"[{address.host}]" if ":" in address.host else address.host
        self.address = f"http://{host}:{address.port}"
        return self.address

    def run(self) -> None:
        """Serves until everything has ended. Call ``listen`` first."""
        forward_errors()
        asyncio.set_event_loop(reactor._asyncioEventloop)
        self._loop: asyncio.AbstractEventLoop = reactor._asyncioEventloop
        reactor.callWhenRunning(self._begin)
        reactor.addSystemEventTrigger("before", "shutdown", self._end)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        reactor.run(installSignalHandlers=False)
        if self._failure is not None:
            raise self._failure

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._is_stopping:
            os._exit(128 + number)
        self._is_stopping = True
        reactor.callFromThread(self.stop)

    def _begin(self) -> None:
        self._starting = self._loop.create_task(self._start())
        self._check_forever()

    async def _start(self) -> None:
        try:
            await self._on_start()
        except Exception as error:
            self._failure = error
            self.stop()
        else:
            logger.info("serving address=%s", self.address)

    def _end(self) -> "defer.Deferred[None]":
        self._is_stopping = True
        ending = self._loop.create_task(self._shut_down())
        return defer.Deferred.fromFuture(ending).addErrback(
            lambda failure: logger.error("shutdown failed", exc_info=failure.value)
        )

    async def _shut_down(self) -> None:
        logger.info("stopping connections=%d", len(self.connections))
        self._starting.cancel()
        await asyncio.wait([self._starting])
        await defer.maybeDeferred(self._listener.stopListening).asFuture(self._loop)
        await self._drain()
        self.is_leaving = True
        for protocol in list(self.connections):
            protocol.go_away()
        await self._until_quiet(self.limits.close_seconds)
        await self._cancel_applications()

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(self.limits.drain_seconds):
                await self._on_stop()
        except TimeoutError:
            logger.error("the stop hook took too long and was cancelled")
        except Exception:
            logger.exception("the stop hook failed")

    async def _until_quiet(self, seconds: float) -> None:
        """Waits until all connections are closed and all responses are sent, for at most
        ``seconds``."""
        deadline = self._loop.time() + seconds
        while self.connections or self.buffer_limits.pending_bytes:
            if self._loop.time() > deadline:
                return
            await asyncio.sleep(0.02)
        # The last response may still be waiting for its turn in the reactor.
        await asyncio.sleep(0.02)

    async def _cancel_applications(self) -> None:
        tasks = [
            details["application_instance"]
            for details in self.connections.values()
            if "application_instance" in details
        ]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1)

    # Connections. Daphne polls its applications once a second, and stops polling for good when one
    # of them fails during a response. Here, a callback runs when an application ends.

    def create_application(self, protocol: Any, scope: Scope) -> "asyncio.Queue[Any]":
        if scope["type"] == "websocket":
            scope[SEND_NOW] = partial(self.send_now, protocol)
        queue: asyncio.Queue[Any] = super().create_application(protocol, scope)
        task = self.connections[protocol]["application_instance"]
        task.add_done_callback(partial(self._application_ended, protocol))
        return queue

    def _application_ended(self, protocol: Any, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("application failed", exc_info=error)
        details = self.connections[protocol]
        del details["application_instance"]
        if "disconnected" in details:
            del self.connections[protocol]
        else:
            protocol.application_ended()

    def protocol_disconnected(self, protocol: Any) -> None:
        details = self.connections.get(protocol)
        if details is None or "disconnected" in details:
            return
        details["disconnected"] = time.monotonic()
        if "application_instance" not in details:
            del self.connections[protocol]

    async def handle_reply(self, protocol: Any, message: dict[str, Any]) -> None:
        """Forwards a message of the application after the client has read the earlier ones.

        If it is canceled while waiting, nothing was forwarded.
        """
        if message["type"] in ("http.response.body", "websocket.send"):
            await self._until_wanted(protocol)
        await super().handle_reply(protocol, message)

    def send_now(self, protocol: Any, text: str) -> bool:
        """Sends over a websocket, unless the client has not read the earlier messages yet."""
        details = self.connections.get(protocol)
        if details is None or "disconnected" in details or protocol.write_buffer.is_paused:
            return False
        protocol.serverSend(text)
        return True

    async def _until_wanted(self, protocol: Any) -> None:
        if protocol.write_buffer.is_paused:
            await protocol.write_buffer.writable()
        details = self.connections.get(protocol)
        if details is None or "disconnected" in details:
            # Without this, an application that only sends would never yield to the event loop.
            await asyncio.sleep(0)

    def _check_forever(self) -> None:
        try:
            self._check()
        except Exception:
            logger.exception("check of connections failed")
        reactor.callLater(CHECK_SECONDS, self._check_forever)

    def _check(self) -> None:
        latest = time.monotonic() - self.limits.close_seconds
        for protocol, details in list(self.connections.items()):
            if "disconnected" not in details:
                protocol.check_timeouts()
            elif details["disconnected"] < latest:
                details["application_instance"].cancel()
        self.buffer_limits.sweep()


def forward_errors() -> None:
    """Forwards Twisted's errors to our log, without its other messages."""
    at_least_errors = LogLevelFilterPredicate(defaultLogLevel=LogLevel.error)
    observer = FilteringLogObserver(STDLibLogObserver("twisted"), [at_least_errors])
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False, discardBuffer=True)
