"""Takes the tools that a server has into the team's tools.

A new tool is off. One that has changed since somebody switched it on is off again, and keeps the definition that was
seen until somebody has seen the new one. One that is no longer listed is off, or deleted if it was never on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from chat.core.notify import publish_after_commit
from chat.models import Tool, ToolKind, ToolRule, ToolServer
from chat.result.deferred_tools import RESERVED_NAMES
from chat.tools.definitions import tool_digest
from chat.tools.mcp.listing import (
    LEAST_LIST_SECONDS,
    MOST_TOOLS,
    RemoteTool,
    ToolListing,
    digest_of,
)
from chat.tools.servers import GONE, TESTS

WIRE_NAME_LENGTH = 64
# Tools of a server with those that it no longer lists and that were on once: it may list other names each time.
MOST_ROWS = 2 * MOST_TOOLS
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")


def expire_list(call: int) -> None:
    """The server of a call tells that its list has changed: a runner reads it again, as soon as it may."""
    server = ToolServer.objects.filter(tools__calls=call, tested_at__isnull=False).first()
    if server is None or server.tested_at is None:
        return
    now = timezone.now()
    # A server may tell it all the time.
    at = max(now, server.tested_at + timedelta(seconds=LEAST_LIST_SECONDS))
    later = Q(list_expires_at=None) | Q(list_expires_at__gt=at)
    if ToolServer.objects.filter(later, pk=server.pk).update(list_expires_at=at) and at == now:
        publish_after_commit(TESTS)


def store_listing(server: ToolServer, listing: ToolListing) -> None:
    """Call this in a transaction that holds the server's row."""
    with transaction.atomic():
        known = {tool.remote_name: tool for tool in server.tools.select_for_update()}
        listed = {remote.name for remote in listing.tools}
        _delete_missing(server, listed)
        room = MOST_ROWS - server.tools.count()
        taken = set(Tool.objects.filter(team=server.team_id).values_list("name", flat=True))
        for remote in listing.tools:
            if tool := known.get(remote.name):
                _update(tool, remote)
            elif room > 0:
                room -= 1
                name = wire_name(remote.name, server.name, taken)
                taken.add(name)
                _create(server, remote, name)
        if not listing.is_cut:
            _turn_off_missing(known, listed)


def _create(server: ToolServer, remote: RemoteTool, name: str) -> None:
    Tool.objects.create(
        team_id=server.team_id,
        server=server,
        name=name,
        remote_name=remote.name,
        kind=ToolKind.MCP,
        rule=ToolRule.OFF,
        created_by_id=server.created_by_id,
        **remote.definition,
    )


def _update(tool: Tool, remote: RemoteTool) -> None:
    definition = remote.definition
    if digest_of(definition) == tool_digest(tool):
        if tool.offered is not None:
            Tool.objects.filter(pk=tool.pk).update(offered=None)
    elif tool.seen_digest:
        Tool.objects.filter(pk=tool.pk).update(offered=definition, rule=ToolRule.OFF)
    else:
        Tool.objects.filter(pk=tool.pk).update(offered=None, rule=ToolRule.OFF, **definition)


def _delete_missing(server: ToolServer, listed: set[str]) -> None:
    """Deletes the tools that aren't listed and that nobody has turned on: nothing refers to them."""
    unused = server.tools.filter(rule=ToolRule.OFF, seen_digest="", calls=None)
    unused.exclude(remote_name__in=listed).delete()


def _turn_off_missing(known: Mapping[str, Tool], listed: set[str]) -> None:
    missing = [tool.pk for name, tool in known.items() if name not in listed]
    Tool.objects.filter(pk__in=missing).update(offered=GONE, rule=ToolRule.OFF)


def wire_name(remote: str, server: str, taken: set[str]) -> str:
    """A free name that every API accepts. If the team has a tool of this name, the server's name comes first."""
    plain = _slug(remote) or "tool"
    prefixed = f"{_slug(server).lower()[:24].rstrip('_') or 'server'}_{plain}"
    taken = taken | RESERVED_NAMES
    for candidate in (plain[:WIRE_NAME_LENGTH], prefixed[:WIRE_NAME_LENGTH]):
        if candidate not in taken:
            return candidate
    number = 2
    while (name := f"{prefixed[: WIRE_NAME_LENGTH - 5]}_{number}") in taken:
        number += 1
    return name


def _slug(text: str) -> str:
    return _NOT_IN_A_NAME.sub("_", text).strip("_")
