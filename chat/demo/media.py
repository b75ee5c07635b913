"""Pictures and a sound that are made, not kept: the same bytes whenever they are asked for."""

import functools
import math
import struct
import zlib
from collections.abc import Callable

Colour = tuple[int, int, int]

# Samples per second of the sound, one byte each.
SOUND_RATE = 8000


def png(width: int, height: int, colour_at: Callable[[int, int], Colour]) -> bytes:
    """A picture of `width` by `height` pixels; `colour_at` gives red, green, blue of one of them."""
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for x in range(width):
            rows += bytes(colour_at(x, y))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(rows), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@functools.cache
def weir() -> bytes:
    """A weir between two meadows, 192 by 128 pixels in less than a kilobyte."""
    return png(192, 128, _weir_colour)


def _weir_colour(x: int, y: int) -> Colour:
    """Water from the left that falls over a step in the middle."""
    if y < 40:
        return (222, 232, 228)
    is_above = x < 96
    surface = 56 if is_above else 88
    if 92 <= x < 100 and y >= 52:
        return (112, 96, 80)
    if 100 <= x < 112 and 60 <= y < 96:
        return (236, 242, 242)
    if y >= surface:
        return (62, 132, 140) if (y - surface) // 8 % 2 else (84, 156, 162)
    return (150, 176, 112)


@functools.cache
def murmur() -> bytes:
    """Three fading tones, a quarter of a second of 8 bit sound at 8 kHz, as a WAV file."""
    samples = bytes(_sample(number / SOUND_RATE) for number in range(SOUND_RATE // 4))
    form = struct.pack("<HHIIHH", 1, 1, SOUND_RATE, SOUND_RATE, 1, 8)
    body = b"WAVE" + _part(b"fmt ", form) + _part(b"data", samples)
    return _part(b"RIFF", body)


def _sample(second: float) -> int:
    """128 is silence."""
    tones = sum(math.sin(math.tau * hertz * second) for hertz in (220, 277, 330))
    return 128 + round(30 * tones * (1 - 4 * second))


def _part(name: bytes, data: bytes) -> bytes:
    return name + struct.pack("<I", len(data)) + data
