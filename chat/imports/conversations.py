"""A conversation as every reader hands it over, whatever product it comes from. Pure values."""

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
    """What a tool returned, as long as it has not been joined to its call (`chat.imports.tree`)."""

    text: str
    tool: str = ""
    call_id: str = ""
    has_failed: bool = False


class File(Struct, frozen=True, kw_only=True, tag="file"):
    """A file of a turn: a ``member`` of the archive, or ``data`` in base64, or neither if the export
    has only its name."""

    name: str
    member: str = ""
    data: str = ""


class SentFile(Struct, frozen=True, kw_only=True, tag="sent"):
    """A file on the way from the reader: its bytes went ahead under ``digest``, a SHA-256; without one
    the export has only its name, or it is ``too_large``."""

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
    # Why the answer failed, if it did.
    error: str = ""

    @property
    def text(self) -> str:
        return "\n\n".join(part.text for part in self.parts if isinstance(part, Text))


class Conversation(Struct, frozen=True, kw_only=True):
    """``turns`` stand in the order in which they are created: parents first, siblings in the order of
    the source. ``leaf`` is the last turn of the branch that the source shows."""

    source_id: str
    title: str
    turns: tuple[Turn, ...]
    leaf: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    system_prompt: str = ""
    # What was not understood in it, and files that the export does not contain.
    problems: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Changes with the title and with the turns; not with what a product adds about them."""
        return hashlib.sha256(_encode([self.title, self.turns])).hexdigest()


_encode = msgspec.json.Encoder(order="sorted").encode


class Unreadable(Exception):
    """One conversation can't be read. ``str()`` says why, for people."""
