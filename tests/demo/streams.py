"""Strict readers of the demo's streams."""

import json
from typing import Any

JsonObject = dict[str, Any]


def blocks_of(body: bytes) -> list[bytes]:
    assert body.endswith(b"\n\n")
    assert b"\r" not in body
    return body.removesuffix(b"\n\n").split(b"\n\n")


def named_events_in(body: bytes) -> list[JsonObject]:
    """Every block is an ``event:`` line and a ``data:`` line that agree on the type."""
    return [_named_event(block) for block in blocks_of(body)]


def _named_event(block: bytes) -> JsonObject:
    name, data = block.split(b"\n")
    event: JsonObject = json.loads(data.removeprefix(b"data: "))
    assert name == b"event: " + event["type"].encode()
    assert data.startswith(b"data: ")
    return event


def openai_chunks_in(body: bytes) -> list[JsonObject]:
    """Every block is a comment or one ``data:`` line; the last is ``[DONE]`` and is left out."""
    blocks = [block for block in blocks_of(body) if not block.startswith(b":")]
    assert blocks[-1] == b"data: [DONE]"
    assert all(block.startswith(b"data: ") and b"\n" not in block for block in blocks)
    return [json.loads(block.removeprefix(b"data: ")) for block in blocks[:-1]]


def text_of(events: list[JsonObject], kind: str = "message") -> str:
    return joined(event["content"] for event in events if event["type"] == f"{kind}.delta")


def joined(pieces: Any) -> str:
    """Pieces joined, halves of surrogate pairs included."""
    return "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16")
