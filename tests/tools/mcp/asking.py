"""MCP servers whose tools ask people in the middle of a call, and go on as tasks."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel, Field

from tests.support.hostile_server import Peer
from tests.tools.mcp.servers import DISCOVERED, ToldServer, answered, refused, text_result


class Berth(BaseModel):
    """What the tool ``book`` asks."""

    pier: Literal["north", "south"] = Field(description="Where to moor")
    nights: int = Field(ge=1, le=7, title="Nights")
    remark: str | None = None


def ask() -> Elicit[Berth]:
    return Elicit("Which berth?", Berth)


class AskingServer:
    """A server of the official library: each version of the protocol has its own way for the same tool. ``booked`` is
    what ran."""

    def __init__(self) -> None:
        self.booked: list[str] = []
        self.declared: list[Any] = []
        self.library = MCPServer("Harbor")
        tool = self.library.tool

        @tool()
        def book(
            ship: str, berth: Annotated[ElicitationResult[Berth], Resolve(ask)], ctx: Context
        ) -> str:
            """Books a berth."""
            self.declared.append(ctx.session.client_capabilities)
            if berth.action != "accept":
                return f"{ship}: {berth.action}"
            booked = f"{ship}: {berth.data.pier}, {berth.data.nights}"
            self.booked.append(booked)
            return booked

        @tool()
        async def pay(ctx: Context) -> str:
            """Sends people to a page."""
            result = await ctx.elicit_url("Pay here", "https://pay.example/x?y=1", "e1")
            return str(result.action)


class AskingBeside:
    """A server of an older version that asks in the stream of the session, not in the response to the call."""

    def __init__(self) -> None:
        self.library = MCPServer("Harbor")

        @self.library.tool()
        async def book(ctx: Context) -> str:
            schema = {"type": "object", "properties": {"nights": {"type": "integer"}}}
            result = await ctx.session.elicit_form("How many nights?", schema)
            return f"{result.action}: {result.content}"


def elicitation(message: str = "Sure?", **properties: object) -> dict[str, object]:
    """A request for a form."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def address(url: str, message: str = "Open this") -> dict[str, object]:
    return {
        "method": "elicitation/create",
        "params": {"mode": "url", "message": message, "url": url},
    }


def input_required(state: str | None = "s1", **requests: object) -> dict[str, object]:
    found: dict[str, object] = {"resultType": "input_required", "inputRequests": requests}
    return found if state is None else {**found, "requestState": state}


class TaskServer(ToldServer):
    """Its calls become tasks. ``states`` are the answers to ``tasks/get``, of which the last one stays: a state, an error
    with ``code``, or the bytes ``raw``; ``messages`` is
    what it got, by method."""

    def __init__(
        self, *states: dict[str, object], created: dict[str, object] | None = None
    ) -> None:
        self.states = list(states)
        self.messages: list[dict[str, Any]] = []
        self.names: list[str] = []
        self.updated = asyncio.Event()
        self.canceled = asyncio.Event()
        first = {"resultType": "task", "taskId": "task-1", "status": "working", **(created or {})}
        self._created = {**TASK, **first}
        super().__init__(
            server_discover=self._on("discover"),
            tools_call=self._on("call"),
            tasks_get=self._on("get"),
            tasks_update=self._on("update"),
            tasks_cancel=self._on("cancel"),
        )

    def _on(self, kind: str) -> Any:
        async def reply(peer: Peer, message: dict[str, Any]) -> None:
            self.messages.append(message)
            if kind == "discover":
                extensions = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
                capabilities = {"tools": {}, **extensions}
                await peer.send(answered({**DISCOVERED, "capabilities": capabilities}, message))
            elif kind == "call":
                await peer.send(answered(self._created, message))
            elif kind == "get":
                await peer.send(self._state(message))
            else:
                (self.updated if kind == "update" else self.canceled).set()
                await peer.send(answered({"resultType": "complete"}, message))

        return reply

    def _state(self, message: dict[str, Any]) -> bytes:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        raw = state.get("raw")
        if isinstance(raw, bytes):
            return raw
        if "code" in state:
            return refused(int(str(state["code"])), message, "Task not found")
        return answered({"resultType": "complete", "taskId": "task-1", **TASK, **state}, message)

    def sent(self, method: str) -> list[dict[str, Any]]:
        """The parameters of the requests of a method, without the members that each has."""
        found = [each["params"] for each in self.messages if each["method"] == method]
        return [{name: value for name, value in each.items() if name != "_meta"} for each in found]


TASK = {
    "createdAt": "2026-11-25T10:30:00Z",
    "lastUpdatedAt": "2026-11-25T10:30:00Z",
    "ttlMs": None,
    "pollIntervalMs": 1,
}


def working(message: str = "") -> dict[str, object]:
    return {"status": "working", **({"statusMessage": message} if message else {})}


def completed(text: str = "done") -> dict[str, object]:
    return {"status": "completed", "result": text_result(text)}


def asking(**requests: object) -> dict[str, object]:
    return {"status": "input_required", "inputRequests": requests}


def capabilities_in(body: bytes) -> dict[str, Any]:
    """What a client declares with a request."""
    params = json.loads(body)["params"]
    meta = params.get("_meta") or {}
    found = meta.get("io.modelcontextprotocol/clientCapabilities") or params.get("capabilities")
    assert isinstance(found, dict)
    return found
