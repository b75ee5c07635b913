"""Cases of tool servers."""

from __future__ import annotations

from chat.models import Tool, ToolKind, ToolServer
from tests.access_matrix.case import Case, Values, World, administrators, tool_server_managers
from tests.access_matrix.objects import _team


def _tool_server(world: World) -> Values:
    server = ToolServer.objects.create(team=world.team, name="Harbor", address="http://a.test/mcp")
    return {"public_id": server.public_id}


def _remote_tool(world: World) -> Values:
    server = ToolServer.objects.create(team=world.team, name="Harbor", address="http://a.test/mcp")
    tool = Tool.objects.create(team=world.team, name="level", kind=ToolKind.MCP, server=server)
    return {"public_id": tool.public_id}


def _tool_server_fields(world: World) -> Values:
    return {"name": "Harbor 2", "address": "http://b.test/mcp", "headers": ""}


def _same_team(world: World) -> Values:
    return {"public_id": world.team.public_id}


def _web_search_fields(world: World) -> Values:
    return {
        "service": "searxng",
        "address": "http://search.test",
        "rule": "auto",
        "page_rule": "ask",
    }


TOOL_SERVER_CASES = [
    Case("web_search", tool_server_managers(200), "", _same_team),
    Case("web_search", tool_server_managers(302), "", _same_team, "post", _web_search_fields),
    Case("web_search_remove", tool_server_managers(302), "", _same_team, "post"),
    Case("tool_servers", administrators(200)),
    Case("tool_server_add", tool_server_managers(200), "", _team),
    Case("tool_server_add", tool_server_managers(302), "", _team, "post", _tool_server_fields),
    Case("tool_server", tool_server_managers(200), "", _tool_server),
    Case("tool_server_settings", tool_server_managers(200), "", _tool_server),
    Case(
        "tool_server_settings",
        tool_server_managers(302),
        "",
        _tool_server,
        "post",
        _tool_server_fields,
    ),
    *(
        Case(f"tool_server_{verb}", tool_server_managers(302), "", _tool_server, "post")
        for verb in ("people", "test", "switch", "read_only", "remove")
    ),
    Case("tool_server_rule", tool_server_managers(302), "", _remote_tool, "post"),
]
