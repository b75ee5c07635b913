"""Notices of servers that their list of tools has changed, heard as long as a call is open.

Servers of older versions send them with the response to the call. Those of the version without sessions send them to
clients that subscribe, with a request of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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
END_SECONDS = 5.0


def notices_of(request: CallRequest) -> MessageHandlerFnT:
    """Takes the messages that come with the response to a call."""

    async def take_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            request.list_changed()

    return take_message


@asynccontextmanager
async def subscribed(request: CallRequest, connection: Connection) -> AsyncIterator[None]:
    """Subscribes to changes, if the server of the connection offers that, beside the call, which neither waits for it nor
    minds what goes wrong with it: the change of a call that ends at once may be missed. The list of a command's process
    ends with it."""
    offered = connection.server_capabilities.tools
    is_modern = connection.protocol_version in MODERN_PROTOCOL_VERSIONS
    has_notices = is_modern and offered is not None and offered.list_changed
    if not has_notices or is_command(request.address.url):
        yield
        return
    listening = asyncio.create_task(_listen(request))
    try:
        yield
    finally:
        listening.cancel()
        # A subscription that doesn't close must not cost the result of the call.
        await asyncio.wait([listening], timeout=END_SECONDS)


async def _listen(request: CallRequest) -> None:
    address = request.address
    endpoint = Endpoint(url=address.url, headers=address.headers, most_bytes=LISTEN_BYTES)
    try:
        async with (
            connect(request.client, endpoint, Traffic(), is_modern=True) as connection,
            connection.listen(tools_list_changed=True) as changes,
        ):
            async for _ in changes:
                request.list_changed()
    except Exception as error:
        # The list is read again when it is stale.
        logger.info("tool_list.unheard error=%s", type(cause_of(error)).__name__)
