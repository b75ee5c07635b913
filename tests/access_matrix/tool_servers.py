"""Cases of tool servers."""

from __future__ import annotations

from chat.models import (
    ClientSource,
    OAuthClient,
    Tool,
    ToolAccount,
    ToolCredentials,
    ToolKind,
    ToolServer,
)
from tests.access_matrix.case import (
    Case,
    Values,
    World,
    administrators,
    alice_only,
    everyone,
    readers,
    signed_in_only,
    tool_server_managers,
)
from tests.access_matrix.objects import _team


def _tool_server(world: World) -> Values:
    server = ToolServer.objects.create(team=world.team, name="Harbor", address="http://a.test/mcp")
    return {"public_id": server.public_id}


def _remote_tool(world: World) -> Values:
    server = ToolServer.objects.create(team=world.team, name="Harbor", address="http://a.test/mcp")
    tool = Tool.objects.create(team=world.team, name="level", kind=ToolKind.MCP, server=server)
    return {"public_id": tool.public_id}


def _sign_in_server(world: World) -> ToolServer:
    """Nothing listens there, so signing in is refused with a message."""
    return ToolServer.objects.create(
        team=world.team,
        name="Harbor",
        address="http://127.0.0.1:9/mcp",
        credentials=ToolCredentials.PERSON,
    )


def _server_to_sign_in_at(world: World) -> Values:
    return {"public_id": _sign_in_server(world).public_id}


def _account_of_alice(world: World) -> Values:
    server = _sign_in_server(world)
    client = OAuthClient.objects.create(
        team=world.team,
        issuer="http://127.0.0.1:9",
        source=ClientSource.ENTERED,
        client_id="id",
        redirect_uri="http://127.0.0.1/",
    )
    account = ToolAccount(
        person=world.alice,
        server=server,
        client=client,
        issuer=client.issuer,
        resource=server.address,
        token_endpoint="http://127.0.0.1:9/token",
    )
    account.set_tokens(access="a", refresh="b")
    account.save()
    return {"public_id": account.public_id}


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
    *(
        Case(f"tool_server_{verb}", tool_server_managers(302), "", _server_to_sign_in_at, "post")
        for verb in ("connect", "client")
    ),
    Case("tool_accounts", signed_in_only(200)),
    # Nobody began a sign-in.
    Case("tool_account_callback", signed_in_only(404)),
    Case("tool_account_connect", readers(302), "", _server_to_sign_in_at, "post"),
    Case("tool_account_connect", signed_in_only(404), "without sign-in", _tool_server, "post"),
    Case("tool_account_disconnect", alice_only(302), "of Alice", _account_of_alice, "post"),
    Case("oauth_client_metadata", everyone(200)),
]
