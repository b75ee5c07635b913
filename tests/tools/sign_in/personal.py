"""Calls that use somebody's account, and the pages that show them."""

from __future__ import annotations

from collections.abc import Callable

from django.test import Client

from chat.models import (
    Run,
    Tool,
    ToolCall,
    ToolKind,
    ToolRule,
    ToolServer,
    User,
)
from chat.tools import endings
from chat.tools.definitions import tool_digest
from chat.tools.kinds import (
    CallFailed,
    CallOutput,
    InputNeeded,
    NeedsSignIn,
)

Ask = Callable[..., Run]
Ending = CallOutput | InputNeeded | CallFailed | NeedsSignIn
SECRET = "the diagnosis, as a canary"


def make_tool(server: ToolServer, rule: ToolRule = ToolRule.ASK, **fields: object) -> Tool:
    tool = Tool(
        team=server.team,
        server=server,
        name="whoami",
        remote_name="whoami",
        kind=ToolKind.MCP,
        rule=rule,
        schema={"type": "object"},
        **fields,
    )
    tool.seen_digest = tool_digest(tool)
    tool.save()
    return tool


def author_of(run: Run) -> User:
    assert run.message.parent is not None
    author = run.message.parent.author
    assert author is not None
    return author


def end(call: ToolCall, ending: Ending) -> None:
    assert call.claim is not None
    assert endings.end_call(call.pk, call.claim, ending)


def card(client: Client, reader: User, run: Run) -> str:
    client.force_login(reader)
    return html_at(client, f"/c/{run.conversation.public_id}/")


def details(client: Client, reader: User, run: Run) -> str:
    client.force_login(reader)
    return html_at(client, f"/r/{run.public_id}/details/")


def html_at(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()
