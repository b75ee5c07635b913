"""A conversation as all readers return it, whatever product it comes from. Pure values."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from chat.events import JsonObject

Side: TypeAlias = Literal["user", "assistant"]


class Text(Struct, frozen=True, tag="text"):
    text: str


class Reasoning(Struct, frozen=True, tag="reasoning"):
    text: str


class Call(Struct, frozen=True, kw_only=True, tag="call"):
    """A tool call. ``output`` is ``None`` if the source has none."""

    tool: str
    arguments: JsonObject = {}
    call_id: str = ""
    output: str | None = None
    has_failed: bool = False


class Output(Struct, frozen=True, kw_only=True, tag="output"):
    """The result of a tool before it is joined to its call (`chat.imports.tree`)."""

    text: str
    tool: str = ""
    call_id: str = ""
    has_failed: bool = False


class File(Struct, frozen=True, kw_only=True, tag="file"):
    """A file of a turn: a ``member`` of the archive, or ``data`` in base64; neither if the export
    has only its name."""

    name: str
    member: str = ""
    data: str = ""


class SentFile(Struct, frozen=True, kw_only=True, tag="sent"):
    """A reference to a file whose bytes were sent before, under ``digest`` (SHA-256). Without a
    digest the export has only its name, or it is ``too_large``."""

    name: str
    digest: str = ""
    too_large: bool = False


Part: TypeAlias = Text | Reasoning | Call | Output | File | SentFile


class Turn(Struct, frozen=True, kw_only=True):
    """A message or an answer. ``parent`` is the source's id of the turn above; empty for a root."""

    source_id: str
    role: Side
    parts: tuple[Part, ...]
    parent: str = ""
    author: str = ""
    model: str = ""
    created_at: datetime | None = None
    # The error, if the answer failed.
    error: str = ""

    @property
    def text(self) -> str:
        return "\n\n".join(part.text for part in self.parts if isinstance(part, Text))


class Conversation(Struct, frozen=True, kw_only=True):
    """``turns`` are in the order of creation: parents first, siblings in the order of the source.
    ``leaf`` is the last turn of the branch that the source shows."""

    source_id: str
    title: str
    turns: tuple[Turn, ...]
    leaf: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    system_prompt: str = ""
    # Unknown content, and files that the export does not contain.
    problems: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """A digest of the title and the turns, without the product's data about them."""
        return hashlib.sha256(_encode([self.title, self.turns])).hexdigest()


_encode = msgspec.json.Encoder(order="sorted").encode


class Unreadable(Exception):
    """One conversation can't be read. ``str()`` is the reason, for people."""
