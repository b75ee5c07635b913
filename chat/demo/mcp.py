"""The demo's MCP server: six tools over streamable HTTP, in the version of the protocol that has no sessions."""

from __future__ import annotations

import base64
import json
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from chat.demo.encoder import Pace
from chat.demo.mcp_passage import passage
from chat.demo.mcp_tasks import EXTENSION, DemoTasks, UnknownTask, declares_tasks

JsonObject = dict[str, Any]

DATA = Path(__file__).parent / "data"
VERSION = "2026-07-28"
# A client may keep nothing of an answer.
UNCACHED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
METHOD_NOT_FOUND, INVALID_PARAMS, MISSING_CAPABILITY = -32601, -32602, -32021

LEVELS = {"Basel": 2.31, "Maxau": 4.08, "Cologne": 3.47}
# A survey measures at each station.
STATION_SECONDS = 2.0


class McpError(Exception):
    """An error of the protocol."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.body: JsonObject = {"code": code, "message": message}


class DemoTools:
    """The tools, and the state of the gate that one of them changes."""

    def __init__(self, *, speed: float = 1.0) -> None:
        self._speed = speed
        self._is_open = False
        self._tasks = DemoTasks(STATION_SECONDS, speed=speed)
        self._listed = tomllib.loads((DATA / "tools.toml").read_text())

    @property
    def name(self) -> str:
        return str(self._listed["name"])

    @property
    def definitions(self) -> list[JsonObject]:
        return [_definition(tool) for tool in self._listed["tools"]]

    async def messages(self, body: JsonObject) -> AsyncIterator[JsonObject]:
        """The messages that answer a request; the last one is its response."""
        try:
            async for message in self._messages(body):
                yield message
        except McpError as error:
            yield {"jsonrpc": "2.0", "id": body.get("id"), "error": error.body}

    async def _messages(self, body: JsonObject) -> AsyncIterator[JsonObject]:
        method, params = body.get("method"), body.get("params") or {}
        if method == "server/discover":
            yield _response(body, self._discovered())
        elif method == "tools/list":
            yield _response(body, {**UNCACHED, "tools": self.definitions})
        elif method == "tools/call":
            async for message in self._call(body, params):
                yield message
        elif method in self._tasks.methods:
            yield _response(body, self._about_task(method, params))
        else:
            raise McpError(METHOD_NOT_FOUND, f"Method not found: {method}")

    def _about_task(self, method: str, params: JsonObject) -> JsonObject:
        try:
            return self._tasks.answer(method, params.get("taskId"))
        except UnknownTask:
            raise McpError(INVALID_PARAMS, "Task not found") from None

    def _discovered(self) -> JsonObject:
        info = {"name": self.name, "version": self._listed["version"]}
        return {
            **UNCACHED,
            "supportedVersions": [VERSION],
            "capabilities": {"tools": {}, "extensions": {EXTENSION: {}}},
            "_meta": {"io.modelcontextprotocol/serverInfo": info},
        }

    async def _call(self, body: JsonObject, params: JsonObject) -> AsyncIterator[JsonObject]:
        name, arguments = params.get("name"), params.get("arguments") or {}
        if name == "survey_river":
            pace = Pace(self._speed)
            token = (params.get("_meta") or {}).get("progressToken")
            for number, station in enumerate(LEVELS):
                if token is not None:
                    yield _progress(token, number, f"Measuring at {station}")
                await pace.wait(STATION_SECONDS)
            lines = [f"{station}: {level:.2f} m" for station, level in LEVELS.items()]
            yield _response(body, _text("\n".join(lines), structured=LEVELS))
        elif name == "river_level":
            yield _response(body, _level(arguments.get("station")))
        elif name == "set_gate":
            self._is_open = bool(arguments.get("is_open"))
            word = "open" if self._is_open else "closed"
            yield _response(body, _text(f"The gate is {word}.", structured={"gate": word}))
        elif name == "book_passage":
            yield _response(body, passage(params))
        elif name == "dredge_river":
            yield _response(body, self._dredge(params))
        elif name == "river_chart":
            yield _response(body, _chart())
        else:
            raise McpError(INVALID_PARAMS, f"Unknown tool: {name}")

    def _dredge(self, params: JsonObject) -> JsonObject:
        if not declares_tasks(params):
            raise McpError(MISSING_CAPABILITY, "Missing required client capability")
        done = [f"Dredging at {station}" for station in LEVELS]
        return self._tasks.begin_task(done, _text("The river bed is clear at all stations."))


def _level(station: object) -> JsonObject:
    if station not in LEVELS:
        names = ", ".join(LEVELS)
        return {**_text(f"There is no such station. There are: {names}."), "isError": True}
    level = LEVELS[str(station)]
    return _text(f"{level:.2f} m at {station}", structured={"station": station, "metres": level})


def _chart() -> JsonObject:
    data = base64.b64encode((DATA / "media" / "chart.png").read_bytes()).decode()
    picture = {"type": "image", "data": data, "mimeType": "image/png"}
    text = {"type": "text", "text": "The level of the last weeks, in metres"}
    return {"resultType": "complete", "content": [text, picture]}


def _text(text: str, *, structured: object = None) -> JsonObject:
    found: JsonObject = {"resultType": "complete", "content": [{"type": "text", "text": text}]}
    if structured is not None:
        found["structuredContent"] = structured
    return found


def _definition(tool: JsonObject) -> JsonObject:
    return {
        "name": tool["name"],
        "description": tool["description"],
        "inputSchema": {
            "type": "object",
            "properties": tool["properties"],
            "required": tool["required"],
        },
        "annotations": {
            "readOnlyHint": tool.get("read_only", False),
            "destructiveHint": False,
            "idempotentHint": tool.get("idempotent", False),
        },
    }


def _progress(token: object, number: int, message: str) -> JsonObject:
    params = {
        "progressToken": token,
        "progress": number,
        "total": len(LEVELS),
        "message": message,
    }
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def _response(body: JsonObject, result: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": body.get("id"), "result": result}


def frame(message: JsonObject) -> bytes:
    """A message as an event of the stream."""
    return f"event: message\ndata: {json.dumps(message)}\n\n".encode()
