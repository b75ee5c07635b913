"""Reads an export, in a child process (`chat.core.isolation`): no Django, no database, no keys.

Everything that handles the bytes of a file is in this module or imported by it: the archive, the
JSON, the formats, and the files of conversations. Its output is values whose types are checked.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec

from chat.core.isolation.child import Refused
from chat.events import Json
from chat.imports import limits
from chat.imports.archive import Archive, Document, parse, shown
from chat.imports.conversations import Call, Conversation, File, Part, SentFile, Unreadable
from chat.imports.formats import FORMATS, Format, detect
from chat.imports.formats.tributary import Exported
from chat.imports.frames import Found, Message, Order, Read, Restored, Skipped, encode
from chat.imports.limits import MEGABYTE, MOST_CONVERSATIONS, MOST_PARTS
from chat.imports.words import gettext, use_language

# Bytes of the pictures of one conversation. The process that writes it holds all of them.
PICTURES_BYTES = 128 * MEGABYTE
_order = msgspec.json.Decoder(Order)


def read_export(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    """The frames of an export. Raises ``Refused`` before the first frame for a file that is
    damaged, too large or unknown; a single unreadable conversation is one frame with the reason."""
    wanted = _order.decode(order)
    limits.use_limits(wanted.limits)
    use_language(wanted.language, wanted.catalogs)
    return _frames(file, wanted)


def _frames(file: BinaryIO, wanted: Order) -> Iterator[bytes]:
    with Archive(file) as archive:
        found, documents = _examine(archive, wanted.format_name)
        total = sum(len(each.outline) or bool(each.problem) for each in documents)
        missing = tuple(archive.missing())
        yield from encode(Found(format=found.name, total=total, missing=missing))
        work = _Work(archive, found, dict(wanted.known.get(found.name, {})))
        for document in documents:
            if document.problem:
                yield from work.frames_of_problem(document)
            for item in archive.conversations(document):
                yield from work.frames(item)


def _examine(archive: Archive, format_name: str) -> tuple[Format, list[Document]]:
    """The format, and the JSON files that have conversations. All files are checked first, so that
    nothing is written of a damaged export."""
    wanted = FORMATS[format_name] if format_name else None
    found: dict[str, Format] = {}
    documents = []
    for document in archive.documents():
        if document.problem:
            documents.append(document)
            continue
        recognized = detect(_values(archive.conversations(document)))
        if recognized is not None and wanted in (None, recognized):
            found[document.name] = recognized
            documents.append(document)
        elif wanted is not None and not document.name:
            found[document.name] = wanted
            documents.append(document)
    formats = {each.name: each for each in found.values()}
    if not formats:
        labels = ", ".join(each.label for each in FORMATS.values())
        words = gettext("The file contains no conversations in a known format (%(formats)s).")
        raise Refused(words % {"formats": labels})
    if len(formats) > 1:
        labels = ", ".join(each.label for each in formats.values())
        words = gettext(
            "The file contains conversations of several products (%(formats)s). Choose one."
        )
        raise Refused(words % {"formats": labels})
    total = sum(len(each.outline) for each in documents)
    if total > MOST_CONVERSATIONS:
        words = gettext(
            "The file has %(count)s conversations; at most %(limit)s can be imported at once."
        )
        raise Refused(words % {"count": f"{total:,}", "limit": f"{MOST_CONVERSATIONS:,}"})
    return next(iter(formats.values())), documents


def _values(items: Iterable[bytes | None]) -> Iterator[Json]:
    for item in items:
        try:
            yield parse(item)
        except Unreadable:
            continue


class _Work:
    """The conversations of a file, one after the other. ``known`` has the digests of earlier
    imports by identity."""

    def __init__(self, archive: Archive, found: Format, known: dict[str, str]) -> None:
        self._archive = archive
        self._format = found
        self._known = known
        self._count = 0

    def frames_of_problem(self, document: Document) -> Iterator[bytes]:
        """An unreadable file of an archive, in place of the conversation in it."""
        self._count += 1
        name = shown(document.name)
        yield from encode(Skipped(source_id=name, title="", reason=document.problem))

    def frames(self, item: bytes | None) -> Iterator[bytes]:
        self._count += 1
        source_id, title = f"#{self._count}", ""
        try:
            value = parse(item)
            if not isinstance(value, dict):
                raise Unreadable(gettext("Not a conversation."))
            named, title = self._format.name_of(value)
            source_id = named or source_id
            read = self._format.read(value, self._archive.member)
            del value
            yield from encode(self._message(read, source_id))
        except Unreadable as error:
            yield from encode(Skipped(source_id=source_id, title=title, reason=str(error)))

    def _message(self, read: Conversation | Exported, source_id: str) -> Message:
        title = read.title
        if not read.turns:
            return Skipped(source_id=source_id, title=title)
        digest = read.digest
        identity = read.source_id or f"content:{digest}"
        if identity in self._known:
            return Skipped(source_id=source_id, title=title, identity=identity, digest=digest)
        self._known[identity] = digest
        if isinstance(read, Exported):
            return Restored(source_id=source_id, identity=identity, digest=digest, exported=read)
        _check_parts(read)
        files = _Files(self._archive)
        turns = tuple(
            msgspec.structs.replace(turn, parts=tuple(files.sent(each) for each in turn.parts))
            for turn in read.turns
        )
        return Read(
            source_id=source_id,
            identity=identity,
            digest=digest,
            conversation=msgspec.structs.replace(
                read, turns=turns, left_out=(*read.left_out, *files.left_out)
            ),
            contents=files.contents,
        )


def _check_parts(read: Conversation) -> None:
    """Raises ``Unreadable`` for more parts, or values in calls, than a process should hold."""
    count = 0
    for turn in read.turns:
        count += len(turn.parts)
        for part in turn.parts:
            if isinstance(part, Call):
                count += _values_in(part.arguments)
        if count > MOST_PARTS:
            raise Unreadable(gettext("The conversation has too many parts."))


def _values_in(value: Json) -> int:
    waiting, count = [value], 0
    while waiting and count <= MOST_PARTS:
        each = waiting.pop()
        if isinstance(each, dict | list):
            count += len(each)
            waiting += each.values() if isinstance(each, dict) else each
    return count


class _Files:
    """The files of one conversation. Each picture is sent once, however often it occurs."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._of_members: dict[str, str] = {}
        self._size = 0
        self.contents: dict[str, bytes] = {}
        self.left_out: list[str] = []

    def sent(self, part: Part) -> Part:
        if not isinstance(part, File):
            return part
        most = limits.current().picture_bytes
        size = self._archive.size_of(part.member) if part.member else len(part.data) * 3 // 4 - 2
        if size > most:
            return SentFile(name=part.name, too_large=True)
        if part.member:
            return SentFile(name=part.name, digest=self._digest_of_member(part))
        try:
            body = base64.b64decode(part.data, validate=True)
        except (binascii.Error, ValueError):
            # This body is later refused as no picture.
            body = b"\x00" if part.data else b""
        return SentFile(name=part.name, digest=self._kept(part.name, body))

    def _digest_of_member(self, part: File) -> str:
        if part.member not in self._of_members:
            body = self._archive.read(part.member)
            self._of_members[part.member] = self._kept(part.name, body)
        return self._of_members[part.member]

    def _kept(self, name: str, body: bytes) -> str:
        if not body:
            return ""
        digest = hashlib.sha256(body).hexdigest()
        if digest not in self.contents:
            if self._size + len(body) > PICTURES_BYTES:
                words = gettext(
                    "“%(name)s” was left out, because the images of the conversation are larger than "
                    "%(limit)s MB together."
                )
                limit = PICTURES_BYTES // MEGABYTE
                self.left_out.append(words % {"name": name, "limit": limit})
                return ""
            self._size += len(body)
            self.contents[digest] = body
        return digest
