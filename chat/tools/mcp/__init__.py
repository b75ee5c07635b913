"""The MCP client. Its library takes a second to import and is needed in runners only, so it is imported when
the first call or test begins, in a thread: importing this package does not load it."""

from __future__ import annotations

import asyncio
import importlib

from chat.tools.kinds import CallOutput, CallRequest, Cancellation, InputNeeded
from chat.tools.mcp.listing import ListRequest, ToolListing
from chat.upstreams.client import Client


async def call_mcp(request: CallRequest) -> CallOutput | InputNeeded:
    """Calls a tool of an MCP server, or continues such a call. Raises ``CallFailed``. Cancelling it ends the request at once."""
    await _load()
    from chat.tools.mcp.client import call

    return await call(request)


async def cancel_mcp_task(client: Client, cancellation: Cancellation) -> None:
    """Tells an MCP server that nobody waits for a task any more. What goes wrong with it doesn't matter."""
    await _load()
    from chat.tools.mcp.tasks import cancel

    await cancel(client, cancellation)


async def list_tools(request: ListRequest) -> ToolListing:
    """Connects to an MCP server and reads its tools. Raises ``ListingFailed``."""
    await _load()
    from chat.tools.mcp.client import list_tools

    return await list_tools(request)


async def _load() -> None:
    await asyncio.to_thread(importlib.import_module, "chat.tools.mcp.client")
