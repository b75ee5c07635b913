"""Reading of untrusted JSON and frames: nothing raises, and nothing is lost."""

from typing import Literal

import msgspec
from msgspec import Struct

from chat.events import Json, JsonObject
from chat.events.json_text import MAX_DEPTH as MAX_DEPTH
from chat.events.json_text import NotJson as NotJson
from chat.events.json_text import has_surrogates as has_surrogates
from chat.events.json_text import join_surrogates as join_surrogates
from chat.events.json_text import read_json as read_json
from chat.events.json_text import read_object as read_object
from chat.events.json_text import repair_text as repair_text
from chat.events.json_text import scrub as scrub
from chat.events.json_text import write_json as write_json
from chat.wire.sse import Frame, read_field

_KNOWN_FIELDS = frozenset((b"", b"data", b"event", b"id", b"retry"))


class Payload(Struct, frozen=True):
    """The content of one event: a JSON value, the end marker, or other text.

    ``text`` is the spelling that was read.
    """

    kind: Literal["json", "done", "text"]
    event: str | None
    text: str
    value: Json = None
    has_surrogates: bool = False


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
