"""Reading of untrusted JSON and frames: nothing raises, and nothing is lost."""

import json
import math
import re
from typing import Literal

import msgspec
from msgspec import Struct

from chat.events import Json, JsonObject
from chat.wire.sse import Frame, read_field

# No dialect nests deeper than twenty levels. Deeper values would exceed the recursion limit later.
MAX_DEPTH = 64

_NULL_ESCAPE = "\\u0000"
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_KNOWN_FIELDS = frozenset((b"", b"data", b"event", b"id", b"retry"))


class NotJson(ValueError):
    """The text is not JSON, or nests too deeply."""


class Payload(Struct, frozen=True):
    """The content of one event: a JSON value, the end marker, or other text.

    ``text`` is the spelling that was read.
    """

    kind: Literal["json", "done", "text"]
    event: str | None
    text: str
    value: Json = None
    has_surrogates: bool = False


def read_json(text: str) -> tuple[Json, bool]:
    """The value, and whether lone surrogates may be in it. Raises ``NotJson``.

    Raw control characters are accepted, NaN and Infinity become null, U+0000 becomes
    U+2400. Lone surrogates stay, because a pair may be split over two deltas: where the
    flag is set, the caller repairs what it makes of the value.
    """
    if _NULL_ESCAPE not in text:
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass
        else:
            if text.count("[") + text.count("{") > MAX_DEPTH:
                _check_depth(value, 0)
            return value, False
    try:
        value = _lenient.decode(text.strip("\ufeff \t\r\n"))
    except (ValueError, RecursionError):
        raise NotJson from None
    return _tidy(value, 0), _SURROGATE_ESCAPE.search(text) is not None


def read_object(text: str) -> JsonObject | None:
    """A JSON object whose strings can be stored (no NUL, no lone surrogates), or ``None``."""
    try:
        value, _ = read_json(text)
    except NotJson:
        return None
    return scrub(value) if isinstance(value, dict) else None


def _whole_number(digits: str) -> int | str:
    # Python refuses to convert more than 4,300 digits, because that takes quadratic time.
    return int(digits) if len(digits) < 4000 else digits


def _finite_number(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


_lenient = json.JSONDecoder(
    strict=False,
    parse_constant=lambda _: None,
    parse_int=_whole_number,
    parse_float=_finite_number,
)


def _check_depth(value: Json, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise NotJson
    if isinstance(value, dict):
        for member in value.values():
            _check_depth(member, depth + 1)
    elif isinstance(value, list):
        for member in value:
            _check_depth(member, depth + 1)


def _tidy(value: Json, depth: int) -> Json:
    if depth > MAX_DEPTH:
        raise NotJson
    if isinstance(value, str):
        return value.replace("\x00", "\u2400")
    if isinstance(value, dict):
        return {_tidy(key, depth): _tidy(member, depth + 1) for key, member in value.items()}
    if isinstance(value, list):
        return [_tidy(member, depth + 1) for member in value]
    return value


def join_surrogates(text: str) -> str:
    """Joins adjacent surrogates to characters; lone surrogates stay."""
    return _SURROGATE_PAIR.sub(_pair, text)


def has_surrogates(text: str) -> bool:
    """Returns whether it contains surrogates, which cannot be encoded."""
    return _SURROGATE.search(text) is not None


def _pair(match: re.Match[str]) -> str:
    return match.group().encode("utf-16", "surrogatepass").decode("utf-16")


def repair_text(text: str) -> str:
    """Text that databases accept: without NUL and lone surrogates."""
    if "\x00" in text:
        text = text.replace("\x00", "\u2400")
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return _SURROGATE.sub("\ufffd", join_surrogates(text))


def scrub(value: Json) -> Json:
    """The same value with every string, keys included, repaired."""
    if isinstance(value, str):
        return repair_text(value)
    if isinstance(value, dict):
        return {scrub(key): scrub(member) for key, member in value.items()}
    if isinstance(value, list):
        return [scrub(member) for member in value]
    return value


def write_json(value: Json) -> str:
    """Compact JSON of a value, safe to store."""
    return msgspec.json.encode(scrub(value)).decode()


# --- frames ------------------------------------------------------------------


def read_frame(frame: Frame) -> list[Payload]:
    """The payloads of one frame: usually one; none for comments and empty data.

    Data that is no JSON as a whole may be several events without blank lines between them, or JSON
    printed over lines that lack ``data:``. Other data stays text.
    """
    event = None if frame.event is None else repair_text(frame.event)
    if frame.is_comment:
        return _read_error_field(frame) or _read_stray_lines(frame, event)
    whole = _read_text(frame.data, event)
    if whole.kind == "json":
        return [whole]
    if not frame.data.strip():
        return [Payload("json", event, "", {})] if event else []
    return _read_separately(frame.data, event) or _read_stray_lines(frame, event) or [whole]


def _read_text(text: str, event: str | None) -> Payload:
    try:
        value, has_surrogates = read_json(text)
    except NotJson:
        kind: Literal["done", "text"] = "done" if text.lstrip().startswith("[DONE]") else "text"
        return Payload(kind, event, text)
    return Payload("json", event, text, value, has_surrogates)


def _read_separately(data: str, event: str | None) -> list[Payload]:
    lines = [line for line in data.split("\n") if line.strip()]
    if len(lines) < 2:
        return []
    first, *rest = lines
    payloads = [_read_text(first, event), *(_read_text(line, None) for line in rest)]
    return [] if any(payload.kind == "text" for payload in payloads) else payloads


def _read_error_field(frame: Frame) -> list[Payload]:
    """The error of a block whose only field is ``error``, as servers based on llama.cpp send it."""
    for line in frame.raw.splitlines():
        name, text = read_field(line)
        if name == b"error":
            payload = _read_text(text, "error")
            if payload.kind != "json":
                return [payload]
            error = payload.value
            is_wrapped = isinstance(error, dict) and "error" in error
            return [
                msgspec.structs.replace(payload, value=error if is_wrapped else {"error": error})
            ]
    return []


def _read_stray_lines(frame: Frame, event: str | None) -> list[Payload]:
    """The block as text, if it has lines that are not fields of an event stream."""
    kept: list[str] = []
    has_stray = False
    for line in frame.raw.splitlines():
        name, value = read_field(line)
        if name == b"data":
            kept.append(value)
        elif name not in _KNOWN_FIELDS and name.strip():
            has_stray = True
            kept.append(line.decode("utf-8", "replace"))
    if not has_stray:
        return []
    payload = _read_text("\n".join(kept), event)
    return [payload] if payload.kind == "json" or frame.is_comment else []


def as_text(value: Json) -> str:
    """The value as text: JSON if it is no text, and empty if it is nothing."""
    if isinstance(value, str):
        return value
    return "" if value is None else write_json(value)


def as_object(text: str) -> JsonObject | None:
    """The object of an argument text, also if it was encoded twice."""
    try:
        value: Json = read_json(text)[0]
        if isinstance(value, str):
            value = read_json(value)[0]
    except NotJson:
        return None
    return scrub(value) if isinstance(value, dict) else None
