"""What comes from the reader's process, which a file may have taken over, is not believed."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from django.db import transaction

from chat.exports.json_form import write_json
from chat.exports.reading import read_source
from chat.files.actions import NewFile, attach
from chat.imports import reader, source
from chat.imports.actions import import_file
from chat.imports.frames import Broken, Order, decode
from chat.imports.source import ReaderKilled
from chat.models import Conversation, FileContent, Message, NewContent, Role, StoredFile, Team, User
from tests.support.answers import png
from tests.transfers.test_faults import picture_archive

SECRET = b"nobody but Alice has this"
DIGEST = sha256(SECRET).digest()


def own_export(conversation: Conversation, alice: User) -> bytes:
    """A conversation with a picture, as Tributary exports it."""
    message = Message.objects.create(conversation=conversation, role=Role.USER, text="Look")
    with transaction.atomic():
        attach(message, alice, [NewFile(name="a.png", media_type="image/png", body=png())])
    return b"".join(write_json(read_source(alice, conversation)))


def without_bytes(frames: list[bytes]) -> list[bytes]:
    return [frame for frame in frames if frame[:1] != b"B"]


def with_digest(frames: list[bytes]) -> list[bytes]:
    """As if a digest could stand for the bytes."""
    return [b"B" + DIGEST if frame[:1] == b"B" else frame for frame in frames]


def of_a_stranger(frames: list[bytes]) -> list[bytes]:
    """The file says that its bytes are those with the digest, and brings others."""
    known = sha256(png()).hexdigest().encode()
    return [
        b"B" + DIGEST + b"other"
        if frame[:1] == b"B"
        else frame.replace(known, DIGEST.hex().encode())
        for frame in frames
    ]


@pytest.mark.parametrize("change", [without_bytes, with_digest, of_a_stranger])
@pytest.mark.parametrize("product", ["tributary", "chatgpt"])
def test_digest_gives_nobody_the_file_of_somebody_else(
    product: str,
    change: Callable[[list[bytes]], list[bytes]],
    conversation: Conversation,
    alice: User,
    bob: User,
    team: Team,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    FileContent.objects.keep(NewContent(body=SECRET))
    body = own_export(conversation, alice) if product == "tributary" else picture_archive()
    frames = list(reader.read_export(io.BytesIO(body), msgspec.json.encode(Order())))
    assert any(frame[:1] == b"B" for frame in frames)
    before = StoredFile.objects.count()

    def read(*_: object, **__: object) -> Iterator[bytes]:
        yield from change(frames)

    monkeypatch.setattr(source, "read_in_child", read)
    with pytest.raises(ReaderKilled, match="makes the reader fail"):
        import_file(bob, team, io.BytesIO(body))

    assert StoredFile.objects.count() == before
    assert not Conversation.objects.filter(owner=bob).exists()
    assert bytes(FileContent.objects.get(pk=DIGEST.hex()).body) == SECRET


FRAMES: dict[str, Any] = {
    "unknown": b"Zabc",
    "no JSON": b'F{"format',
    "of another type": b'F{"format": 1, "total": 2}',
    "short id": b"E123[]",
    "empty": b"",
}


@pytest.mark.parametrize("name", FRAMES)
def test_frame_that_no_reader_gives_ends_the_import_in_words(
    name: str,
    alice: User,
    team: Team,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(source, "read_in_child", lambda *_, **__: (each for each in [FRAMES[name]]))

    with caplog.at_level(logging.WARNING), pytest.raises(ReaderKilled, match="makes the reader"):
        import_file(alice, team, io.BytesIO(b"[]"))

    assert "child.broken" in caplog.text


def test_parts_that_never_end_are_not_collected() -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"B" + taken.to_bytes(4, "big") * 250

    with pytest.raises(Broken):
        list(decode(endless(), most_bytes=10_000))

    assert taken == 10
