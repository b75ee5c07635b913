"""The MCP client. Its library takes a second to import and is needed in runners only, so it is imported when
the first call or test begins, in a thread: importing this package does not load it."""

from __future__ import annotations

import asyncio
import importlib

from chat.tools.kinds import CallOutput, CallRequest
from chat.tools.mcp.listing import ListRequest, ToolListing


async def call_mcp(request: CallRequest) -> CallOutput:
    """Calls a tool of an MCP server. Raises ``CallFailed``. Cancelling it ends the request at once."""
    await _load()
    from chat.tools.mcp.client import call

    return await call(request)


async def list_tools(request: ListRequest) -> ToolListing:
    """Connects to an MCP server and reads its tools. Raises ``ListingFailed``."""
    await _load()
    from chat.tools.mcp.client import list_tools

    return await list_tools(request)


async def _load() -> None:
    await asyncio.to_thread(importlib.import_module, "chat.tools.mcp.client")
