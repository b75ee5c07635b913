"""Notices of servers that their list of tools has changed, heard as long as a call is open.

Servers of older versions send them with the response to the call. Those of the version without sessions send them to
clients that subscribe, with a request of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import mcp_types as types
from mcp.client.client import Client as Connection
from mcp.client.session import IncomingMessage, MessageHandlerFnT
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from chat.tools.command_lines import is_command
from chat.tools.kinds import CallRequest
from chat.tools.mcp.connection import cause_of, connect
from chat.tools.mcp.transport import Endpoint, Traffic

logger = logging.getLogger(__name__)

# Bytes of all notices of one subscription.
LISTEN_BYTES = 256 * 1024
# A call that changes the list is to be sent after the subscription has begun, and none is to wait long for it.
BEGIN_SECONDS = 1.0
END_SECONDS = 5.0


def notices_of(request: CallRequest) -> MessageHandlerFnT:
    """Takes the messages that come with the response to a call."""

    async def take_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            await request.list_changed()

    return take_message


@asynccontextmanager
async def subscribed(request: CallRequest, connection: Connection) -> AsyncIterator[None]:
    """Subscribes to changes, if the server of the connection offers that. What goes wrong with it leaves the call
    alone. The list of a command's process ends with it."""
    offered = connection.server_capabilities.tools
    is_modern = connection.protocol_version in MODERN_PROTOCOL_VERSIONS
    has_notices = is_modern and offered is not None and offered.list_changed
    if not has_notices or is_command(request.address.url):
        yield
        return
    has_begun = asyncio.Event()
    listening = asyncio.create_task(_listen(request, has_begun))
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(BEGIN_SECONDS):
                await has_begun.wait()
        yield
    finally:
        listening.cancel()
        # A subscription that doesn't close must not cost the result of the call.
        await asyncio.wait([listening], timeout=END_SECONDS)


async def _listen(request: CallRequest, has_begun: asyncio.Event) -> None:
    address = request.address
    endpoint = Endpoint(url=address.url, headers=address.headers, most_bytes=LISTEN_BYTES)
    try:
        async with (
            connect(request.client, endpoint, Traffic(), is_modern=True) as connection,
            connection.listen(tools_list_changed=True) as changes,
        ):
            has_begun.set()
            async for _ in changes:
                await request.list_changed()
    except Exception as error:
        # The list is read again when it is stale.
        logger.info("tool_list.unheard error=%s", type(cause_of(error)).__name__)
    finally:
        has_begun.set()
