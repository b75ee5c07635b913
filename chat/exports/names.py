"""Names of exported files, from titles: one line, without folders, accepted by every system."""

from __future__ import annotations

import re

from chat.core.text import one_line, without_hidden
from chat.models import Conversation

# File systems take 255 bytes; the rest is for the id and the suffix.
NAME_BYTES = 160
# Characters that have a meaning on some system.
_FORBIDDEN = re.compile(r'[\\/:*?"<>|%#&{}$!\'@+`=\x00-\x1f\x7f]+')
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)


def stem_of(conversation: Conversation) -> str:
    title = one_line(_FORBIDDEN.sub(" ", without_hidden(conversation.title)))
    stem = title.encode()[:NAME_BYTES].decode(errors="ignore").strip(" .-~")
    if not stem or _DEVICES.match(stem):
        stem = f"conversation {stem}".strip()
    return stem


def unique_stem_of(conversation: Conversation) -> str:
    """The title and the id, so that conversations with the same title get different names."""
    return f"{stem_of(conversation)}-{conversation.public_id.hex}"
