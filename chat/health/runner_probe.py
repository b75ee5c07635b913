"""The small HTTP server of a runner process: health and metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from django.conf import settings
from django.core.management.base import CommandError
from django.utils.translation import gettext

from chat.core.process import ProcessPhase, process
from chat.health import report
from chat.health.checks import checks
from chat.health.permission import Requester, may_see
from chat.health.report import HealthResponse

# The request of a probe is one packet, and arrives at once.
REQUEST_BYTES = 8 * 1024
REQUEST_SECONDS = 5.0
CONNECTIONS = 32

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}


class ProbeServer:
    """Serves one request for each connection. `start` it once, and `close` it at the end."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Listens, and returns the port. Raises ``OSError``."""
        self._server = await asyncio.start_server(
            self._accept, self._host, self._port, limit=REQUEST_BYTES
        )
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def connections(self) -> int:
        return len(self._serving)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._serving):
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) >= CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer), name="probe")
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        # A callback, because a task that is cancelled before it starts never reaches its ``finally``.
        task.add_done_callback(lambda _: writer.close())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Clients that send invalid, large or slow requests, or do not read, are disconnected
        # without a response.
        with suppress(
            TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                peer = writer.get_extra_info("peername")
                writer.write(await _answer(head.decode("latin-1"), peer[0] if peer else None))
                await writer.drain()


async def _answer(head: str, peer: str | None) -> bytes:
    first, *lines = head.rstrip().split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return _encode(report.refused(400, gettext("This isn’t a valid HTTP request.")))
    method, target, _ = words
    answer = await _find(
        method, target.partition("?")[0], Requester(peer, _headers(lines), is_direct=True)
    )
    return _encode(answer, with_body=method != "HEAD")


async def _find(method: str, path: str, requester: Requester) -> HealthResponse:
    if path not in ("/healthz", "/readyz", "/metrics"):
        return report.refused(404, gettext("Not found"))
    if path == "/metrics" and not may_see(requester):
        return report.refused(404, gettext("Not found"))
    if method not in ("GET", "HEAD"):
        return report.refused(405, gettext("Only GET is allowed."))
    if path == "/healthz":
        return report.alive()
    if path == "/readyz":
        return await report.ready(in_detail=may_see(requester))
    return await report.figures_page()


def _headers(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip()
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def _encode(answer: HealthResponse, *, with_body: bool = True) -> bytes:
    reason = _REASONS.get(answer.status, "Unavailable")
    headers = {**answer.headers, "Connection": "close"}
    lines = [f"HTTP/1.1 {answer.status} {reason}", *(f"{k}: {v}" for k, v in headers.items())]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head + answer.body if with_body else head


# --- the server beside a runner process: its phase, and where to ask for it -----------------------

logger = logging.getLogger(__name__)

REFUSED = 2


class Executing(Protocol):
    """The properties of a runner that the health endpoints report."""

    @property
    def has_started(self) -> bool: ...

    @property
    def is_draining(self) -> bool: ...


@asynccontextmanager
async def probing(runner: Executing) -> AsyncIterator[None]:
    """Serves ``RUNNER_HOST:RUNNER_PORT`` during this block, also while the runner starts and
    drains. Raises ``CommandError`` if it cannot listen there."""
    process.begins("runner", settings.VERSION, phase=lambda: _phase_of(runner))
    server = ProbeServer(settings.RUNNER_HOST, settings.RUNNER_PORT)
    try:
        if settings.RUNNER_PORT:
            await _listen(server)
        yield
    finally:
        await server.close()
        await checks.close()
        await process.ends()


async def _listen(server: ProbeServer) -> None:
    try:
        port = await server.start()
    except OSError as error:
        text = gettext("Can’t listen on %(address)s: %(reason)s.") % {
            "address": f"{settings.RUNNER_HOST}:{settings.RUNNER_PORT}",
            "reason": error.strerror,
        }
        raise CommandError(text, returncode=REFUSED) from None
    logger.info("probe.serving address=%s", f"http://{settings.RUNNER_HOST}:{port}")


def _phase_of(runner: Executing) -> ProcessPhase:
    if runner.is_draining:
        return ProcessPhase.DRAINING
    return ProcessPhase.SERVING if runner.has_started else ProcessPhase.STARTING
