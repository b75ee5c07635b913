"""The demo's MCP server, added to the first team at set-up and kept up to date."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction

from chat.demo.mcp import DemoTools
from chat.demo.models import MCP_PATH
from chat.models import AuditEvent, Team, Tool, ToolKind, ToolRule, ToolServer, Upstream
from chat.tools.mcp.listing import RemoteTool, digest_of
from chat.tools.server_lists import wire_name


def ensure_demo_tools() -> None:
    """Adds the demo's server with its tools to the first team, or updates its address. It runs at each start.

    Without a demo it is disabled and loses its address, and gets it back with the demo. One that somebody has
    disabled or removed stays so.
    """
    rows = ToolServer.objects.filter(is_demo=True)
    if not settings.DEMO_UPSTREAM_URL:
        rows.filter(is_enabled=True).update(is_enabled=False, address="")
        return
    address = f"{settings.DEMO_UPSTREAM_URL.rstrip('/')}{MCP_PATH}"
    rows.filter(address="").update(is_enabled=True)
    if not rows.update(address=address):
        _add_to_first_team()


def _add_to_first_team() -> None:
    """Adds the server to an installation that is older than it, and whose demo models people can choose."""
    team = Team.objects.order_by("pk").first()
    has_models = Upstream.objects.filter(is_demo=True, is_enabled=True).exists()
    name = DemoTools().name
    removed = AuditEvent.objects.filter(verb="tool_server.removed", detail__server=name)
    if team is None or not has_models or removed.exists():
        return
    if not team.tool_servers.filter(name=name).exists():
        add_demo_tools(team)


def add_demo_tools(team: Team) -> None:
    """The server with the tools that it has: those that read run automatically, the others ask. They are known here,
    so the first call waits for no test."""
    if not settings.DEMO_UPSTREAM_URL:
        return
    address = f"{settings.DEMO_UPSTREAM_URL.rstrip('/')}{MCP_PATH}"
    demo = DemoTools()
    with transaction.atomic():
        server = ToolServer.objects.create(team=team, name=demo.name, address=address, is_demo=True)
        taken = set(team.tools.values_list("name", flat=True))
        for remote in _tools(demo):
            name = wire_name(remote.name, server.name, taken)
            taken.add(name)
            Tool.objects.create(
                team=team,
                server=server,
                name=name,
                remote_name=remote.name,
                kind=ToolKind.MCP,
                rule=ToolRule.AUTO if remote.is_read_only else ToolRule.ASK,
                seen_digest=digest_of(remote.definition),
                **remote.definition,
            )


def _tools(demo: DemoTools) -> list[RemoteTool]:
    return [
        RemoteTool(
            name=tool["name"],
            description=tool["description"],
            schema=tool["inputSchema"],
            is_read_only=tool["annotations"]["readOnlyHint"],
            is_idempotent=tool["annotations"]["idempotentHint"],
            is_destructive=tool["annotations"]["destructiveHint"],
        )
        for tool in demo.definitions
    ]
