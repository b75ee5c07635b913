"""Facts from an upstream's response: rate limits, ids, and the kind of its body."""

from collections.abc import Mapping
from typing import Literal

from chat.events import JsonObject

# The header families of OpenAI and most others, of Anthropic, and of the standard's drafts.
_RATE_LIMITS = ("x-ratelimit-", "anthropic-ratelimit-", "ratelimit")
_IDS = {
    "x-request-id": "request_id",
    "request-id": "request_id",
    "x-generation-id": "generation_id",
}
MAX_HEADERS = 40
MAX_VALUE_CHARACTERS = 200


def facts_of(headers: Mapping[str, str]) -> JsonObject:
    """The members of a ``meta.update``; empty if no header says anything. Figures stay texts as
    they were sent, because servers write their resets as dates, seconds or "12ms"."""
    lowered = {name.lower(): value[:MAX_VALUE_CHARACTERS] for name, value in headers.items()}
    limits = {name: value for name, value in lowered.items() if name.startswith(_RATE_LIMITS)}
    facts: JsonObject = {_IDS[name]: value for name, value in lowered.items() if name in _IDS}
    if limits:
        facts["rate_limit"] = dict(sorted(limits.items())[:MAX_HEADERS])
    return facts


# --- whether a body is an event stream, data, or a web page, by its type and first bytes
# -----------

Shape = Literal["stream", "data", "page"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n"
_FIELDS = (b"data", b"event", b"id", b"retry")
# A body that has not been recognised after this many bytes is data, whatever its type.
MAX_SNIFFED_BYTES = 1024


def shape_of(content_type: str, begun: bytes, *, is_complete: bool) -> Shape | None:
    """The shape of the body; ``None`` while more bytes are needed.

    Clear bytes decide, because servers label streams as plain text or HTML, and send JSON as a
    stream. The label decides in other cases.
    """
    label = content_type.partition(";")[0].strip().lower()
    text = begun.removeprefix(_BYTE_ORDER_MARK).lstrip(_BLANK)
    if _is_field(text):
        return "stream"
    if text[:1] in (b"{", b"["):
        return "data"
    if text[:1] == b"<":
        return "page"
    is_undecided = not text or _may_become_field(text)
    if is_undecided and not is_complete and len(begun) < MAX_SNIFFED_BYTES:
        return None
    return _by_label(label)


def _by_label(label: str) -> Shape:
    if label == "text/event-stream":
        return "stream"
    return "page" if label in ("text/html", "application/xhtml+xml") else "data"


def _is_field(text: bytes) -> bool:
    """Returns whether this is a comment, or a field's name with what must follow it."""
    if text.startswith(b":"):
        return True
    return any(text.startswith((field + b":", field + b"\n", field + b"\r")) for field in _FIELDS)


def _may_become_field(text: bytes) -> bool:
    return any(field.startswith(text) for field in _FIELDS)
