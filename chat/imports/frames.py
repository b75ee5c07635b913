"""Frames for the pipe between the reader of an export and the import: a letter, and JSON or bytes.

A conversation is sent in several frames, so that the receiving process never decodes megabytes at
once: its files, its turns and events, and finally the frame that ends it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import TypeAlias, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from chat import events
from chat.exports import format as form
from chat.imports.conversations import Conversation, SentFile, Turn
from chat.imports.formats.tributary import Exported, Log
from chat.imports.limits import Limits

# The most bytes of turns and events in one frame. A longer one has a frame of its own.
BATCH_BYTES = 512 * 1024


class Broken(Exception):
    """The reader was compromised by the file, or has a defect."""


class Order(Struct, frozen=True, kw_only=True):
    """The order for the reader. ``known`` has the digests of earlier imports by format and
    identity; of those conversations only the digest is returned."""

    format_name: str = ""
    known: dict[str, dict[str, str]] = {}
    limits: Limits = Limits()
    language: str = "en"
    catalogs: tuple[str, ...] = ()


class Found(Struct, frozen=True, kw_only=True):
    """The first message: the format, the number of conversations, and missing files that the export
    lists."""

    format: str
    total: int
    missing: tuple[str, ...] = ()


class Skipped(Struct, frozen=True, kw_only=True):
    """A conversation that is not sent: known (with its ``digest``), empty, or unreadable (with the
    ``reason``)."""

    source_id: str
    title: str
    identity: str = ""
    digest: str = ""
    reason: str = ""


class Read(Struct, frozen=True, kw_only=True):
    """A conversation of another product, with the bytes of its files by SHA-256 in ``contents``."""

    source_id: str
    identity: str
    digest: str
    conversation: Conversation
    contents: dict[str, bytes] = {}


class Restored(Struct, frozen=True, kw_only=True):
    """A conversation of our own export."""

    source_id: str
    identity: str
    digest: str
    exported: Exported


Message: TypeAlias = Found | Skipped | Read | Restored
Value = TypeVar("Value")

_encode = msgspec.json.encode


# --- in the reader --------------------------------------------------------------------------------


def encode(message: Message) -> Iterator[bytes]:
    """The frames of a message. Raises ``ValueError`` for values that JSON can't hold."""
    if isinstance(message, Found):
        yield b"F" + _encode(message)
    elif isinstance(message, Skipped):
        yield b"S" + _encode(message)
    elif isinstance(message, Read):
        yield from _contents(message.contents)
        yield from (b"T" + each for each in _batches(message.conversation.turns))
        head = replace(message.conversation, turns=())
        yield b"C" + _encode(replace(message, conversation=head, contents={}))
    else:
        yield from _export(message)


def _export(message: Restored) -> Iterator[bytes]:
    exported = message.exported
    document = exported.document
    yield from _contents(exported.contents)
    for run_id, log in exported.logs.items():
        yield from (b"E" + run_id.bytes + each for each in _batches(log.entries))
    yield from (b"G" + each for each in _batches(document.turns))
    turns, document.turns = document.turns, []
    logs = {run_id: replace(log, entries=[]) for run_id, log in exported.logs.items()}
    head = replace(exported, logs=logs, contents={})
    yield b"X" + _encode(replace(message, exported=head))
    document.turns = turns


def _contents(contents: dict[str, bytes]) -> Iterator[bytes]:
    for body in contents.values():
        yield b"B" + body


def _batches(values: Iterable[object]) -> Iterator[bytes]:
    batch: list[bytes] = []
    size = 0
    for value in values:
        body = _encode(value)
        if batch and size + len(body) > BATCH_BYTES:
            yield b"[" + b",".join(batch) + b"]"
            batch, size = [], 0
        batch.append(body)
        size += len(body)
    if batch:
        yield b"[" + b",".join(batch) + b"]"


# --- in the receiving process ---------------------------------------------------------------------

_found = msgspec.json.Decoder(Found)
_skipped = msgspec.json.Decoder(Skipped)
_read = msgspec.json.Decoder(Read)
_restored = msgspec.json.Decoder(Restored)
_turns = msgspec.json.Decoder(list[Turn])
_form_turns = msgspec.json.Decoder(list[form.Turn])
_events = msgspec.json.Decoder(list[events.Event])


def decode(frames: Iterable[bytes], *, most_bytes: int) -> Iterator[Message]:
    """The messages of these frames. Raises ``Broken`` for frames that our reader never sends,
    including more than ``most_bytes`` for one message: its parts are held until it is complete."""
    parts, size = _Parts(), 0
    for frame in frames:
        size += len(frame)
        if size > most_bytes:
            raise Broken
        try:
            message = parts.add_frame(frame[:1], frame[1:])
        except (ValueError, msgspec.MsgspecError) as error:
            raise Broken from error
        if message is not None:
            yield message
            parts, size = _Parts(), 0


class _Parts:
    """The parts of a conversation that were sent before it."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}
        self._turns: list[Turn] = []
        self._form_turns: list[form.Turn] = []
        self._events: dict[UUID, list[events.Event]] = {}

    def add_frame(self, kind: bytes, body: bytes) -> Message | None:
        if kind == b"F":
            return _found.decode(body)
        if kind == b"S":
            return _skipped.decode(body)
        if kind == b"C":
            read = _read.decode(body)
            sent = (part for turn in self._turns for part in turn.parts)
            self._require(part.digest for part in sent if isinstance(part, SentFile))
            whole = replace(read.conversation, turns=tuple(self._turns))
            return replace(read, conversation=whole, contents=self._contents)
        if kind == b"X":
            return self._whole_export(_restored.decode(body))
        if kind == b"B":
            # The digest is calculated here: the reader could claim that of somebody else's file.
            self._contents[hashlib.sha256(body).hexdigest()] = body
        elif kind == b"T":
            self._turns += _turns.decode(body)
        elif kind == b"G":
            self._form_turns += _form_turns.decode(body)
        elif kind == b"E":
            self._events.setdefault(UUID(bytes=body[:16]), []).extend(_events.decode(body[16:]))
        else:
            raise ValueError(kind)
        return None

    def _require(self, digests: Iterable[str]) -> None:
        """Raises ``ValueError`` for files whose bytes were not sent."""
        if any(digest and digest not in self._contents for digest in digests):
            raise ValueError

    def _whole_export(self, read: Restored) -> Restored:
        document = read.exported.document
        self._require(file.sha256 for file in document.files)
        document.turns = self._form_turns
        logs = {run_id: self._log(run_id, log) for run_id, log in read.exported.logs.items()}
        return replace(read, exported=replace(read.exported, logs=logs, contents=self._contents))

    def _log(self, run_id: UUID, head: Log) -> Log:
        entries = self._events.get(run_id, [])
        end = entries[-1] if entries else None
        # The result of a log and that of its last event are one object: both are changed together.
        result = end.result if isinstance(end, events.ChatEnd) else head.result
        return replace(head, entries=entries, result=result)
