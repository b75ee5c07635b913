"""Digests of definitions of tools, by which a changed one is told from what somebody has seen."""

from __future__ import annotations

from chat.events import Json, JsonObject
from chat.models import Tool, ToolChoice, ToolKind, ToolRequest
from chat.tools.mcp.listing import digest_of


def stored_definition(tool: Tool) -> JsonObject:
    """The definition that models get, with the members of ``RemoteTool.definition``."""
    return {
        "description": tool.description,
        "schema": tool.schema,
        "is_read_only": tool.is_read_only,
        "is_idempotent": tool.is_idempotent,
        "is_destructive": tool.is_destructive,
    }


def tool_digest(tool: Tool) -> str:
    """The digest of the definition that models get, as in ``Tool.seen_digest``."""
    return digest_of(stored_definition(tool))


def call_digest(tool: Tool) -> str:
    """The digest of everything that a person approves with a call: the definition, and where the call goes.
    Credentials may change meanwhile."""
    return digest_of(
        [tool_digest(tool), tool.pk, tool.name, tool.kind, tool.remote_name, *_target(tool)]
    )


def withdraw_allowances(tool: Tool, before: tuple[str, str]) -> None:
    """Deletes what people have allowed in advance, if the tool has another rule or definition than ``before``
    (`rule_and_digest`). Somebody who manages the tool has changed it."""
    if rule_and_digest(tool) != before:
        ToolChoice.objects.filter(tool=tool, is_allowed=True).delete()


def rule_and_digest(tool: Tool) -> tuple[str, str]:
    return tool.rule, call_digest(tool)


def _target(tool: Tool) -> list[Json]:
    if tool.kind in (ToolKind.HTTP, ToolKind.SEARCH):
        request = ToolRequest.objects.filter(tool=tool).first()
        return [request.method, request.address] if request else []
    if tool.server is None:
        return []
    # An approval of a call with the team's key is none of a call with an account.
    whose = [tool.server.credentials] if tool.server.signs_in_people else []
    return [tool.server.pk, tool.server.address, *whose]
