"""Tools of which a model gets only the names, and the two functions by which it finds and calls them.

A model chooses worse among hundreds of definitions, and each request pays for them. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from chat.dialects.base import ToolDefinition
from chat.events import Json, JsonObject, ProviderInfo

SEARCH_TOOLS = "search_tools"
CALL_TOOL = "call_tool"
# No tool of a team may have one of these names.
RESERVED_NAMES = frozenset((SEARCH_TOOLS, CALL_TOOL))
# Characters of a tool's first sentence in the list.
SENTENCE_CHARACTERS = 160
# Bytes of the list of names; without their sentences, if it is longer.
LIST_BYTES = 24 * 1024
MOST_FOUND = 10

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
        name=CALL_TOOL, description=f"{_CALL}\n\n{_list_of(deferred)}", schema=_CALL_SCHEMA
    )
    find = ToolDefinition(name=SEARCH_TOOLS, description=_FIND, schema=_SEARCH_SCHEMA)
    return (*(tool for tool in tools if not tool.is_deferred), call, find)


def _list_of(tools: Sequence[ToolDefinition]) -> str:
    lines = [
        f"- {tool.name}: {tool.description}" if tool.description else f"- {tool.name}"
        for tool in tools
    ]
    if _bytes_of(lines) > LIST_BYTES:
        lines = [f"- {tool.name}" for tool in tools]
    if _bytes_of(lines) > LIST_BYTES:
        most = LIST_BYTES // 80
        lines = [*lines[:most], f"- {len(lines) - most} more, which search_tools finds"]
    return "\n".join(["The tools:", *lines])


def _bytes_of(lines: Iterable[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def first_sentence(text: str) -> str:
    """The first sentence of a description, on one line and cut to a length."""
    line = " ".join(text[: 4 * SENTENCE_CHARACTERS].split())
    sentence, end, _ = line.partition(". ")
    sentence = f"{sentence}{end}".strip()
    cut = sentence[: SENTENCE_CHARACTERS - 1]
    return sentence if len(sentence) <= SENTENCE_CHARACTERS else f"{cut}…"


def has_deferred(tools: Iterable[JsonObject]) -> bool:
    """Whether a run's tools (``Run.tools``) were offered by their names only."""
    return any(tool.get("is_deferred") for tool in tools)


# --- calls ----------------------------------------------------------------------------------------


def called(tool: str, arguments: Json) -> tuple[str, JsonObject] | None:
    """The tool and the arguments of a call of ``call_tool``; ``None`` for another call, or one that names no tool.
    Some models write the arguments as JSON in a string."""
    if tool != CALL_TOOL or not isinstance(arguments, dict):
        return None
    name, given = arguments.get("name"), arguments.get("arguments", {})
    if isinstance(given, str):
        given = _object_in(given)
    if not isinstance(name, str) or not name or not isinstance(given, dict):
        return None
    return name, given


def _object_in(text: str) -> Json:
    try:
        return msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        return None


def shown_call(
    tool: str, arguments: JsonObject, provider: ProviderInfo | None
) -> tuple[str, JsonObject]:
    """The tool and the arguments that people are shown of a call."""
    is_function = provider is None or provider.type == "function"
    found = called(tool, arguments) if is_function else None
    return found or (tool, arguments)
