"""Bytes of the two event streams that the demo speaks."""

import json
import re
from collections.abc import Mapping
from typing import Any

STREAM_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
OPENAI_DONE = b"data: [DONE]\n\n"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def json_bytes(value: object) -> bytes:
    """Compact JSON as a JavaScript server writes it: raw UTF-8, lone surrogates escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text).encode()


def lmstudio_event(event: Mapping[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), json_bytes(event))


def openai_chunk(chunk: Mapping[str, Any]) -> bytes:
    return b"data: %b\n\n" % json_bytes(chunk)
