"""The runner's own small HTTP server: health and figures, and nothing else."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from chat.health import answers
from chat.health.answers import Answer
from chat.health.permission import Asker, may_see

# A probe's request is one packet, and is there at once.
REQUEST_BYTES = 8 * 1024
REQUEST_SECONDS = 5.0
CONNECTIONS = 32

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}
_NOT_FOUND = answers.refused(404, "There is nothing here.")


class ProbeServer:
    """Answers one request for each connection. `start` it once, `close` it at the end."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Binds, and returns the port. Raises ``OSError``."""
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
        # Not at the end of the task: one that is cancelled before it begins has no end.
        task.add_done_callback(lambda _: writer.close())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Who sends nonsense, too much, or too slowly, or does not read, is let go without a word.
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
        return _encode(answers.refused(400, "That is no request."))
    method, target, _ = words
    answer = await _find(
        method, target.partition("?")[0], Asker(peer, _headers(lines), is_direct=True)
    )
    return _encode(answer, with_body=method != "HEAD")


async def _find(method: str, path: str, asker: Asker) -> Answer:
    if path not in ("/healthz", "/readyz", "/metrics"):
        return _NOT_FOUND
    if path == "/metrics" and not may_see(asker):
        return _NOT_FOUND
    if method not in ("GET", "HEAD"):
        return answers.refused(405, "Only GET is possible here.")
    if path == "/healthz":
        return answers.alive()
    if path == "/readyz":
        return await answers.ready(in_detail=may_see(asker))
    return await answers.figures_page()


def _headers(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip()
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def _encode(answer: Answer, *, with_body: bool = True) -> bytes:
    reason = _REASONS.get(answer.status, "Unavailable")
    headers = {**answer.headers, "Connection": "close"}
    lines = [f"HTTP/1.1 {answer.status} {reason}", *(f"{k}: {v}" for k, v in headers.items())]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head + answer.body if with_body else head
