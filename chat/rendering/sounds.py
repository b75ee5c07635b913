"""Tells by how it begins whether a file is a sound that browsers play. Pure."""

import base64
import binascii
import re

# So many bytes tell it.
BEGINNING = 12

# Type and suffix. AAC before MP3: both begin with eleven set bits.
_SOUNDS = (
    (re.compile(rb"RIFF....WAVE", re.DOTALL), "audio/wav", "wav"),
    (re.compile(rb"\xff[\xf0\xf1\xf8\xf9]"), "audio/aac", "aac"),
    (re.compile(rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]"), "audio/mpeg", "mp3"),
    (re.compile(rb"OggS"), "audio/ogg", "ogg"),
    (re.compile(rb"fLaC"), "audio/flac", "flac"),
    (re.compile(rb"....ftypM4A ", re.DOTALL), "audio/mp4", "m4a"),
)


def sound_of(begin: bytes) -> tuple[str, str] | None:
    """Media type and suffix; nothing for what is none, whatever its name."""
    found = (each for each in _SOUNDS if each[0].match(begin))
    return next(((media_type, suffix) for _, media_type, suffix in found), None)


def sound_in(data: str) -> tuple[str, str] | None:
    """The same of base64."""
    try:
        return sound_of(base64.b64decode(data[: BEGINNING * 4 // 3], validate=True))
    except (binascii.Error, ValueError):
        return None
