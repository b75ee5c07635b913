"""Unpacks a ZIP file with skills in a child process: its entries, and then the bytes of each.

The names stand in the entries as the archive has them; `chat.skills.archive` judges them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import msgspec
from msgspec import Struct

from chat.core.isolation.child import Refused

# The codes of refusals, for which the parent has sentences.
DAMAGED, PASSWORD, TOO_MANY, TOO_LARGE, METHOD = (
    *("damaged", "password", "too many", "too large"),
    "method",
)
_IS_ENCRYPTED = 0x1
_PIECE_BYTES = 64 * 1024


class Order(Struct, frozen=True, kw_only=True):
    most_entries: int
    most_bytes: int


class Entry(Struct, frozen=True, kw_only=True):
    """``mode``: the file type and rights of Unix, 0 from other systems."""

    name: str
    is_folder: bool
    mode: int


_order = msgspec.json.Decoder(Order)


def read_archive(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    """The entries as JSON, and then the bytes of those that are no folders. Raises ``Refused`` with one of the codes."""
    # The codec of old names must be there before nothing can be opened any more.
    "".encode("cp437")
    return _frames(file, _order.decode(order))


def _frames(file: BinaryIO, order: Order) -> Iterator[bytes]:
    try:
        with ZipFile(file) as archive:
            members = archive.infolist()
            _check(members, order)
            yield msgspec.json.encode([_entry(each) for each in members])
            left = order.most_bytes
            for member in members:
                if not member.is_dir():
                    body = _unpacked(archive, member, left)
                    left -= len(body)
                    yield body
    except (BadZipFile, ValueError, EOFError, OSError, NotImplementedError, zlib.error):
        raise Refused(DAMAGED) from None


def _check(members: list[ZipInfo], order: Order) -> None:
    if len(members) > order.most_entries:
        raise Refused(TOO_MANY)
    if any(member.flag_bits & _IS_ENCRYPTED for member in members):
        raise Refused(PASSWORD)
    if any(member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for member in members):
        raise Refused(METHOD)
    if sum(member.file_size for member in members) > order.most_bytes:
        raise Refused(TOO_LARGE)


def _entry(member: ZipInfo) -> Entry:
    # Python cuts a name at its NUL, and keeps what the archive says.
    name = member.orig_filename.encode("utf-8", "replace").decode()
    return Entry(name=name, is_folder=member.is_dir(), mode=member.external_attr >> 16)


def _unpacked(archive: ZipFile, member: ZipInfo, most_bytes: int) -> bytes:
    """The bytes of a member: the size that the archive says may be wrong."""
    body = bytearray()
    with archive.open(member) as source:
        while piece := source.read(_PIECE_BYTES):
            body += piece
            if len(body) > most_bytes:
                raise Refused(TOO_LARGE)
    return bytes(body)
