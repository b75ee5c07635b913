"""A small writer of PDF, also of broken and encrypted ones."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

# The padding of passwords (PDF 32000-1, algorithm 2).
_PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
_IDENTITY = b"0123456789abcdef"


def pdf(
    pages: Sequence[str],
    *,
    password: str | None = None,
    claimed_pages: int | None = None,
    catalog: str = "",
    first_bytes: bytes = b"",
    font: str = "Helvetica",
) -> bytes:
    """A document with a line of text for each line of a page. ``claimed_pages``: what its page tree says.
    ``password``: empty for one that opens without."""
    first = 4
    kids = " ".join(f"{first + 2 * index} 0 R" for index in range(len(pages)))
    count = len(pages) if claimed_pages is None else claimed_pages
    objects = {
        1: f"<</Type/Catalog/Pages 2 0 R {catalog}>>".encode(),
        2: f"<</Type/Pages/Kids[{kids}]/Count {count}>>".encode(),
        3: f"<</Type/Font/Subtype/TrueType/BaseFont/{font}/Encoding/WinAnsiEncoding>>".encode(),
    }
    key = b""
    if password is not None:
        owner, key, user = _security(password)
        objects[first + 2 * len(pages)] = b"<</Filter/Standard/V 1/R 2/P -4/O<%s>/U<%s>>>" % (
            _hex(owner),
            _hex(user),
        )
    for index, text in enumerate(pages):
        number = first + 2 * index
        objects[number] = (
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents {number + 1} 0 R"
            "/Resources<</Font<</F 3 0 R>>>>>>"
        ).encode()
        content = _content(text)
        if key:
            content = _rc4(_object_key(key, number + 1), content)
        objects[number + 1] = b"<</Length %d>>stream\n%s\nendstream" % (len(content), content)
    return first_bytes + _file(objects)


def _content(text: str) -> bytes:
    lines = (
        b"("
        + line.encode("cp1252").replace(b"\\", rb"\\").replace(b"(", rb"\(").replace(b")", rb"\)")
        + b") Tj T*"
        for line in text.splitlines()
    )
    return b"BT /F 12 Tf 14 TL 50 750 Td " + b" ".join(lines) + b" ET"


def _file(objects: dict[int, bytes]) -> bytes:
    body = bytearray(b"%PDF-1.4\n")
    places = {}
    for number, content in sorted(objects.items()):
        places[number] = len(body)
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = len(body)
    size = max(objects) + 1
    body += b"xref\n0 %d\n0000000000 65535 f \n" % size
    for number in range(1, size):
        body += b"%010d 00000 n \n" % places[number]
    is_encrypted = any(b"/Filter/Standard" in content for content in objects.values())
    more = b"/Encrypt %d 0 R" % max(objects) if is_encrypted else b""
    body += b"trailer<</Size %d/Root 1 0 R/ID[<%s><%s>]%s>>\nstartxref\n%d\n%%%%EOF" % (
        size,
        _hex(_IDENTITY),
        _hex(_IDENTITY),
        more,
        table,
    )
    return bytes(body)


# --- 40-bit encryption (PDF 32000-1, 7.6.3) -------------------------------------------------------


def _security(password: str) -> tuple[bytes, bytes, bytes]:
    padded = (password.encode() + _PADDING)[:32]
    owner = _rc4(hashlib.md5(padded).digest()[:5], padded)
    permissions = (-4 & 0xFFFFFFFF).to_bytes(4, "little")
    key = hashlib.md5(padded + owner + permissions + _IDENTITY).digest()[:5]
    return owner, key, _rc4(key, _PADDING)


def _object_key(key: bytes, number: int) -> bytes:
    salted = key + number.to_bytes(3, "little") + bytes(2)
    return hashlib.md5(salted).digest()[:10]


def _rc4(key: bytes, data: bytes) -> bytes:
    state = list(range(256))
    at = 0
    for index in range(256):
        at = (at + state[index] + key[index % len(key)]) % 256
        state[index], state[at] = state[at], state[index]
    out, first, second = bytearray(), 0, 0
    for byte in data:
        first = (first + 1) % 256
        second = (second + state[first]) % 256
        state[first], state[second] = state[second], state[first]
        out.append(byte ^ state[(state[first] + state[second]) % 256])
    return bytes(out)


def _hex(data: bytes) -> bytes:
    return data.hex().encode()
