"""The tools of an MCP server as plain values, read from what the server sent.

Nothing here is trusted: names, descriptions and schemas are bounded, and a tool whose definition cannot be used
is left out with a reason.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec
from django.utils.translation import gettext, gettext_noop

from chat.events import Json, JsonObject
from chat.upstreams.client import Client

StepState = Literal["running", "ok", "warning", "failed"]

# How long a list stays fresh whose server doesn’t say it, and the bounds of what a server may say.
USUAL_LIST_SECONDS = 3600.0
LEAST_LIST_SECONDS, MOST_LIST_SECONDS = 60.0, 24 * 3600.0
# Above this the names alone would fill a page and a model's context.
MOST_TOOLS = 500
MOST_PAGES = 50
# Bytes of all answers of a server while its tools are read.
LIST_BYTES = 8 * 1024 * 1024
LIST_SECONDS = 60.0
NAME_LENGTH = 200
DESCRIPTION_LENGTH = 4000
SCHEMA_BYTES = 64 * 1024
# Readers of schemas recurse.
SCHEMA_DEPTH = 32

# Reasons for leaving a tool out.
TOO_LARGE = gettext_noop("the schema of its arguments is too large")
TOO_DEEP = gettext_noop("the schema of its arguments is nested too deeply")
FOREIGN_REFERENCE = gettext_noop("the schema of its arguments refers to another document")
NOT_AN_OBJECT = gettext_noop("its arguments are no JSON object")
BAD_NAME = gettext_noop("its name is empty or too long")
NEEDS_TASK = gettext_noop("it only runs as a task of version 2025-11-25, which isn’t supported")
SAME_NAME = gettext_noop("another tool has the same name")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest:
    """``step`` takes what happens, as it happens: a name of a step, its state and a sentence for people."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    client: Client
    # A sentence about the account that the headers are of.
    signed_in: str = ""
    step: Callable[[str, StepState, str], None] = lambda name, state, text: None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTool:
    """A tool as its server defines it."""

    name: str
    description: str = ""
    schema: JsonObject = field(default_factory=dict)
    is_read_only: bool = False
    is_idempotent: bool = False
    is_destructive: bool = False
    # It can only be called in a way that is not supported.
    problem: str = ""

    @property
    def definition(self) -> JsonObject:
        """The members that people look at before they switch the tool on."""
        return {
            "description": self.description,
            "schema": self.schema,
            "is_read_only": self.is_read_only,
            "is_idempotent": self.is_idempotent,
            "is_destructive": self.is_destructive,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolListing:
    """``is_cut``: the server has more tools than were read. ``unusable``: names of tools that were left out, with
    the reason. ``fresh_seconds`` is how long it need not be read again; ``is_public``: the server says that it has the
    same list for everybody."""

    protocol: str
    server_name: str = ""
    tools: tuple[RemoteTool, ...] = ()
    unusable: tuple[tuple[str, str], ...] = ()
    is_cut: bool = False
    fresh_seconds: float = USUAL_LIST_SECONDS
    is_public: bool = False


class ListingFailed(Exception):
    """The tools could not be read. Its text is a sentence for people; ``is_unauthorized``: the server wants another
    credential (401); ``missing_scopes``: it wants these of the account in addition (403)."""

    def __init__(
        self,
        sentence: str,
        *,
        is_unauthorized: bool = False,
        missing_scopes: Sequence[str] = (),
    ) -> None:
        super().__init__(sentence)
        self.is_unauthorized = is_unauthorized
        self.missing_scopes = missing_scopes


def digest_of(definition: Json) -> str:
    """The same for the same definition, whatever the order of its members. 64 hexadecimal digits."""
    return hashlib.sha256(msgspec.json.encode(definition, order="deterministic")).hexdigest()


def fresh_seconds_of(milliseconds: Sequence[int]) -> float:
    """How long a list stays fresh, by the ``ttlMs`` of its pages. 0 says nothing about it: the list is stale whenever it
    would be used, and reading it before each answer would make people wait."""
    least = min(milliseconds, default=0)
    if least <= 0:
        return USUAL_LIST_SECONDS
    return min(max(least / 1000, LEAST_LIST_SECONDS), MOST_LIST_SECONDS)


def usable_tools(
    offered: Iterable[RemoteTool],
) -> tuple[tuple[RemoteTool, ...], tuple[tuple[str, str], ...]]:
    """The tools that can be used, and the names of the others with the reason."""
    usable: dict[str, RemoteTool] = {}
    unusable: list[tuple[str, str]] = []
    for tool in offered:
        problem = SAME_NAME if tool.name in usable else problem_of(tool)
        if problem:
            unusable.append((tool.name[:NAME_LENGTH], gettext(problem)))
        else:
            usable[tool.name] = tool
    return tuple(usable.values()), tuple(unusable)


def problem_of(tool: RemoteTool) -> str:
    """Why the tool cannot be used, or nothing."""
    if tool.problem:
        return tool.problem
    if not tool.name.strip() or len(tool.name) > NAME_LENGTH:
        return BAD_NAME
    if tool.schema.get("type", "object") != "object":
        return NOT_AN_OBJECT
    if not isinstance(tool.schema.get("properties", {}), dict):
        return NOT_AN_OBJECT
    if _depth_exceeds(tool.schema, SCHEMA_DEPTH):
        return TOO_DEEP
    if len(msgspec.json.encode(tool.schema)) > SCHEMA_BYTES:
        return TOO_LARGE
    return FOREIGN_REFERENCE if _has_foreign_reference(tool.schema) else ""


def clean_json(value: Json) -> Json:
    """The value without what no database stores: NUL characters, halves of characters, and numbers that aren't finite.
    It must not be nested deeper than the JSON reader allows."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [clean_json(member) for member in value]
    if isinstance(value, dict):
        return {clean_text(name): clean_json(member) for name, member in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def clean_text(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\x00", "\u2400")


def _depth_exceeds(value: Json, most: int) -> bool:
    """Without recursion: the value may be deeper than Python's stack."""
    level: list[Json] = [value]
    for _ in range(most):
        level = [
            member
            for parent in level
            for member in _members(parent)
            if isinstance(member, dict | list)
        ]
        if not level:
            return False
    return True


def _has_foreign_reference(schema: JsonObject) -> bool:
    """Returns whether it names another document, which somebody would have to fetch."""
    waiting: list[Json] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for key in ("$ref", "$dynamicRef"):
                reference = value.get(key)
                if isinstance(reference, str) and not reference.startswith("#"):
                    return True
        waiting += _members(value)
    return False


def _members(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []
