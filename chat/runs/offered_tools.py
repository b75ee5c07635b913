"""The definitions of tools in a request: all of them, or two functions by which a model finds and calls many.

A model chooses worse among hundreds of definitions, and each request pays for them. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chat.dialects.base import ToolDefinition
from chat.events import JsonObject
from chat.result.deferred_tools import CALL_TOOL, SEARCH_TOOLS

# Bytes of the list of names; without their sentences, if it is longer.
LIST_BYTES = 24 * 1024

_FIND = (
    "Finds tools among those of this conversation, by words of what they do. Returns their names, descriptions and "
    "the JSON Schemas of their arguments. Call them with call_tool."
)
_CALL = (
    "Calls a tool of this conversation by its name. If you don't know its arguments, look them up with search_tools "
    "first."
)
_SEARCH_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "Words of a tool's name or description; empty for the first tools",
        }
    },
    "required": ["query"],
}
_CALL_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name of the tool"},
        "arguments": {
            "type": "object",
            "description": "Its arguments, as its schema says",
            "additionalProperties": True,
        },
    },
    "required": ["name", "arguments"],
}


def in_request(tools: Sequence[ToolDefinition]) -> tuple[ToolDefinition, ...]:
    """The definitions that a request has: in place of the deferred ones, the two functions. Their order is stable,
    for the prompt caches of servers."""
    deferred = [tool for tool in tools if tool.is_deferred]
    if not deferred:
        return tuple(tools)
    call = ToolDefinition(
        name=CALL_TOOL, description=f"{_CALL}\n\n{_names_of(deferred)}", schema=_CALL_SCHEMA
    )
    find = ToolDefinition(name=SEARCH_TOOLS, description=_FIND, schema=_SEARCH_SCHEMA)
    return (*(tool for tool in tools if not tool.is_deferred), call, find)


def _names_of(tools: Sequence[ToolDefinition]) -> str:
    entries = [(tool.name, tool.description) for tool in tools]
    return list_of("The tools:", entries, rest="which search_tools finds")


def list_of(title: str, entries: Sequence[tuple[str, str]], *, rest: str) -> str:
    """Names with their descriptions in the description of a function, bounded in bytes. ``rest`` says where those are that
    it has no room for."""
    lines = [f"- {name}: {text}" if text else f"- {name}" for name, text in entries]
    if _bytes_of(lines) > LIST_BYTES:
        lines = [f"- {name}" for name, _ in entries]
    if _bytes_of(lines) > LIST_BYTES:
        most = LIST_BYTES // 80
        lines = [*lines[:most], f"- {len(lines) - most} more, {rest}"]
    return "\n".join([title, *lines])


def _bytes_of(lines: Iterable[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)
