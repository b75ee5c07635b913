"""Answers that leave files behind, and the bytes of pictures."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Callable

import pytest
from django.db import transaction
from django.test import Client

from chat import events
from chat.conversations.actions.messages import ModelChoice, send_message
from chat.models import Conversation, Message, Run, Upstream, User
from chat.result import Fold, close_open
from chat.runs.outcomes import write_ending

Answer = Callable[..., Run]


@pytest.fixture
def alice_client(alice: User, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(alice)


@pytest.fixture
def answer(conversation: Conversation, upstream: Upstream, alice: User) -> Answer:
    """``answer(event, …)``: a run whose log holds these events, ended as the reaper ends it.
    ``below`` is the message that it follows, ``of`` its conversation."""

    def make(
        *log: events.Event, below: Message | None = None, of: Conversation = conversation
    ) -> Run:
        run = send_message(
            alice,
            of,
            parent=below,
            text="Make something.",
            choice=ModelChoice(upstream=upstream, model="demo/model"),
            idempotency_key=uuid.uuid4(),
        )
        end(run, log)
        return run

    return make


def end(run: Run, log: tuple[events.Event, ...]) -> None:
    fold = Fold()
    everything = [events.ChatStart(model_instance_id="demo/model"), *log]
    for seq, event in enumerate(everything, start=1):
        event.seq = seq
        fold.add(event)
    with transaction.atomic():
        write_ending(run, [*everything, *close_open(fold, "stopped")], after=0)
    run.refresh_from_db()


def png(width: int = 4, height: int = 3, extra: bytes = b"") -> bytes:
    """A whole picture of one colour."""
    rows = b"".join(b"\x00" + b"\x20\x80\x80" * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks + extra


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def announced_png(width: int, height: int) -> bytes:
    """A header that announces this size, without any pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header)


GIF = b"GIF89a" + struct.pack("<HH", 5, 6) + b"\x00\x00\x00;"
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
    b"\xff\xc0\x00\x11\x08\x00\x07\x00\x08\x03\x01\x22\x00\x02\x11\x01\x03\x11\x01\xff\xd9"
)
WEBP_LOSSY = b"RIFF\x20\x00\x00\x00WEBPVP8 \x14\x00\x00\x00\x00\x00\x00\x9d\x01\x2a" + struct.pack(
    "<HH", 9, 10
)
WEBP_LOSSLESS = (
    b"RIFF\x20\x00\x00\x00WEBPVP8L\x14\x00\x00\x00\x2f"
    + ((11 - 1) | (12 - 1) << 14).to_bytes(4, "little")
    + bytes(8)
)
WEBP_EXTENDED = (
    b"RIFF\x20\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00"
    + (12).to_bytes(3, "little")
    + (13).to_bytes(3, "little")
)
# With the size that their bytes tell.
PICTURES: list[tuple[bytes, str, tuple[int, int]]] = [
    (png(4, 3), "image/png", (4, 3)),
    (GIF, "image/gif", (5, 6)),
    (JPEG, "image/jpeg", (8, 7)),
    (WEBP_LOSSY, "image/webp", (9, 10)),
    (WEBP_LOSSLESS, "image/webp", (11, 12)),
    (WEBP_EXTENDED, "image/webp", (13, 14)),
]
PAGE = b"<!doctype html><script>alert(document.domain)</script>"
