"""Frames for the pipe between the reader of an export and the import: a letter, and JSON or bytes.

A conversation comes in several frames, so that the process that takes them never decodes megabytes at
once: its files, its turns and events, and at last the frame that ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct

from chat import events
from chat.exports import format as form
from chat.imports.conversations import Conversation, Turn
from chat.imports.formats.tributary import Exported, Log
from chat.imports.limits import Limits

# The most bytes of turns and events in one frame. A longer one comes alone.
BATCH_BYTES = 512 * 1024
_DIGEST_BYTES = 32


class Order(Struct, frozen=True, kw_only=True):
    """The order for the reader. ``known`` has, by format, the digests of what was imported before, by
    identity: of those nothing but the digest is wanted."""

    format_name: str = ""
    known: dict[str, dict[str, str]] = {}
    limits: Limits = Limits()
    language: str = "en"
    catalogs: tuple[str, ...] = ()


class Found(Struct, frozen=True, kw_only=True):
    """First: the format of the file, the number of conversations in it, and files that it says to have
    and lacks."""

    format: str
    total: int
    missing: tuple[str, ...] = ()


class Skipped(Struct, frozen=True, kw_only=True):
    """A conversation that is not there: known (with its ``digest``), empty, or unreadable (with the
    ``reason``)."""

    source_id: str
    title: str
    identity: str = ""
    digest: str = ""
    reason: str = ""


class Read(Struct, frozen=True, kw_only=True):
    """A conversation of another product. The bytes of its files are in ``contents``, by SHA-256."""

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


class _LogHead(Struct, frozen=True, kw_only=True):
    result: events.Result
    is_ended_here: bool


class _ExportHead(Struct, frozen=True, kw_only=True):
    """The rest of a `Restored`, whose turns, events and files went ahead."""

    source_id: str
    identity: str
    digest: str
    title: str
    document: form.Export
    logs: dict[UUID, _LogHead]
    left_out: tuple[str, ...]
    problems: tuple[str, ...]


Message: TypeAlias = Found | Skipped | Read | Restored
Value = TypeVar("Value")

_encode = msgspec.json.encode


# --- of the reader --------------------------------------------------------------------------------


def encode(message: Message) -> Iterator[bytes]:
    """The frames of a message. Raises ``ValueError`` for what JSON can't hold."""
    if isinstance(message, Found):
        yield b"F" + _encode(message)
    elif isinstance(message, Skipped):
        yield b"S" + _encode(message)
    elif isinstance(message, Read):
        yield from _contents(message.contents)
        yield from (b"T" + each for each in _batches(message.conversation.turns))
        head = msgspec.structs.replace(message.conversation, turns=())
        yield b"C" + _encode(msgspec.structs.replace(message, conversation=head, contents={}))
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
    head = _ExportHead(
        source_id=message.source_id,
        identity=message.identity,
        digest=message.digest,
        title=exported.title,
        document=document,
        logs={
            run_id: _LogHead(result=log.result, is_ended_here=log.is_ended_here)
            for run_id, log in exported.logs.items()
        },
        left_out=exported.left_out,
        problems=exported.problems,
    )
    yield b"X" + _encode(head)
    document.turns = turns


def _contents(contents: dict[str, bytes]) -> Iterator[bytes]:
    for digest, body in contents.items():
        yield b"B" + bytes.fromhex(digest) + body


def _batches(values: Iterable[object]) -> Iterator[bytes]:
    """JSON lists of the values."""
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


# --- of the process that takes them ---------------------------------------------------------------

_found = msgspec.json.Decoder(Found)
_skipped = msgspec.json.Decoder(Skipped)
_read = msgspec.json.Decoder(Read)
_export_head = msgspec.json.Decoder(_ExportHead)
_turns = msgspec.json.Decoder(list[Turn])
_form_turns = msgspec.json.Decoder(list[form.Turn])
_events = msgspec.json.Decoder(list[events.Event])


def decode(frames: Iterable[bytes]) -> Iterator[Message]:
    """The messages of these frames. Raises ``ValueError`` for frames that no reader of ours gives."""
    parts = _Parts()
    for frame in frames:
        message = parts.take(frame[:1], frame[1:])
        if message is not None:
            yield message
            parts = _Parts()


class _Parts:
    """The parts of a conversation that went ahead of it."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}
        self._turns: list[Turn] = []
        self._form_turns: list[form.Turn] = []
        self._events: dict[UUID, list[events.Event]] = {}

    def take(self, kind: bytes, body: bytes) -> Message | None:
        if kind == b"F":
            return _found.decode(body)
        if kind == b"S":
            return _skipped.decode(body)
        if kind == b"C":
            read = _read.decode(body)
            whole = msgspec.structs.replace(read.conversation, turns=tuple(self._turns))
            return msgspec.structs.replace(read, conversation=whole, contents=self._contents)
        if kind == b"X":
            return self._restored(_export_head.decode(body))
        if kind == b"B":
            self._contents[body[:_DIGEST_BYTES].hex()] = body[_DIGEST_BYTES:]
        elif kind == b"T":
            self._turns += _turns.decode(body)
        elif kind == b"G":
            self._form_turns += _form_turns.decode(body)
        elif kind == b"E":
            self._events.setdefault(UUID(bytes=body[:16]), []).extend(_events.decode(body[16:]))
        else:
            raise ValueError(kind)
        return None

    def _restored(self, head: _ExportHead) -> Restored:
        document = head.document
        document.turns = self._form_turns
        logs = {run_id: self._log(run_id, log) for run_id, log in head.logs.items()}
        exported = Exported(
            source_id=head.source_id,
            title=head.title,
            digest=head.digest,
            document=document,
            logs=logs,
            contents=self._contents,
            left_out=head.left_out,
            problems=head.problems,
        )
        return Restored(
            source_id=head.source_id,
            identity=head.identity,
            digest=head.digest,
            exported=exported,
        )

    def _log(self, run_id: UUID, head: _LogHead) -> Log:
        entries = self._events.get(run_id, [])
        end = entries[-1] if entries else None
        # The result of a log is that of its last event, the same object: both are changed together.
        result = end.result if isinstance(end, events.ChatEnd) else head.result
        return Log(entries=entries, result=result, is_ended_here=head.is_ended_here)
