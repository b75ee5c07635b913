"""The demo servers as an ASGI application: one API for each kind of server, without a model, and one of tools."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from typing import Any

from chat.demo import continuations, lmstudio, mcp, mockups, scenes
from chat.demo.chat_completions import ChatEncoder
from chat.demo.encoder import Encoder, Pace
from chat.demo.frames import STREAM_HEADERS, json_bytes
from chat.demo.mcp import DemoTools
from chat.demo.models import DEMO_SERVERS, MCP_PATH, DemoServer
from chat.demo.recordings import RecordedAnswer
from chat.demo.requests import BadRequest, Cut, DemoRequest, DemoState

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

_CHATS = {server.chat: server for server in DEMO_SERVERS}
_LISTS = {server.models_path: server for server in DEMO_SERVERS if server.models_path}
_LIVE: Mapping[str, Callable[..., Encoder]] = {
    "lmstudio": lmstudio.NativeEncoder,
    "openai_chat": ChatEncoder,
}


class DemoApplication:
    """All demo servers at one address. ``speed`` divides all waiting; 0 means none.

    The last question of each answer that ``previous_response_id`` may continue is all that it keeps
    of people's texts. An answer ends when its client disconnects.
    """

    def __init__(self, *, speed: float = 1.0) -> None:
        self._speed = speed
        self._state = DemoState()
        self._tools = DemoTools(speed=speed)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        body = await _body_of(receive)
        method, path = scope["method"], scope["path"]
        if method == "POST" and path in _CHATS:
            await self._chat(_CHATS[path], body, receive, send)
        elif path == MCP_PATH:
            await self._mcp(method, body, receive, send)
        elif method == "GET" and path in _LISTS:
            server = _LISTS[path]
            is_native = server.dialect == "lmstudio"
            listed = lmstudio.models(server, self._state) if is_native else server.openai_list
            await _answer(send, 200, listed)
        elif method == "GET" and path.startswith(mockups.PATH):
            await self._file(path, send)
        else:
            # LM Studio answers 200 here; a wrong base URL has to be noticed all the same.
            await _answer(send, 200, {"error": f"Unexpected endpoint or method. ({method} {path})"})

    async def _file(self, path: str, send: Send) -> None:
        found = mockups.file_at(path, self._state)
        if found is None:
            await _answer(send, 404, {"error": {"message": "No such file", "code": "not_found"}})
        else:
            await _respond(send, 200, {"Content-Type": found[0]}, found[1])

    async def _chat(self, server: DemoServer, body: bytes, receive: Receive, send: Send) -> None:
        try:
            asked = _read(server, body, self._state)
        except BadRequest as refusal:
            await _answer(send, 400, refusal.body)
            return
        make = _LIVE.get(server.dialect, RecordedAnswer)
        encoder = make(asked, scenes.choose(asked), self._state)
        await _until_end_or_left(self._stream(encoder, send), receive)

    async def _mcp(self, method: str, body: bytes, receive: Receive, send: Send) -> None:
        message = _object(body)
        if method != "POST" or message is None:
            await _answer(send, 405 if method != "POST" else 400, {})
        elif "id" not in message:
            await _respond(send, 202, {}, b"")
        else:
            await _until_end_or_left(self._call_tool(message, send), receive)

    async def _call_tool(self, message: dict[str, Any], send: Send) -> None:
        await _start(send, 200, STREAM_HEADERS)
        async for answer in self._tools.messages(message):
            await send({"type": "http.response.body", "body": mcp.frame(answer), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _stream(self, encoder: Encoder, send: Send) -> None:
        """Sends the answer. An answer that is to be cut stays unfinished, so the server closes the
        connection."""
        await _start(send, 200, STREAM_HEADERS)
        pace = Pace(self._speed)
        # The last event is sent with the end, so that no client can disconnect in between.
        waiting = b""
        try:
            for item in encoder.events():
                if waiting:
                    await send({"type": "http.response.body", "body": waiting, "more_body": True})
                    waiting = b""
                if isinstance(item, float):
                    await pace.wait(item)
                else:
                    waiting = item if isinstance(item, bytes) else encoder.frame(item)
        except Cut:
            return
        await send({"type": "http.response.body", "body": waiting + encoder.done})


def _read(server: DemoServer, data: bytes, state: DemoState) -> DemoRequest:
    body = _object(data)
    if body is None:
        raise BadRequest("The request body is not a JSON object", code="json_parse_error")
    if server.dialect == "lmstudio":
        return lmstudio.read(server, body, state)
    return continuations.read(server, body)


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


# --- ASGI ------------------------------------------------------------------------------------


async def _body_of(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)


async def _until_end_or_left(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_until_left(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
    if not working.cancelled():
        working.result()


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _start(send: Send, status: int, headers: Mapping[str, str]) -> None:
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})


async def _respond(send: Send, status: int, headers: Mapping[str, str], body: bytes) -> None:
    await _start(send, status, {**headers, "Content-Length": str(len(body))})
    await send({"type": "http.response.body", "body": body})


async def _answer(send: Send, status: int, body: object) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    await _respond(send, status, headers, json_bytes(body))
