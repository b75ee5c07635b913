"""A conversation that was read, in lines that a table can hold."""

from __future__ import annotations

import json

from chat.imports.conversations import Call, Conversation, File, Part, Reasoning, Text


def outline(conversation: Conversation) -> list[str]:
    """``id < parent role (model): parts``, and the leaf of the visible branch."""
    lines = []
    for turn in conversation.turns:
        model = f" ({turn.model})" if turn.model else ""
        error = f" ! {turn.error}" if turn.error else ""
        parts = " | ".join(_part(part) for part in turn.parts)
        lines.append(f"{turn.source_id} < {turn.parent} {turn.role}{model}: {parts}{error}")
    return [*lines, f"= {conversation.leaf}"]


def _part(part: Part) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Reasoning):
        return f"~{part.text}~"
    if isinstance(part, File):
        return f"[{part.name}@{part.member or part.data}]"
    assert isinstance(part, Call)
    failed = "!" if part.has_failed else ""
    return f"{part.tool}{json.dumps(part.arguments)} -> {part.output}{failed}"
