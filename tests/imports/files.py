"""Files as people upload them: JSON, and archives with anything in them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import BinaryIO


def as_json(value: object) -> BinaryIO:
    return io.BytesIO(json.dumps(value).encode())


def as_zip(members: Mapping[str, object]) -> io.BytesIO:
    """Bytes as they are, everything else as JSON."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in members.items():
            archive.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    file.seek(0)
    return file


def changed_directory(file: io.BytesIO, offset: int, value: bytes, *, entry: int = 0) -> io.BytesIO:
    """The same archive with other bytes at ``offset`` of one entry of its directory."""
    body = bytearray(file.getvalue())
    place = -1
    for _ in range(entry + 1):
        place = body.index(b"PK\x01\x02", place + 1)
    body[place + offset : place + offset + len(value)] = value
    return io.BytesIO(bytes(body))


def linked(name: str = "conversations.json", target: str = "/etc/passwd") -> io.BytesIO:
    """An archive with a symbolic link."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.create_system = 3
        info.external_attr = 0o120777 << 16
        archive.writestr(info, target)
    file.seek(0)
    return file
