"""An uploaded export: a JSON file, or a ZIP archive with JSON files and pictures.

Nothing in it is trusted. The whole directory is checked before anything is unpacked, members are
only read as a stream, up to the size that was checked, and no name is ever used on disk.
"""

from __future__ import annotations

import codecs
import json
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import TracebackType
from typing import IO, BinaryIO

import msgspec

from chat.core.isolation.child import Refused
from chat.events import Json
from chat.imports import deep_json, limits
from chat.imports import slices as slicing
from chat.imports.conversations import Unreadable
from chat.imports.limits import (
    ARCHIVE_BYTES,
    DIRECTORY_BYTES,
    DOCUMENT_BYTES,
    MEGABYTE,
    MOST_CONVERSATIONS,
    MOST_DEPTH,
    MOST_MEMBERS,
    MOST_RATIO,
    RATIO_FROM_BYTES,
    TOTAL_BYTES,
)
from chat.imports.slices import Outline, Stream, outline, slices
from chat.imports.words import gettext

# Names in archives may have this encoding. It is loaded now, because a child can't open files
# later.
codecs.lookup("cp437")

_DIRECTORY_END = b"PK\x05\x06"
_DIRECTORY_END_64 = b"PK\x06\x06"
_IN_RECORD_64 = 0xFFFFFFFF
_LOCATOR_64 = b"PK\x06\x07"
_LONGEST_COMMENT = 65_535
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_NESTED = re.compile(r"\.(zip|gz|tgz|tar|bz2|xz|7z|rar|zst)$", re.IGNORECASE)
# Names of ChatGPT and Claude; ChatGPT splits large ones: conversations-003.json.
_CONVERSATIONS = re.compile(r"conversations([-_]\d+)?\.json", re.IGNORECASE)
# ChatGPT's list of the files of an export.
_MANIFEST = "export_manifest.json"
MANIFEST_BYTES = 16 * MEGABYTE
_JSON = re.compile(r".+\.json", re.IGNORECASE)
# Escapes; the group is half of a surrogate pair without the other half.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
# Emoji and some scripts need them.
_JOINERS = "\u200c\u200d"
# ChatGPT's files are named by their ids, some with their original names appended.
_FILE_ID = re.compile(r"file[-_][0-9A-Za-z]{4,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A JSON file, and the place of its conversations in it; or the reason why it can't be read, if
    the others of the archive can be imported without it."""

    name: str
    outline: Outline
    problem: str = ""


class Archive:
    """The file, opened and checked. Raises ``Refused``. Close it, or use it as a context
    manager."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._zip: zipfile.ZipFile | None = None
        size = file.seek(0, 2)
        if size > ARCHIVE_BYTES:
            raise Refused(_too_large(ARCHIVE_BYTES))
        file.seek(0)
        self._members: dict[str, zipfile.ZipInfo] = {}
        if file.read(4) in (b"PK\x03\x04", b"PK\x05\x06"):
            self._zip = _open_zip(file, size)
            self._members = _checked(self._zip, size)
        elif size > DOCUMENT_BYTES:
            raise Refused(_too_large(DOCUMENT_BYTES))
        self._by_id, self._by_name = self._index()

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._zip is not None:
            self._zip.close()

    def documents(self) -> Iterator[Document]:
        """The JSON files that may have conversations, one after the other. Raises ``Refused`` for
        an incomplete one."""
        names = [""] if self._zip is None else self._documents()
        problems = []
        for name in names:
            try:
                with self._open(name) as stream:
                    yield Document(name=name, outline=_outline(name, stream))
            except Refused as refusal:
                problems.append(str(refusal))
                # An archive that lacks a part of a split export is refused; other files may be
                # unreadable.
                if _CONVERSATIONS.fullmatch(_base(name)) or len(problems) == len(names):
                    raise
                yield Document(name=name, outline=Outline(), problem=str(refusal))

    def conversations(self, document: Document) -> Iterator[bytes | None]:
        """The bytes of each conversation; ``None`` for one that is too large."""
        with self._open(document.name) as stream:
            yield from slices(
                stream, document.outline, most_bytes=limits.current().conversation_bytes
            )

    def _documents(self) -> list[str]:
        named = [name for name in self._members if _CONVERSATIONS.fullmatch(_base(name))]
        found = named or [name for name in self._members if _JSON.fullmatch(_base(name))]
        if found:
            return sorted(found)
        nested = next((name for name in self._members if _NESTED.search(name)), None)
        if nested is not None:
            words = gettext(
                "The archive contains another archive, “%(name)s”. Extract it and import that one."
            )
            raise Refused(words % {"name": shown(nested)})
        raise Refused(gettext("The archive contains no JSON file with conversations."))

    def missing(self) -> list[str]:
        """Files with conversations that are in ChatGPT's list of files and not in the archive."""
        listed = self._by_name.get(_MANIFEST)
        if self._zip is None or listed is None or self.size_of(listed) > MANIFEST_BYTES:
            return []
        try:
            named = _texts_in(msgspec.json.decode(self.read(listed)))
        except (msgspec.DecodeError, UnicodeError, RecursionError, Refused):
            return []
        bases = {_base(name) for name in named if _CONVERSATIONS.fullmatch(_base(name))}
        return sorted(bases - self._by_name.keys())

    def member(self, name_or_id: str) -> str:
        """The member with this name, or with this id of ChatGPT; empty if there is none."""
        found = _FILE_ID.search(name_or_id)
        return (self._by_id.get(found[0]) if found else None) or self._by_name.get(
            _base(name_or_id), ""
        )

    def read(self, name: str) -> bytes:
        """The bytes of a member. Raises ``Refused`` if they don't match the directory."""
        with self._open(name) as stream:
            return stream.read(self.size_of(name))

    @contextmanager
    def _open(self, name: str) -> Iterator[Stream]:
        if self._zip is None:
            self._file.seek(0)
            yield self._file
            return
        info = self._members[name]
        with _damage(name):
            stream = self._zip.open(info)
        with stream:
            yield _Member(name, stream, info.file_size)

    def size_of(self, name: str) -> int:
        return self._members[name].file_size

    def _index(self) -> tuple[dict[str, str], dict[str, str]]:
        by_id: dict[str, str] = {}
        by_name: dict[str, str] = {}
        for name in self._members:
            base = _base(name)
            by_name.setdefault(base, name)
            found = _FILE_ID.match(base)
            if found:
                by_id.setdefault(found[0], name)
        return by_id, by_name


class _Member:
    """A member while it is read. It must have exactly the size that was announced and checked."""

    def __init__(self, name: str, stream: IO[bytes], size: int) -> None:
        self._name = name
        self._stream = stream
        self._left = size

    def read(self, size: int, /) -> bytes:
        with _damage(self._name):
            body = self._stream.read(min(size, self._left))
        self._left -= len(body)
        if self._left and not body:
            raise Refused(_damaged(self._name))
        return body


@contextmanager
def _damage(name: str) -> Iterator[None]:
    try:
        yield
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        NotImplementedError,
        RuntimeError,
    ):
        raise Refused(_damaged(name)) from None


def _texts_in(value: Json) -> Iterator[str]:
    """All texts, at any depth, because the form of the list has changed."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            waiting += [*each, *each.values()]


def parse(item: bytes | None) -> Json:
    """The value of one conversation. Raises ``Unreadable``."""
    if item is None:
        words = gettext("The conversation is larger than %(limit)s MB.")
        raise Unreadable(words % {"limit": limits.current().conversation_bytes // MEGABYTE})
    try:
        return msgspec.json.decode(item)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    # Strict JSON has no halves of surrogate pairs, NaN and raw control characters.
    item = _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], item)
    try:
        try:
            return json.loads(item, strict=False, parse_constant=lambda _: None)
        except RecursionError:
            return deep_json.loads(item.decode())
    except ValueError:
        raise Unreadable(gettext("The JSON is damaged.")) from None


def shown(name: str) -> str:
    """A name from an archive, for people."""
    clean = "".join(each if each.isprintable() or each in _JOINERS else "�" for each in name)
    return clean if len(clean) <= 100 else f"…{clean[-100:]}"


# --- the archive ----------------------------------------------------------------------------------


def _open_zip(file: BinaryIO, size: int) -> zipfile.ZipFile:
    if _directory_bytes(file, size) > DIRECTORY_BYTES:
        raise Refused(_too_many(MOST_MEMBERS))
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError):
        raise Refused(_incomplete()) from None


def _directory_bytes(file: BinaryIO, size: int) -> int:
    """The size of the directory, before it is read: a small file may announce millions of members.
    Up to three places announce it, and libraries differ in which one they use, so the largest
    counts."""
    start = max(0, size - _LONGEST_COMMENT - 22)
    file.seek(start)
    end = file.read()
    place = end.rfind(_DIRECTORY_END)
    if place < 0 or len(end) - place < 22:
        raise Refused(_incomplete())
    announced = [int(struct.unpack_from("<I", end, place + 12)[0])]
    locator = start + place - 20
    if locator >= 0:
        file.seek(locator)
        signature, _, offset = struct.unpack("<4sIQ", file.read(16))
        if signature == _LOCATOR_64:
            # The record may be at the place in the locator, or right before it, where Python's
            # `zipfile` reads it.
            records = [_directory_bytes_64(file, at, size) for at in (offset, locator - 56)]
            # The largest number that fits means that the size is in the record.
            announced = [each for each in announced if each != _IN_RECORD_64 or not any(records)]
            announced += records
    return max(announced)


def _directory_bytes_64(file: BinaryIO, offset: int, size: int) -> int:
    """The size in a ZIP64 record, or 0 if there is no record."""
    if not 0 <= offset <= size - 56:
        return 0
    file.seek(offset)
    record = file.read(56)
    is_record = record[:4] == _DIRECTORY_END_64
    return int(struct.unpack_from("<Q", record, 40)[0]) if is_record else 0


def _checked(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The files of the archive by name. Raises ``Refused`` if one is suspicious."""
    members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        raise Refused(_too_many(MOST_MEMBERS))
    found: dict[str, zipfile.ZipInfo] = {}
    for info in members:
        problem = _problem(info)
        if info.filename in found:
            problem = gettext("“%(name)s” occurs twice in the archive.")
        if problem:
            raise Refused(problem % {"name": shown(info.filename)})
        if not info.is_dir():
            found[info.filename] = info
    packed = sum(info.compress_size for info in members)
    unpacked = sum(info.file_size for info in members)
    if packed > size:
        raise Refused(gettext("Files in the archive overlap. It may be malicious."))
    if unpacked > TOTAL_BYTES or _is_bomb(packed, unpacked):
        raise Refused(_too_large(TOTAL_BYTES))
    return found


def _problem(info: zipfile.ZipInfo) -> str:
    """The problem with a member, with a placeholder for its name; empty if there is none."""
    # `zipfile` cuts names at NUL and replaces this system's separators.
    path = info.orig_filename.replace("\\", "/")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if path.startswith("/") or re.match("[A-Za-z]:", path) or "\x00" in path:
        return gettext("The archive contains an absolute path: “%(name)s”.")
    if ".." in PurePosixPath(path).parts:
        return gettext("The archive contains a path that leads out of it: “%(name)s”.")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return gettext("The archive contains a symbolic link or device file: “%(name)s”.")
    if info.flag_bits & 0x1:
        return gettext("The archive contains an encrypted file: “%(name)s”. Extract it first.")
    if info.compress_type not in _METHODS:
        return gettext("The archive contains a file whose compression isn’t supported: “%(name)s”.")
    limit = DOCUMENT_BYTES if _JSON.fullmatch(_base(path)) else ARCHIVE_BYTES
    if info.file_size > limit or _is_bomb(info.compress_size, info.file_size):
        return gettext("The archive contains a file that is too large when extracted: “%(name)s”.")
    return ""


def _is_bomb(packed_bytes: int, unpacked_bytes: int) -> bool:
    return unpacked_bytes > RATIO_FROM_BYTES and unpacked_bytes > MOST_RATIO * max(1, packed_bytes)


def _base(name: str) -> str:
    return name.replace("\\", "/").rsplit("/", 1)[-1]


def _outline(name: str, stream: Stream) -> Outline:
    try:
        return outline(stream, most=MOST_CONVERSATIONS, deepest=MOST_DEPTH)
    except slicing.TooMany:
        words = gettext("The file has more than %(limit)s conversations.")
        raise Refused(words % {"limit": f"{MOST_CONVERSATIONS:,}"}) from None
    except slicing.TooDeep:
        words = gettext("The JSON is nested more than %(limit)d levels deep.")
        raise Refused(words % {"limit": MOST_DEPTH}) from None
    except slicing.NotJson:
        raise Refused(_not_known(name)) from None
    except slicing.Incomplete:
        raise Refused(_incomplete(name)) from None


# --- messages ------------------------------------------------------------------------------------


def _too_large(limit_bytes: int) -> str:
    words = gettext("The file is too large, as it is or extracted (limit: %(limit)s MB).")
    return words % {"limit": f"{limit_bytes // MEGABYTE:,}"}


def _too_many(limit: int) -> str:
    return gettext("The archive has too many files (limit: %(limit)s).") % {"limit": f"{limit:,}"}


def _not_known(name: str) -> str:
    if name:
        return gettext("“%(name)s” in the archive is no JSON.") % {"name": shown(name)}
    return gettext("This file isn’t a supported export: it is neither JSON nor a ZIP archive.")


def _damaged(name: str) -> str:
    return gettext("“%(name)s” in the archive is damaged.") % {"name": shown(name)}


def _incomplete(name: str = "") -> str:
    if name:
        words = gettext(
            "“%(name)s” in the archive is incomplete or damaged. Download the export again."
        )
        return words % {"name": shown(name)}
    return gettext("The file is incomplete or damaged. Download the export again.")
