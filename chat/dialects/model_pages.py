"""Finds out how a model list that comes in pages goes on."""

from collections.abc import Mapping
from urllib.parse import urlencode

from chat.dialects.reading import NotJson, read_json

# Member that names the next page -> the query member that asks for it: Fireworks' lists of an
# account, and Friendli's of endpoints.
_TOKENS: Mapping[str, str] = {"nextPageToken": "pageToken", "nextCursor": "cursor"}
MAX_TOKEN_CHARACTERS = 1000


def next_page(path: str, body: bytes) -> str:
    """``path`` with the query of the page after ``body``; empty where that was the last one."""
    try:
        value = read_json(body.decode("utf-8", "replace"))[0]
    except NotJson:
        return ""
    if not isinstance(value, dict):
        return ""
    # Anthropic's; OpenAI's lists carry the same members and are always complete.
    if value.get("has_more") is True:
        return _asking(path, "after_id", value.get("last_id"))
    for member, name in _TOKENS.items():
        if value.get(member):
            return _asking(path, name, value[member])
    return ""


def _asking(path: str, name: str, token: object) -> str:
    if not isinstance(token, str) or not 0 < len(token) <= MAX_TOKEN_CHARACTERS:
        return ""
    joint = "&" if "?" in path else "?"
    return f"{path}{joint}{urlencode({name: token}, errors='replace')}"
