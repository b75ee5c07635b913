"""Text made safe to look at: characters that hide or reorder others become readable tokens."""

import re

# The twelve bidirectional controls, zero-width and joining characters, the byte order mark and
# the tag block: in code and names they can make one thing look like another (Trojan Source).
_HIDDEN = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_NEWLINES = re.compile("\r\n?")


def _token(match: re.Match[str]) -> str:
    return f"[U+{ord(match.group()):04X}]"


def reveal(text: str) -> str:
    """Every hidden character as ``[U+202E]``: for code, names and titles."""
    return _HIDDEN.sub(_token, text)


def reveal_direction(text: str) -> str:
    """Only the direction controls: for link labels, where joined emoji are legitimate."""
    return _BIDI.sub(_token, text)


def storable(text: str) -> str:
    """Text that every encoder accepts: a lone surrogate and a NUL become U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def one_newline(text: str) -> str:
    return _NEWLINES.sub("\n", text) if "\r" in text else text
