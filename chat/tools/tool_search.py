"""The function ``search_tools``: what of a conversation's tools a model finds by words."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from chat.events import Json, JsonObject
from chat.models import Conversation, Tool, ToolKind, ToolRule
from chat.result.deferred_tools import MOST_FOUND
from chat.tools.definitions import tool_digest

# Bytes of all descriptions and schemas of one result.
RESULT_BYTES = 48 * 1024
QUERY_CHARACTERS = 400
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Name:
    """A tool as searches read it. ``name`` and ``description`` are case-folded."""

    pk: int
    name: str
    description: str

    def score(self, words: Collection[str]) -> int:
        """A word in the name counts more."""
        return sum(3 * (word in self.name) + (word in self.description) for word in words)


class ToolIndex:
    """The tools that an answer was offered and that the conversation still has switched on, for all searches of one
    response. Names are read once, and schemas only of what a search finds, because they can be large."""

    def __init__(self, conversation: Conversation, offered: Collection[str]) -> None:
        self._names = _names_in(conversation, offered)
        self._read: dict[int, Tool | None] = {}

    def search(self, arguments: Json) -> str:
        """The tools as JSON for the model, the best match first."""
        query = arguments.get("query") if isinstance(arguments, dict) else ""
        found = self._ranked(_words(str(query or "")[:QUERY_CHARACTERS]))
        first = self._tools([name.pk for name in found[:MOST_FOUND]])
        entries = _bounded(first)
        result: JsonObject = {"tools": entries}
        left = len(found) - len(found[:MOST_FOUND]) + len(first) - len(entries)
        if left:
            result["more"] = left
        if not entries:
            result["note"] = "No tool matches. Try other words, or leave the query empty."
        return msgspec.json.encode(result).decode()

    def _ranked(self, words: Collection[str]) -> list[_Name]:
        """The tools that have any of the words. Equal ones are in the order of their names."""
        if not words:
            return self._names
        scores = {each.pk: each.score(words) for each in self._names}
        matching = [each for each in self._names if scores[each.pk]]
        return sorted(matching, key=lambda each: -scores[each.pk])

    def _tools(self, keys: Sequence[int]) -> list[Tool]:
        """The tools of these keys whose definition is the one that somebody has switched on."""
        if unread := [pk for pk in keys if pk not in self._read]:
            rows = Tool.objects.in_bulk(unread)
            self._read |= {pk: _if_seen(rows.get(pk)) for pk in unread}
        return [tool for pk in keys if (tool := self._read[pk]) is not None]


def _names_in(conversation: Conversation, offered: Collection[str]) -> list[_Name]:
    rows = conversation.tools.exclude(rule=ToolRule.OFF).exclude(server__is_enabled=False)
    return [
        _Name(pk=pk, name=name.casefold(), description=description.casefold())
        for pk, name, description in rows.order_by("name").values_list("pk", "name", "description")
        if name in offered
    ]


def _if_seen(tool: Tool | None) -> Tool | None:
    is_other = (
        tool is not None and tool.kind == ToolKind.MCP and tool.seen_digest != tool_digest(tool)
    )
    return None if is_other else tool


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
