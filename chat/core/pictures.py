"""Pictures, recognized by their bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

# Pixels per side, more than any camera has; file formats can announce billions.
LONGEST_SIDE = 30_000

# JPEG's "start of frame" segments, whose payload holds the size: C0 to CF without the three
# that are tables.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Segments without a length.
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureFacts:
    """The type and size of a picture, read from its bytes. Sides in pixels."""

    media_type: str
    width: int
    height: int

    @property
    def is_sane(self) -> bool:
        return 0 < self.width <= LONGEST_SIDE and 0 < self.height <= LONGEST_SIDE

    def has_at_most(self, pixels: int) -> bool:
        """Returns whether the picture has a plausible size, and at most this many pixels."""
        return self.is_sane and self.width * self.height <= pixels


def read_picture(body: bytes) -> PictureFacts | None:
    """The facts of a PNG, JPEG, GIF or WebP; ``None`` for everything else, whatever its name."""
    for media_type, size_of in _FORMATS.items():
        size = size_of(body)
        if size is not None:
            return PictureFacts(media_type=media_type, width=size[0], height=size[1])
    return None


Size = tuple[int, int]


def _png(body: bytes) -> Size | None:
    if not body.startswith(b"\x89PNG\r\n\x1a\n") or body[12:16] != b"IHDR" or len(body) < 24:
        return None
    width, height = struct.unpack(">II", body[16:24])
    return width, height


def _gif(body: bytes) -> Size | None:
    if not body.startswith((b"GIF87a", b"GIF89a")) or len(body) < 10:
        return None
    width, height = struct.unpack("<HH", body[6:10])
    return width, height


def _jpeg(body: bytes) -> Size | None:
    """Walks the segments to the frame's header; each step is bounded by the file."""
    if not body.startswith(b"\xff\xd8\xff"):
        return None
    at = 2
    while at + 9 <= len(body) and body[at] == 0xFF:
        marker = body[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack(">HH", body[at + 5 : at + 9])
            return width, height
        is_fill = marker == 0xFF
        at += 1 if is_fill else 2 if marker in _BARE else 2 + _length(body, at)
    return None


def _length(body: bytes, at: int) -> int:
    """The length of a segment, at least the two bytes of the length itself, so that the walk advances."""
    return max(2, int.from_bytes(body[at + 2 : at + 4], "big"))


def _webp(body: bytes) -> Size | None:
    if body[:4] != b"RIFF" or body[8:12] != b"WEBP" or len(body) < 30:
        return None
    chunk = body[12:16]
    if chunk == b"VP8X":
        width = int.from_bytes(body[24:27], "little") + 1
        height = int.from_bytes(body[27:30], "little") + 1
        return width, height
    if chunk == b"VP8L" and body[20] == 0x2F:
        bits = int.from_bytes(body[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if chunk == b"VP8 " and body[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", body[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return None


_FORMATS: dict[str, Callable[[bytes], Size | None]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
