"""Reading of untrusted JSON, and repair of what databases don't take."""

import json
import math
import re

import msgspec

from chat.events.values import Json, JsonObject

# No dialect nests deeper than twenty levels. Deeper values would exceed the recursion limit later.
MAX_DEPTH = 64

_NULL_ESCAPE = "\\u0000"
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class NotJson(ValueError):
    """The text is not JSON, or nests too deeply."""


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
