"""The function ``search_tools``: what of a conversation's tools a model finds by words."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import msgspec

from chat.events import Json, JsonObject
from chat.models import Conversation, Tool, ToolKind
from chat.result.deferred_tools import MOST_FOUND
from chat.tools.definitions import digest_of

# Bytes of all descriptions and schemas of one result.
RESULT_BYTES = 48 * 1024
QUERY_CHARACTERS = 400
_WORD = re.compile(r"[^\W_]+")


def search_tools(conversation: Conversation, offered: Collection[str], arguments: Json) -> str:
    """The tools as JSON for the model, the best match first: those that this answer was offered and that the
    conversation still has switched on."""
    query = arguments.get("query") if isinstance(arguments, dict) else ""
    words = _words(str(query or "")[:QUERY_CHARACTERS])
    tools = [tool for tool in _switched_on(conversation) if tool.name in offered]
    found = _ranked(tools, words)
    entries = _bounded(found[:MOST_FOUND])
    result: JsonObject = {"tools": entries}
    if len(found) > len(entries):
        result["more"] = len(found) - len(entries)
    if not entries:
        result["note"] = "No tool matches. Try other words, or leave the query empty."
    return msgspec.json.encode(result).decode()


def _switched_on(conversation: Conversation) -> list[Tool]:
    rows = conversation.tools.select_related("server").order_by("name")
    return [
        tool
        for tool in rows
        if tool.may_be_on and (tool.kind != ToolKind.MCP or tool.seen_digest == digest_of(tool))
    ]


def _ranked(tools: Sequence[Tool], words: Collection[str]) -> list[Tool]:
    """The tools that have any of the words; a word in the name counts more. Equal ones are in the order of their
    names."""
    if not words:
        return list(tools)
    scores = {tool.pk: _score(tool, words) for tool in tools}
    matching = [tool for tool in tools if scores[tool.pk]]
    return sorted(matching, key=lambda tool: -scores[tool.pk])


def _score(tool: Tool, words: Collection[str]) -> int:
    name, description = tool.name.casefold(), tool.description.casefold()
    return sum(3 * (word in name) + (word in description) for word in words)


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(_WORD.findall(text.casefold())))[:20]


def _bounded(tools: Sequence[Tool]) -> list[JsonObject]:
    """The definitions, as many as fit. The first one is always there, without its schema if that alone is too
    large."""
    entries: list[JsonObject] = []
    left = RESULT_BYTES
    for tool in tools:
        entry: JsonObject = {
            "name": tool.name,
            "description": tool.description,
            "schema": tool.schema,
        }
        size = len(msgspec.json.encode(entry))
        if size > left and not entries:
            entry = {**entry, "schema": {}, "note": "The schema is too large to be shown."}
            size = left
        elif size > left:
            break
        entries.append(entry)
        left -= size
    return entries
