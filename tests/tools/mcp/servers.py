"""MCP servers of the tests: one over the official library, in each version, and one that answers as told."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import ToolAnnotations

from tests.support.hostile_server import HostileServer, Peer, answer

MODERN = "2026-07-28"
ERAS = (MODERN, "2025-11-25", "2025-06-18")
PNG = b"\x89PNG\r\n\x1a\n"


class OwnServer:
    """A server with a tool of each sort. ``calls`` counts what ran; ``waiting`` tells that a tool waits."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.waiting = asyncio.Event()
        self.was_cancelled = asyncio.Event()
        self.library = MCPServer("Harbor")
        self._add_tools()

    def _add_tools(self) -> None:
        tool = self.library.tool

        @tool(annotations=ToolAnnotations(read_only_hint=True))
        async def level(station: str, ctx: Context) -> str:
            """How high the water is."""
            self.calls.append("level")
            await ctx.report_progress(1, 2, "measuring")
            return f"2.31 m at {station}"

        @tool(annotations=ToolAnnotations(destructive_hint=True, idempotent_hint=True))
        def close_gate(gate: int) -> dict[str, int]:
            """Closes a gate."""
            self.calls.append("close_gate")
            return {"gate": gate}

        @tool()
        def picture() -> list[Image | str]:
            """Draws the gauge."""
            return ["The gauge", Image(data=PNG, format="png")]

        @tool()
        def broken() -> str:
            """Fails."""
            raise RuntimeError("secret inside")

        @tool()
        async def forever() -> str:
            """Never ends."""
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.was_cancelled.set()
            return ""


Serve = Callable[..., Any]


@asynccontextmanager
async def serving(own: OwnServer, era: str = MODERN) -> AsyncIterator[str]:
    """The address of the server, which speaks this version only."""
    application = own.library.streamable_http_app(stateless_http=False)
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        application if era == MODERN else OlderEra(application, era),
        log_config=None,
        lifespan="on",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    # Signals belong to the test run.
    server.install_signal_handlers = lambda: None
    task = asyncio.ensure_future(server._serve([bound]))
    try:
        while not server.started:
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await task
        bound.close()


class OlderEra:
    """The library's server without the newest version: it does not know ``server/discover``, and agrees on one older
    version."""

    def __init__(self, application: Any, version: str) -> None:
        self._application = application
        self._version = version

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._application(scope, receive, send)
            return
        message = json.loads(await _body_of(receive))
        if message.get("method") == "server/discover":
            await _reply(send, {"jsonrpc": "2.0", "id": message["id"], "error": UNKNOWN_METHOD})
            return
        if message.get("method") == "initialize":
            message["params"]["protocolVersion"] = self._version
        bodies = [json.dumps(message).encode()]

        async def replay() -> Any:
            if bodies:
                return {"type": "http.request", "body": bodies.pop()}
            return await receive()

        headers = [pair for pair in scope["headers"] if pair[0] != b"content-length"]
        await self._application({**scope, "headers": headers}, replay, send)


UNKNOWN_METHOD = {"code": -32601, "message": "Method not found"}


async def _body_of(receive: Any) -> bytes:
    pieces = []
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)


async def _reply(send: Any, value: object) -> None:
    body = json.dumps(value).encode()
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


# --- a server that does whatever a test tells it ------------------------------------------------

# Takes the request's message and gives the members of its answer, or sends what it likes and gives None.
Reply = Callable[[Peer, dict[str, Any]], Any]

DISCOVERED = {
    "supportedVersions": [MODERN],
    "capabilities": {"tools": {}},
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "public",
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "Harbor", "version": "1"}},
}


def listed(*tools: Mapping[str, object], **members: object) -> dict[str, object]:
    return {
        "tools": list(tools),
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "public",
        **members,
    }


def tool_of(name: str, **members: object) -> dict[str, object]:
    return {"name": name, "inputSchema": {"type": "object"}, **members}


def text_result(text: str = "done", **members: object) -> dict[str, object]:
    return {"content": [{"type": "text", "text": text}], "resultType": "complete", **members}


def answered(result: object, message: Mapping[str, Any]) -> bytes:
    return answer(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())


def refused(code: int, message: Mapping[str, Any], text: str = "no") -> bytes:
    error = {"code": code, "message": text}
    return answer(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())


class ToldServer(HostileServer):
    """Speaks the newest version as far as connecting, and then does what ``replies`` says of each method."""

    def __init__(self, **replies: Reply) -> None:
        self.methods: list[str] = []
        self._replies = {name.replace("_", "/"): reply for name, reply in replies.items()}
        super().__init__(self._behave)

    async def _behave(self, peer: Peer) -> None:
        request = await peer.request()
        message = json.loads(request.body) if request.body else {}
        method = message.get("method", request.method)
        self.methods.append(method)
        if reply := self._replies.get(method):
            await reply(peer, message)
        elif method == "server/discover":
            await peer.send(answered(DISCOVERED, message))
        else:
            await peer.send(refused(-32601, message))
        await peer.finish()

    @property
    def calls(self) -> int:
        return self.methods.count("tools/call")


def sends(result: object) -> Reply:
    async def reply(peer: Peer, message: dict[str, Any]) -> None:
        await peer.send(answered(result, message))

    return reply


def sends_status(line: str, headers: str = "") -> Reply:
    return sends_bytes(answer(b"<h1>No</h1>", "text/html", line, headers))


async def dies(peer: Peer, message: dict[str, Any]) -> None:
    peer.reset()


async def _begins_a_session(peer: Peer, message: dict[str, Any]) -> None:
    result = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "Harbor", "version": "1"},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
    await peer.send(answer(body, headers="Mcp-Session-Id: s1\r\n"))


async def _is_unknown(peer: Peer, message: dict[str, Any]) -> None:
    await peer.send(refused(-32601, message))


async def _accepts(peer: Peer, message: dict[str, Any]) -> None:
    await peer.send(answer(b"", status="202 Accepted"))


# For a server of version 2025-11-25 with a session.
SESSION: Mapping[str, Reply] = {
    "server_discover": _is_unknown,
    "initialize": _begins_a_session,
    "notifications_initialized": _accepts,
}


def sends_bytes(data: bytes) -> Reply:
    async def reply(peer: Peer, message: dict[str, Any]) -> None:
        await peer.send(data)

    return reply
