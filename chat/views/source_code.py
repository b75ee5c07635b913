"""Text of others as highlighted source: escaped, hidden letters made visible, bounded."""

from __future__ import annotations

from typing import Any

from django.utils.safestring import SafeString

from chat.rendering.components import safe
from chat.rendering.markdown import code_block
from chat.rendering.safety import reveal, storable

# A page that is still easy to scroll; the download has all of it.
SHOWN_CHARACTERS = 400_000
# More of these than any text has, and it is none.
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))


def read_text(body: bytes) -> str | None:
    """The text that these bytes are in UTF-8; ``None`` if they are something else."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if body.translate(None, _CONTROLS) != body else text


def source_code(text: str, language: str) -> tuple[SafeString, int]:
    """The code block, and how many characters of the text it shows."""
    shown = text[:SHOWN_CHARACTERS]
    return safe(code_block(reveal(storable(shown)), language)), len(shown)


def code_of(text: str, language: str) -> dict[str, Any]:
    """What ``artifacts/_code.html`` shows."""
    code, shown = source_code(text, language)
    return {"code": code, "shown": shown, "total": len(text), "is_cut": shown < len(text)}
