"""Encoding and decoding of events and results as JSON."""

import re
from collections.abc import Iterable

import msgspec

from chat.events.types import Event, VendorRaw
from chat.events.values import JsonObject, Result

# --- codec -------------------------------------------------------------------

_encoder = msgspec.json.Encoder()
_event_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_raw_list_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_result_decoder = msgspec.json.Decoder(Result)


def encode(value: Event | Result) -> bytes:
    """UTF-8 JSON on one line."""
    return _encoder.encode(value)


def decode(body: bytes) -> Event:
    """The event of one JSON object; an unknown ``type`` becomes ``vendor.raw`` with its seq kept.

    Raises ``msgspec.DecodeError`` for what is no JSON object at all.
    """
    try:
        return _event_decoder.decode(body)
    except msgspec.ValidationError:
        # A newer version wrote this type. One unreadable event must not make a batch unreadable.
        data = msgspec.json.decode(body, type=JsonObject)
        return VendorRaw(
            seq=int(data.get("seq", 0)),
            t=int(data.get("t", 0)),
            dialect="tributary",
            event=str(data.get("type")),
            data=data,
        )


def decode_result(body: bytes | str) -> Result:
    return _result_decoder.decode(body)


def join_bodies(bodies: Iterable[bytes]) -> bytes:
    """One JSON array of events that are already encoded: the body of a segment."""
    # A single format operation, because the end of a long answer is megabytes.
    return b"[%b]" % b",".join(bodies)


def split_bodies(body: bytes) -> list[bytes]:
    """The encoded events of a segment's body, each as its own JSON text."""
    return [bytes(raw) for raw in _raw_list_decoder.decode(body)]


_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def to_ascii(body: bytes) -> bytes:
    """The same JSON with every character beyond ASCII escaped, so that no U+2028 leaves raw."""
    if body.isascii():
        return body
    return _NOT_ASCII.sub(_escape, body.decode()).encode("ascii")
