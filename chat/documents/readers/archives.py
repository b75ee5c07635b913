"""Checks the archive that an Office document is, before a library unpacks anything of it."""

from __future__ import annotations

from typing import BinaryIO
from zipfile import BadZipFile, ZipFile

from chat.core.isolation.child import Refused
from chat.documents.readers import refusals

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# The stream in which Office stores a document with a password ([MS-OFFCRYPTO], 2.3.4.4).
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_IS_ENCRYPTED = 0x1
# The largest real documents have a few thousand: a member for each picture.
_MOST_MEMBERS = 20_000


def is_old(file: BinaryIO) -> bool:
    """True for the container of Office before 2007. Raises ``Refused`` if it holds a document with a
    password."""
    file.seek(0)
    body = file.read(len(_OLE))
    if body != _OLE:
        file.seek(0)
        return False
    is_encrypted = _ENCRYPTED in file.read()
    file.seek(0)
    if is_encrypted:
        raise Refused(refusals.PASSWORD)
    return True


def check_archive(file: BinaryIO, part: str, most_unpacked_bytes: int) -> None:
    """Raises ``Refused`` unless this is an archive of a bearable size with a member whose name begins with
    ``part``. Sizes are what the archive says of its members; Python's reader gives no more than that."""
    try:
        with ZipFile(file) as archive:
            members = archive.infolist()
    except (BadZipFile, ValueError, EOFError):
        file.seek(0)
        is_archive = file.read(2) == b"PK"
        raise Refused(refusals.DAMAGED if is_archive else refusals.WRONG_TYPE) from None
    file.seek(0)
    unpacked = sum(member.file_size for member in members)
    if len(members) > _MOST_MEMBERS or unpacked > most_unpacked_bytes:
        raise Refused(refusals.TOO_LARGE)
    if any(member.flag_bits & _IS_ENCRYPTED for member in members):
        raise Refused(refusals.PASSWORD)
    if not any(member.filename.startswith(part) for member in members):
        raise Refused(refusals.WRONG_TYPE)
