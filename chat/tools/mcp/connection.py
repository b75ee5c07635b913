"""Connections to MCP servers, over the official library and the client of `chat.upstreams`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import mcp_types as types
from mcp.client._transport import Transport
from mcp.client.client import Client as Connection
from mcp.client.extension import ClientExtension
from mcp.client.session import ElicitationFnT, MessageHandlerFnT
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import LATEST_MODERN_VERSION

from chat.tools.command_lines import is_command
from chat.tools.mcp.command import command_streams
from chat.tools.mcp.transport import Endpoint, GuardedTransport, Traffic, open_client
from chat.upstreams.client import Client

# Negotiating the version: one request, or three with a server of an older version.
CONNECT_SECONDS = 45.0


@asynccontextmanager
async def connect(
    client: Client,
    endpoint: Endpoint,
    traffic: Traffic,
    *,
    on_elicitation: ElicitationFnT | None = None,
    on_message: MessageHandlerFnT | None = None,
    extensions: Sequence[ClientExtension] = (),
    is_modern: bool = False,
) -> AsyncIterator[Connection]:
    """Abilities that are not given here are not declared to the server: sampling, roots and logging never are. ``is_modern``: the
    server is known to speak the version without sessions, so nothing is negotiated."""
    with _keeping_cancellation():
        async with _transport(client, endpoint, traffic) as streams:
            options: dict[str, Any] = {"mode": LATEST_MODERN_VERSION} if is_modern else {}
            connection = Connection(
                streams,
                client_info=types.Implementation(name="Tributary", version="1"),
                # Each connection lives for one call or one list.
                cache=None,
                elicitation_callback=on_elicitation,
                message_handler=on_message,
                extensions=extensions,
                **options,
            )
            async with _within(CONNECT_SECONDS, connection):
                yield connection


@contextmanager
def _keeping_cancellation() -> Iterator[None]:
    """The library's groups of tasks lose a cancellation that arrives while one of their requests fails: that error comes
    out instead, and a call whose time is over would be repeated for ever."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError


@asynccontextmanager
async def _transport(
    client: Client, endpoint: Endpoint, traffic: Traffic
) -> AsyncIterator[Transport]:
    if is_command(endpoint.url):
        yield command_streams(endpoint, traffic)
        return
    async with open_client(GuardedTransport(client, endpoint, traffic)) as http:
        yield streamable_http_client(
            endpoint.url, http_client=http, max_sse_event_size=endpoint.most_bytes
        )


@asynccontextmanager
async def _within(seconds: float, connection: Connection) -> AsyncIterator[None]:
    """Enters the connection within this time."""
    async with asyncio.timeout(seconds) as limit:
        async with connection:
            limit.reschedule(None)
            yield


def trace_meta(traceparent: str) -> types.RequestParamsMeta | None:
    """The member ``_meta`` of a request that belongs to a trace."""
    return cast("types.RequestParamsMeta", {"traceparent": traceparent}) if traceparent else None


def cause_of(error: BaseException) -> BaseException:
    """The first error of a group: the library runs its requests in groups of tasks."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
