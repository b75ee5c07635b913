"""Digests of definitions of tools, by which a changed one is told from what somebody has seen."""

from __future__ import annotations

import hashlib

import msgspec

from chat.events import Json
from chat.models import Tool, ToolChoice, ToolKind, ToolRequest


def digest_of(tool: Tool) -> str:
    """The digest of what a server said of its tool, as in ``Tool.seen_digest``."""
    return _digest(
        {
            "description": tool.description,
            "schema": tool.schema,
            "is_read_only": tool.is_read_only,
            "is_idempotent": tool.is_idempotent,
            "is_destructive": tool.is_destructive,
        }
    )


def call_digest(tool: Tool) -> str:
    """The digest of everything that a person approves with a call: the definition, and where the call goes.
    Credentials may change meanwhile."""
    return _digest(
        [digest_of(tool), tool.pk, tool.name, tool.kind, tool.remote_name, *_target(tool)]
    )


def withdraw_allowances(tool: Tool, before: tuple[str, str]) -> None:
    """Deletes what people have allowed in advance, if the tool has another rule or definition than ``before``
    (`rule_and_digest`). Somebody who manages the tool has changed it."""
    if rule_and_digest(tool) != before:
        ToolChoice.objects.filter(tool=tool, is_allowed=True).delete()


def rule_and_digest(tool: Tool) -> tuple[str, str]:
    return tool.rule, call_digest(tool)


def _target(tool: Tool) -> list[Json]:
    if tool.kind == ToolKind.HTTP:
        request = ToolRequest.objects.filter(tool=tool).first()
        return [request.method, request.address] if request else []
    if tool.server is None:
        return []
    # An approval of a call with the team's key is none of a call with an account.
    whose = [tool.server.credentials] if tool.server.signs_in_people else []
    return [tool.server.pk, tool.server.address, *whose]


def _digest(value: Json) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
