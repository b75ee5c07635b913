"""A tool server as its page shows it: plain values, without headers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext, gettext_noop

from chat.events import JsonObject
from chat.models import Tool, ToolRule, ToolServer
from chat.rendering.hidden_letters import Part, bracketed, visible_parts
from chat.rendering.text_diff import TextDiff, compare
from chat.tools import servers
from chat.tools.definitions import stored_definition
from chat.tools.mcp.listing import SCHEMA_BYTES, digest_of

# Arguments that a row lists; the schema below has all of them.
MOST_ARGUMENTS = 50
# Elements of the name and of the description of an argument (``hidden_letters.MOST_PARTS``).
ARGUMENT_PARTS = 20
# A server may change all of its tools, and make each of them slow to compare.
MOST_COMPARED = 20
COMPARISON_STEPS = 500_000
# Longer lines are compared in pieces: a change far behind in a long line has to be seen, too.
LINE_LETTERS = 200
# Characters of an indented schema.
MOST_PRETTY = 4 * SCHEMA_BYTES
# Characters of all schemas and descriptions of a page, of which the first tool may have more.
PAGE_CHARACTERS = 512 * 1024
STEP_LABELS: Mapping[str, str] = {
    "connect": gettext_noop("Connection"),
    "sign_in": gettext_noop("Sign-in"),
    "tools": gettext_noop("Tools"),
    "unusable": gettext_noop("Tools that can’t be used"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    name: Sequence[Part]
    type: str
    is_required: bool
    description: Sequence[Part]
    # The server may ask for it as a header of the request, too.
    header: Sequence[Part]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLine:
    """A tool with the definition that its server has now. ``digest`` is that of what is shown: a rule is set for this
    definition. ``difference``: from the one that somebody has seen."""

    tool: Tool
    remote_name: Sequence[Part]
    description: Sequence[Part]
    arguments: Sequence[Argument]
    schema: Sequence[Part]
    is_read_only: bool
    is_destructive: bool
    is_idempotent: bool
    digest: str
    is_new: bool
    is_changed: bool
    is_gone: bool
    has_hidden: bool
    difference: TextDiff | None

    @property
    def rules(self) -> list[tuple[str, str]]:
        """A tool that changes or deletes things asks each time."""
        most = (ToolRule.OFF, ToolRule.ASK) if self.is_destructive else tuple(ToolRule)
        return [(rule.value, str(rule.label)) for rule in most]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    label: str
    outcome: str
    text: Sequence[Part]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPage:
    """Some tools of a server. ``before`` and ``after`` are where the pages beside it begin; ``None``: there is none."""

    lines: Sequence[ToolLine]
    before: int | None
    after: int | None


def tool_page(listed: Iterable[Tool], start: int = 0) -> ToolPage:
    """The tools of a server that the reader may see, from the number ``start`` on, as many as one page may have; those that need a look come
    first."""
    tools = sorted(
        listed,
        key=lambda tool: (not servers.is_changed(tool), servers.is_gone(tool), tool.name),
    )
    starts = [0]
    characters = 0
    for at, tool in enumerate(tools):
        size = _size_of(tool)
        if at > starts[-1] and characters + size > PAGE_CHARACTERS:
            starts.append(at)
            characters = 0
        characters += size
    page = max(number for number, first in enumerate(starts) if first <= max(start, 0))
    end = starts[page + 1] if page + 1 < len(starts) else None
    shown = tools[starts[page] : end]
    return ToolPage(
        lines=[_line(tool, compared=at < MOST_COMPARED) for at, tool in enumerate(shown)],
        before=starts[page - 1] if page else None,
        after=end,
    )


def _size_of(tool: Tool) -> int:
    definition = servers.definition_of(tool)
    return len(_pretty(definition["schema"])) + len(str(definition["description"]))


def steps_of(server: ToolServer) -> list[Step]:
    steps = [
        Step(
            label=gettext(STEP_LABELS.get(str(step.get("name")), STEP_LABELS["connect"])),
            outcome=str(step.get("outcome")),
            text=visible_parts(_translated(str(step.get("text", "")))),
        )
        for step in server.test
        if isinstance(step, dict)
    ]
    if not steps and server.test_queued_at is not None:
        return [Step(label=gettext("Connection"), outcome="running", text=_waiting())]
    return steps


def state_of(server: ToolServer) -> str:
    """ "testing", "failed", "ok", or "" if no test was made."""
    if server.test_queued_at is not None:
        return "testing"
    outcomes = [step.get("outcome") for step in server.test]
    if not outcomes:
        return ""
    return "failed" if "failed" in outcomes else "ok"


def read_only_offers(lines: Iterable[ToolLine]) -> list[ToolLine]:
    """The tools that only read, and do not run automatically yet."""
    return [
        line
        for line in lines
        if line.is_read_only and not line.is_gone and line.tool.rule != ToolRule.AUTO
    ]


def _translated(text: str) -> str:
    # The empty text is that of the catalogue's head.
    return gettext(text) if text else ""


def _waiting() -> Sequence[Part]:
    return [Part(gettext("Waiting for a runner…"))]


def _line(tool: Tool, *, compared: bool) -> ToolLine:
    definition = servers.definition_of(tool)
    is_compared = compared and servers.is_changed(tool)
    description, schema = str(definition["description"]), definition["schema"]
    shown = [visible_parts(text) for text in (tool.remote_name, description, _pretty(schema))]
    return ToolLine(
        tool=tool,
        remote_name=shown[0],
        description=shown[1],
        schema=shown[2],
        arguments=_arguments(schema),
        is_read_only=bool(definition["is_read_only"]),
        is_destructive=bool(definition["is_destructive"]),
        is_idempotent=bool(definition["is_idempotent"]),
        digest=digest_of(definition),
        is_new=not tool.seen_digest,
        is_changed=servers.is_changed(tool),
        is_gone=servers.is_gone(tool),
        has_hidden=any(part.is_hidden for parts in shown for part in parts),
        difference=_difference(tool, definition) if is_compared else None,
    )


def _difference(tool: Tool, definition: JsonObject) -> TextDiff:
    return compare(
        _as_text(stored_definition(tool)),
        _as_text(definition),
        most_steps=COMPARISON_STEPS,
    )


def _as_text(definition: JsonObject) -> str:
    """A definition as lines to compare, none of them too long to be shown: hidden characters are shown by their
    codes."""
    hints = [
        name for name in ("is_read_only", "is_idempotent", "is_destructive") if definition[name]
    ]
    text = f"{definition['description']}\n\n{_pretty(definition['schema'])}\n{' '.join(hints)}"
    lines = bracketed(visible_parts(text)).split("\n")
    return "\n".join(
        line[at : at + LINE_LETTERS]
        for line in lines
        for at in range(0, max(len(line), 1), LINE_LETTERS)
    )


def _pretty(schema: object) -> str:
    """Deep lists are indented so far that their text would be a hundred times as long: they aren't."""
    text = json.dumps(schema, ensure_ascii=False, indent=2)
    return text if len(text) <= MOST_PRETTY else json.dumps(schema, ensure_ascii=False)


def _arguments(schema: object) -> list[Argument]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(properties, dict):
        return []
    listed = schema.get("required")
    required = listed if isinstance(listed, list) else []
    return [
        Argument(
            name=visible_parts(name[:100], most=ARGUMENT_PARTS),
            type=_type_of(value),
            is_required=name in required,
            description=visible_parts(_description_of(value), most=ARGUMENT_PARTS),
            header=visible_parts(_header_of(value), most=ARGUMENT_PARTS),
        )
        for name, value in list(properties.items())[:MOST_ARGUMENTS]
    ]


def _type_of(value: object) -> str:
    found = value.get("type") if isinstance(value, dict) else None
    names = found if isinstance(found, list) else [found]
    return " | ".join(name[:20] for name in names if isinstance(name, str))[:80]


def _description_of(value: object) -> str:
    found = value.get("description") if isinstance(value, dict) else None
    return found[:500] if isinstance(found, str) else ""


def _header_of(value: object) -> str:
    found = value.get("x-mcp-header") if isinstance(value, dict) else None
    return f"Mcp-Param-{found[:100]}" if isinstance(found, str) and found else ""
