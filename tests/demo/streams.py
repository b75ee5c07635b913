"""Strict readers of the demo's streams."""

import json
from typing import Any

import httpx

JsonObject = dict[str, Any]


def blocks_of(body: bytes) -> list[bytes]:
    assert body.endswith(b"\n\n")
    assert b"\r" not in body
    return body.removesuffix(b"\n\n").split(b"\n\n")


def events_in(response: httpx.Response) -> list[JsonObject]:
    """The events of a stream whose payloads repeat their names, as most APIs send them."""
    return named_events_in(stream_in(response))


def chunks_in(response: httpx.Response) -> list[JsonObject]:
    return openai_chunks_in(stream_in(response))


def stream_in(response: httpx.Response) -> bytes:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/event-stream"
    return response.content


async def read_until_broken(client: httpx.AsyncClient, path: str, body: object) -> bytes:
    """What arrives of a stream before its connection breaks off, which it has to."""
    received = bytearray()
    try:
        async with client.stream("POST", path, json=body) as response:
            async for data in response.aiter_raw():
                received += data
    except httpx.TransportError:
        return bytes(received)
    raise AssertionError("the stream ended in order")


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


def types_of(events: list[JsonObject]) -> list[str]:
    return [event["type"] for event in events]


def text_of(events: list[JsonObject], kind: str = "message") -> str:
    return joined(event["content"] for event in events if event["type"] == f"{kind}.delta")


def content_of(chunks: list[JsonObject], member: str = "content") -> str:
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    return joined(delta.get(member) or "" for delta in deltas)


def joined(pieces: Any) -> str:
    """Pieces joined, halves of surrogate pairs included."""
    return "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16")


def finish_reasons(chunks: list[JsonObject]) -> list[str]:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
