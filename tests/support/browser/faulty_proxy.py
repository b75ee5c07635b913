"""A proxy between a browser and a site that breaks websockets in one of several ways."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

from tests.support.browser.site import BrowserSite

HEAD_END = b"\r\n\r\n"
FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
# What a server is told that strips the upgrade: an ordinary request.
UPGRADES = (b"upgrade:", b"connection:", b"sec-websocket")

PASS = "pass"
# Answers the handshake with 403.
REFUSE = "refuse"
# Takes the headers of the upgrade away.
STRIP = "strip"
# Closes the connection.
RESET = "reset"
# Never answers.
HANG = "hang"
# Lets the handshake through, and then nothing that the server says.
MUTE = "mute"
# Closes the connection after the first byte behind the handshake.
KILL = "kill"


class FaultyProxy:
    """Passes bytes both ways; websockets as ``mode`` says. ``handshakes`` counts their attempts."""

    def __init__(self, site: BrowserSite) -> None:
        """``site`` has a port in ``proxy_ports``."""
        self.mode = PASS
        self.is_down = False
        self.handshakes = 0
        self.port = site.proxy_ports[0]
        self._site = site
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="faulty-proxy")

    def start(self) -> FaultyProxy:
        self._thread.start()
        assert self._is_ready.wait(20)
        return self

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._serving.cancel)
        self._thread.join(20)

    def cut_connections(self) -> None:
        """Every connection that is open breaks off."""
        self._loop.call_soon_threadsafe(self._cut_now)

    def __getattr__(self, name: str) -> Any:
        """In all other respects it is the site itself, at another address."""
        return getattr(self._site, name)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # --- in its thread ----------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._serving = self._loop.create_task(self._serve())
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._serving)
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self._is_ready.set()
        try:
            await asyncio.Event().wait()
        finally:
            server.close()
            self._cut_now()

    def _cut_now(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self._pass(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(HEAD_END)
        if self.is_down:
            return
        mode = PASS
        if b"upgrade: websocket" in head.lower():
            self.handshakes += 1
            mode = self.mode
        if mode == RESET:
            return
        if mode == REFUSE:
            writer.write(FORBIDDEN)
            await writer.drain()
            return
        if mode == HANG:
            await reader.read()
            return
        if mode == STRIP:
            lines = head.split(b"\r\n")
            head = b"\r\n".join(line for line in lines if not line.lower().startswith(UPGRADES))
        await self._join(mode, head, reader, writer)

    async def _join(
        self, mode: str, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._site.port)
        self._writers.add(back)
        back.write(head)
        try:
            ways = {
                asyncio.create_task(self._copy(reader, back)),
                asyncio.create_task(self._answer(mode, there, writer)),
            }
            _, others = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in others:
                way.cancel()
        finally:
            self._writers.discard(back)
            back.transport.abort()

    async def _answer(
        self, mode: str, there: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if mode in (MUTE, KILL):
            writer.write(await there.readuntil(HEAD_END))
        if mode == KILL:
            writer.write(await there.read(1))
            return
        while mode == MUTE and await there.read(65536):
            pass
        await self._copy(there, writer)

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
