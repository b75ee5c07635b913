"""An export as it was uploaded: a JSON file, or a ZIP archive with JSON files and pictures.

Nothing in it is trusted. Everything that its directory says is checked before anything is unpacked,
members are only read into memory, up to the size that was checked, and no name is ever used on disk.
"""

from __future__ import annotations

import json
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import TracebackType
from typing import BinaryIO, TypeAlias

import msgspec
from django.utils.translation import gettext

from chat.core.errors import ActionRefused
from chat.events import Json
from chat.imports.conversations import Unreadable

MEGABYTE = 1024 * 1024
# The largest exports that people report have about 1 GB with their pictures.
ARCHIVE_BYTES = 2048 * MEGABYTE
# One JSON file; it is held in memory. ChatGPT's were up to 300 MB before it began to split them.
DOCUMENT_BYTES = 512 * MEGABYTE
# Everything unpacked.
TOTAL_BYTES = 8192 * MEGABYTE
MOST_MEMBERS = 50_000
# The archive's directory is read as a whole; an entry has about 100 bytes.
DIRECTORY_BYTES = 16 * MEGABYTE
# JSON of conversations shrinks to a fifth or a twentieth, a bomb to a thousandth. Small members may
# be as repetitive as they like.
MOST_RATIO = 150
RATIO_FROM_BYTES = MEGABYTE
# The readers of JSON allow about a thousand levels.
MOST_DEPTH = 500
MOST_CONVERSATIONS = 50_000

_DIRECTORY_END = b"PK\x05\x06"
_DIRECTORY_END_64 = b"PK\x06\x06"
_LOCATOR_64 = b"PK\x06\x07"
_LONGEST_COMMENT = 65_535
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_NESTED = re.compile(r"\.(zip|gz|tgz|tar|bz2|xz|7z|rar|zst)$", re.IGNORECASE)
# ChatGPT and Claude; ChatGPT splits large ones: conversations-003.json.
_CONVERSATIONS = re.compile(r"conversations([-_]\d+)?\.json", re.IGNORECASE)
_JSON = re.compile(r".+\.json", re.IGNORECASE)
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)
# Escapes; the group is half of a character that has no other half.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
# ChatGPT's files are called by their ids, with or without their names behind them.
_FILE_ID = re.compile(r"file[-_][0-9A-Za-z]{4,}")


class ImportRefused(ActionRefused):
    """The whole file is refused, and nothing was written."""

    status = 422


Item: TypeAlias = "msgspec.Raw | Json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A JSON file: its conversations, which are not decoded yet."""

    name: str
    items: Sequence[Item]


class Archive:
    """The file, opened and checked. Raises ``ImportRefused``. Close it, or use it as a context."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._zip: zipfile.ZipFile | None = None
        size = file.seek(0, 2)
        if size > ARCHIVE_BYTES:
            raise ImportRefused(_too_large(ARCHIVE_BYTES))
        file.seek(0)
        self._members: dict[str, zipfile.ZipInfo] = {}
        if file.read(4) in (b"PK\x03\x04", b"PK\x05\x06"):
            self._zip = _open_zip(file, size)
            self._members = _checked(self._zip, size)
        elif size > DOCUMENT_BYTES:
            raise ImportRefused(_too_large(DOCUMENT_BYTES))
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
        """The JSON files that may have conversations, one after the other. Raises ``ImportRefused``
        for one that is not complete."""
        if self._zip is None:
            self._file.seek(0)
            yield _document("", self._file.read())
            return
        for name in self._documents():
            yield _document(name, self.read(name))

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
            raise ImportRefused(words % {"name": shown(nested)})
        raise ImportRefused(gettext("The archive contains no JSON file with conversations."))

    def member(self, name_or_id: str) -> str:
        """The member with this name, or of this id of ChatGPT; empty if there is none."""
        found = _FILE_ID.search(name_or_id)
        return (self._by_id.get(found[0]) if found else None) or self._by_name.get(
            _base(name_or_id), ""
        )

    def read(self, name: str) -> bytes:
        """The bytes of a member. Raises ``ImportRefused`` where they are not what the directory says."""
        info = self._members[name]
        assert self._zip is not None
        try:
            with self._zip.open(info) as stream:
                # No more than was announced, and checked.
                body = stream.read(info.file_size)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            OSError,
            NotImplementedError,
            RuntimeError,
        ):
            raise ImportRefused(_damaged(name)) from None
        if len(body) != info.file_size:
            raise ImportRefused(_damaged(name))
        return body

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


def parse(item: Item) -> Json:
    """The value of one conversation. Raises ``Unreadable``."""
    if not isinstance(item, msgspec.Raw):
        return item
    try:
        return msgspec.json.decode(item)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        # Lone surrogates and raw control characters; whoever uses a text repairs it.
        return json.loads(bytes(item), strict=False)
    except (ValueError, RecursionError):
        raise Unreadable(gettext("The JSON is damaged.")) from None


def shown(name: str) -> str:
    """A name from an archive, for people."""
    clean = "".join(letter if letter.isprintable() else "�" for letter in name)
    return clean if len(clean) <= 100 else f"…{clean[-100:]}"


# --- the archive ----------------------------------------------------------------------------------


def _open_zip(file: BinaryIO, size: int) -> zipfile.ZipFile:
    if _directory_bytes(file, size) > DIRECTORY_BYTES:
        raise ImportRefused(_too_many(MOST_MEMBERS))
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError):
        raise ImportRefused(_incomplete()) from None


def _directory_bytes(file: BinaryIO, size: int) -> int:
    """The size of the directory, before it is read: a small file may announce millions of members."""
    start = max(0, size - _LONGEST_COMMENT - 22)
    file.seek(start)
    end = file.read()
    place = end.rfind(_DIRECTORY_END)
    if place < 0 or len(end) - place < 22:
        raise ImportRefused(_incomplete())
    directory_bytes = int(struct.unpack_from("<I", end, place + 12)[0])
    locator = start + place - 20
    if directory_bytes == 0xFFFFFFFF and locator >= 0:
        file.seek(locator)
        signature, _, offset = struct.unpack("<4sIQ", file.read(16))
        if signature == _LOCATOR_64 and offset + 56 <= size:
            file.seek(offset)
            record = file.read(56)
            if record[:4] == _DIRECTORY_END_64:
                return int(struct.unpack_from("<Q", record, 40)[0])
    return directory_bytes


def _checked(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The files of the archive by name, if nothing about any of them is suspicious."""
    members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        raise ImportRefused(_too_many(MOST_MEMBERS))
    found: dict[str, zipfile.ZipInfo] = {}
    for info in members:
        problem = _problem(info)
        if info.filename in found:
            problem = gettext("“%(name)s” occurs twice in the archive.")
        if problem:
            raise ImportRefused(problem % {"name": shown(info.filename)})
        if not info.is_dir():
            found[info.filename] = info
    packed = sum(info.compress_size for info in members)
    unpacked = sum(info.file_size for info in members)
    if packed > size:
        raise ImportRefused(gettext("Files in the archive overlap. It may be malicious."))
    if unpacked > TOTAL_BYTES or _is_bomb(packed, unpacked):
        raise ImportRefused(_too_large(TOTAL_BYTES))
    return found


def _problem(info: zipfile.ZipInfo) -> str:
    """What is wrong with a member, with a place for its name; empty if nothing is."""
    # `zipfile` cuts names at NUL and turns the separators of this system.
    path = info.orig_filename.replace("\\", "/")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if path.startswith("/") or re.match("[A-Za-z]:", path) or "\x00" in path:
        return gettext("The archive contains an absolute path: “%(name)s”.")
    if ".." in PurePosixPath(path).parts:
        return gettext("The archive contains a path that leads out of it: “%(name)s”.")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return gettext("The archive contains a link or a device: “%(name)s”.")
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


# --- a JSON file ----------------------------------------------------------------------------------


def _document(name: str, body: bytes) -> Document:
    body = body.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n")
    try:
        items = _items(body)
    except RecursionError:
        raise ImportRefused(_too_deep()) from None
    except (msgspec.DecodeError, UnicodeError):
        body, items = _lenient(name, body)
    if len(items) > MOST_CONVERSATIONS:
        words = gettext(
            "The file has %(count)s conversations; at most %(limit)s can be imported at once."
        )
        raise ImportRefused(
            words % {"count": f"{len(items):,}", "limit": f"{MOST_CONVERSATIONS:,}"}
        )
    if _depth(body) > MOST_DEPTH:
        raise ImportRefused(_too_deep())
    return Document(name=name, items=items)


def _items(body: bytes) -> Sequence[Item]:
    """The conversations: of a list, of its member ``conversations``, or the file itself."""
    if body.startswith(b"["):
        return _list_decoder.decode(body)
    members = _object_decoder.decode(body)
    wrapped = bytes(members.get("conversations", b""))
    return _list_decoder.decode(wrapped) if wrapped.startswith(b"[") else [msgspec.Raw(body)]


_list_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_object_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _lenient(name: str, body: bytes) -> tuple[bytes, Sequence[Item]]:
    """For what is no strict JSON, such as halves of characters, NaN and raw control characters."""
    body = _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], body)
    try:
        return body, _items(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        value = json.loads(body, strict=False, parse_constant=lambda _: None)
    except RecursionError:
        raise ImportRefused(_too_deep()) from None
    except ValueError:
        raise ImportRefused(_incomplete(name)) from None
    if isinstance(value, dict) and isinstance(value.get("conversations"), list):
        value = value["conversations"]
    return body, value if isinstance(value, list) else [value]


def _depth(body: bytes) -> int:
    """How deeply it is nested. It is JSON: of an unfinished text this would take quadratic time."""
    deepest = depth = 0
    for token in _TOKENS.finditer(body):
        first = body[token.start()]
        if first in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif first in b"]}":
            depth -= 1
    return deepest


# --- sentences ------------------------------------------------------------------------------------


def _too_large(limit_bytes: int) -> str:
    words = gettext("The file is too large, as it is or extracted (limit: %(limit)s MB).")
    return words % {"limit": f"{limit_bytes // MEGABYTE:,}"}


def _too_many(limit: int) -> str:
    return gettext("The archive has too many files (limit: %(limit)s).") % {"limit": f"{limit:,}"}


def _too_deep() -> str:
    words = gettext("The JSON is nested more than %(limit)d levels deep.")
    return words % {"limit": MOST_DEPTH}


def _damaged(name: str) -> str:
    return gettext("“%(name)s” in the archive is damaged.") % {"name": shown(name)}


def _incomplete(name: str = "") -> str:
    if name:
        words = gettext(
            "“%(name)s” in the archive is incomplete or damaged. Download the export again."
        )
        return words % {"name": shown(name)}
    return gettext("The file is incomplete or damaged. Download the export again.")
