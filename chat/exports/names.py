"""Names of exported files, made of titles: one line, without folders, accepted by every system."""

from __future__ import annotations

import re

from chat.core.text import one_line, without_hidden
from chat.models import Conversation

# File systems take 255 bytes; the rest is for the id and the suffix.
NAME_BYTES = 160
# What some system gives a meaning.
_FORBIDDEN = re.compile(r'[\\/:*?"<>|%#&{}$!\'@+`=\x00-\x1f\x7f]+')
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)


def stem_of(conversation: Conversation) -> str:
    """The title as the name of a file, without a suffix."""
    title = one_line(_FORBIDDEN.sub(" ", without_hidden(conversation.title)))
    stem = title.encode()[:NAME_BYTES].decode(errors="ignore").strip(" .-~")
    if not stem or _DEVICES.match(stem):
        stem = f"conversation {stem}".strip()
    return stem


def unique_stem_of(conversation: Conversation) -> str:
    """With the id, so that conversations of one title don't meet."""
    return f"{stem_of(conversation)}-{conversation.public_id.hex}"
