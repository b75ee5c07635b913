"""Uploads with skills for tests."""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Mapping

TEXT = """\
---
name: weekly-report
description: >
  Writes the weekly report
  of the lock.
license: MIT
metadata:
  author: river
  version: 1.10
allowed-tools: Bash(git:*) Read
---
# Weekly report

Begin with the **water level**, see [levels](references/levels.md).
"""
FILES = {
    "references/levels.md": b"Above four metres: high.\n",
    "scripts/measure.py": b'print("<b>4.2</b>")\n',
    "assets/lock.png": b"\x89PNG\r\n\x1a\n\x00",
}


def skill_text(name: str = "weekly-report", body: str = "Do it.\n") -> str:
    return f"---\nname: {name}\ndescription: Does {name}.\n---\n{body}"


def zip_of(
    files: Mapping[str, bytes | str], *, method: int = zipfile.ZIP_DEFLATED, mode: int = 0o100644
) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", method) as archive:
        for path, content in files.items():
            info = zipfile.ZipInfo(path)
            info.compress_type = method
            info.external_attr = mode << 16
            archive.writestr(info, content)
    return body.getvalue()


def zip_with_link() -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        archive.writestr("a/SKILL.md", skill_text("a"))
        link = zipfile.ZipInfo("a/passwords")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    return body.getvalue()


def encrypted(body: bytes) -> bytes:
    """The archive with the mark of encryption in all of its headers."""
    changed = bytearray(body)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = body.find(signature)
        while place >= 0:
            changed[place + offset] |= 1
            place = body.find(signature, place + 4)
    return bytes(changed)


WEEKLY = zip_of(
    {
        "weekly-report/SKILL.md": TEXT,
        **{f"weekly-report/{path}": body for path, body in FILES.items()},
    }
)
