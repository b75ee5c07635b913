"""Calls of tools of which a model gets only the names (`chat.runs.offered_tools`). Pure functions."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from chat.events import (
    Event,
    FailureMetadata,
    Json,
    JsonObject,
    OutputItem,
    ProviderInfo,
    ToolCallArguments,
    ToolCallFailure,
    ToolCallItem,
    ToolCallSuccess,
)
from chat.events.json_text import read_object

SEARCH_TOOLS = "search_tools"
CALL_TOOL = "call_tool"
# No tool of a team may have one of these names.
RESERVED_NAMES = frozenset((SEARCH_TOOLS, CALL_TOOL))
# Characters of a tool's first sentence in the list.
SENTENCE_CHARACTERS = 160
# Definitions that one search for tools returns.
MOST_FOUND = 10


def first_sentence(text: str) -> str:
    """The first sentence of a description, on one line and cut to a length."""
    line = " ".join(text[: 4 * SENTENCE_CHARACTERS].split())
    sentence, end, _ = line.partition(". ")
    sentence = f"{sentence}{end}".strip()
    cut = sentence[: SENTENCE_CHARACTERS - 1]
    return sentence if len(sentence) <= SENTENCE_CHARACTERS else f"{cut}…"


def has_deferred(tools: Iterable[JsonObject]) -> bool:
    """Returns whether a run's tools (``Run.tools``) were offered by their names only."""
    return any(tool.get("is_deferred") for tool in tools)


# --- calls ----------------------------------------------------------------------------------------


def called(tool: str, arguments: Json) -> tuple[str, JsonObject] | None:
    """The tool and the arguments of a call of ``call_tool``; ``None`` for another call, or one that names no tool.
    Some models write the arguments as JSON in a string."""
    if tool != CALL_TOOL or not isinstance(arguments, dict):
        return None
    name, given = arguments.get("name"), arguments.get("arguments", {})
    if isinstance(given, str):
        given = read_object(given or "{}")
    if not isinstance(name, str) or not name or not isinstance(given, dict):
        return None
    return name, given


def shown_call(
    tool: str, arguments: JsonObject, provider: ProviderInfo | None
) -> tuple[str, JsonObject]:
    """The tool and the arguments that people are shown of a call of a run with deferred tools."""
    is_function = provider is None or provider.type == "function"
    found = called(tool, arguments) if is_function else None
    return found or (tool, arguments)


def shown_item(item: OutputItem) -> OutputItem:
    """The same for an item of such a run's output."""
    if not isinstance(item, ToolCallItem):
        return item
    tool, arguments = shown_call(item.tool, item.arguments, item.provider_info)
    return replace(item, tool=tool, arguments=arguments)


def shown_event(event: Event) -> Event:
    """The same for an event of such a run."""
    if isinstance(event, ToolCallArguments | ToolCallSuccess):
        tool, arguments = shown_call(event.tool, event.arguments, event.provider_info)
        return replace(event, tool=tool, arguments=arguments)
    if isinstance(event, ToolCallFailure):
        return replace(event, metadata=_shown_failure(event.metadata))
    return event


def _shown_failure(failed: FailureMetadata) -> FailureMetadata:
    if failed.arguments is None:
        return failed
    tool, arguments = shown_call(failed.tool_name, failed.arguments, failed.provider_info)
    return replace(failed, tool_name=tool, arguments=arguments)
