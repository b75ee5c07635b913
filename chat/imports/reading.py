"""Reading of values of untrusted JSON: a wrong type counts as missing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from chat.dialects.reading import NotJson, read_json, repair_text, scrub
from chat.events import Json, JsonObject
from chat.imports.conversations import Call

# Later than any time in seconds (the year 5138), earlier than any in milliseconds (1973).
_LATEST_SECONDS = 1e11
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
# The length of the column; longer values are no ids.
ID_LENGTH = 200


def string(value: Json) -> str:
    """A text that databases accept; empty for anything but a text."""
    return repair_text(value) if isinstance(value, str) else ""


def text_in(value: Json, *names: str) -> str:
    """The first of these members that is a text with content."""
    members = value if isinstance(value, dict) else {}
    return next((found for name in names if (found := string(members.get(name)))), "")


def object_in(value: Json, name: str) -> JsonObject:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def list_in(value: Json, name: str) -> list[Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def objects_in(value: Json, name: str) -> list[JsonObject]:
    return [each for each in list_in(value, name) if isinstance(each, dict)]


def identifier(value: Json) -> str:
    """A text, or a whole number as text; empty for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        # Python refuses to write numbers of thousands of digits.
        return str(value) if value.bit_length() <= 128 else ""
    return string(value).strip()[:ID_LENGTH]


def id_in(value: Json, *names: str) -> str:
    """The first of these members that is an identifier."""
    members = value if isinstance(value, dict) else {}
    return next((found for name in names if (found := identifier(members.get(name)))), "")


def ids_in(value: Json, name: str) -> list[str]:
    return [identifier(each) for each in list_in(value, name)]


def time_in(value: Json, *names: str) -> datetime | None:
    """A time: seconds or milliseconds since 1970, or ISO 8601; ``None`` for an impossible one."""
    members = value if isinstance(value, dict) else {}
    return next((found for name in names if (found := moment(members.get(name)))), None)


def moment(value: Json) -> datetime | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        if isinstance(value, int | float):
            seconds = value / 1000 if value > _LATEST_SECONDS else value
            found = datetime.fromtimestamp(seconds, UTC)
        else:
            found = datetime.fromisoformat(string(value))
            found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return found if found >= EARLIEST else None


def arguments_of(value: Json, *, name: str = "input") -> JsonObject:
    """The arguments of a call: an object, or its JSON; anything else becomes the member
    ``name``."""
    if isinstance(value, str):
        try:
            value, _ = read_json(value)
        except NotJson:
            return {name: string(value)} if value.strip() else {}
    if value is None:
        return {}
    if not isinstance(value, dict):
        return {name: plain(value)}
    try:
        # A value that is nested too deeply for a log stays text.
        read_json(as_json(value))
    except NotJson:
        return {name: as_json(value)}
    clean = scrub(value)
    assert isinstance(clean, dict)
    return clean


def plain(value: Json) -> str:
    """A result as text: texts unchanged, everything else as JSON."""
    if value is None:
        return ""
    return string(value) if isinstance(value, str) else as_json(value)


def as_json(value: Json) -> str:
    try:
        return repair_text(msgspec.json.encode(value).decode())
    except (UnicodeEncodeError, RecursionError):
        return ""


def joined(texts: Iterable[str], separator: str = "\n\n") -> str:
    return separator.join(text for text in texts if text.strip())


_BACKTICKS = re.compile("`{3,}")


def fenced(text: str, language: str = "") -> str:
    """A code block that the text can't close."""
    longest = max((len(found) for found in _BACKTICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    word = language if re.fullmatch(r"[\w+#-]{1,30}", language) else ""
    return f"{fence}{word}\n{text}\n{fence}"


def file_text(name: str, text: str) -> str:
    """A text that was attached to a message, as part of the message."""
    return f"{name}:\n\n{fenced(text)}" if name else fenced(text)


def call_with(call: Call, *, output: str, has_failed: bool) -> Call:
    return msgspec.structs.replace(call, output=output, has_failed=call.has_failed or has_failed)
