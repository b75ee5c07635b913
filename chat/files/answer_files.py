"""Stores the files that answers contain."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import cast

from chat import events
from chat.core.text import clean
from chat.events import MediaItem, MediaUpdate, Result
from chat.models import (
    AnswerFile,
    FileContent,
    NewContent,
    Run,
    RunSegment,
    SearchKind,
    StoredFile,
)
from chat.result import media_name
from chat.runs.outcomes import OutcomeStep
from chat.search.sources import index


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile(NewContent):
    """A file in an answer, and its position there. ``name`` is its name in the result."""

    name: str
    media_type: str
    choice: int
    item: int
    position: int
    transcript: str


def read_output_files(
    run_pk: int, result: Result, closing: Sequence[bytes] = ()
) -> list[OutputFile]:
    """The files in an answer, decoded, hashed, and written to the storage for files. This runs before
    the transaction that ends the run, wherever possible, because other writers wait for that one.
    ``closing`` are the encoded events that are not in the run's log yet."""
    outputs = [result.output, *(each.output for each in result.ext.alternatives)]
    if not any(isinstance(item, MediaItem) and item.file for items in outputs for item in items):
        return []
    media = read_media(_media_updates(run_pk, closing))
    found = [_output_file(medium, body) for medium in media if (body := medium.body())]
    return FileContent.objects.write(found)


def _output_file(medium: Medium, body: bytes) -> OutputFile:
    return OutputFile(
        name=medium.name,
        media_type=clean(medium.last.media_type),
        body=body,
        choice=medium.last.choice,
        item=medium.last.item,
        position=medium.position,
        transcript=clean("".join(medium.transcripts)),
    )


def store_output_files(run: Run, result: Result, prepared: object) -> None:
    """Stores the files of an answer. Call this in the transaction that ends the run."""
    found = cast("list[OutputFile]", prepared)
    FileContent.objects.keep_all(found)
    for each in found:
        file = StoredFile.objects.store(
            run.conversation_id, name=each.name, media_type=each.media_type, content=each
        )
        index(SearchKind.FILE, file)
        AnswerFile.objects.create(
            run=run,
            file=file,
            choice=each.choice,
            item=each.item,
            position=each.position,
            transcript=each.transcript,
        )


STORE_OUTPUT_FILES = OutcomeStep(
    name="files",
    prepare=read_output_files,
    applies=lambda result, prepared: bool(prepared),
    store=store_output_files,
)


@dataclass(slots=True, kw_only=True)
class Medium:
    """One medium of an answer while its events are read. ``position`` counts within its item."""

    position: int
    last: MediaUpdate
    pieces: list[str] = field(default_factory=list)
    transcripts: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return media_name(self.last, self.position)

    def add(self, event: MediaUpdate) -> None:
        """Final bytes replace partial ones. Partial sound is appended; a partial picture replaces
        the one before."""
        is_final = event.state == "final"
        if event.data:
            if is_final or not event.media_type.startswith("audio/"):
                self.pieces.clear()
            self.pieces.append(event.data)
        if event.transcript:
            if is_final:
                self.transcripts.clear()
            self.transcripts.append(event.transcript)
        self.last = event

    def body(self) -> bytes:
        """The bytes, or ``None`` if the upstream's text is not base64."""
        try:
            return b"".join(base64.b64decode(piece, validate=True) for piece in self.pieces)
        except (binascii.Error, ValueError):
            return b""


def read_media(updates: Iterable[MediaUpdate]) -> list[Medium]:
    """The media whose bytes were in the answer, in the order in which they appeared."""
    media: dict[tuple[int, int, str], Medium] = {}
    with_bytes: list[Medium] = []
    counts: Counter[tuple[int, int]] = Counter()
    for event in updates:
        item = (event.choice, event.item)
        key = (*item, event.media_id)
        # The transcript of a sound may come before the sound.
        medium = media.get(key) or Medium(position=0, last=event)
        media[key] = medium
        if event.data and not medium.pieces:
            medium.position = counts[item]
            counts[item] += 1
            with_bytes.append(medium)
        medium.add(event)
    return with_bytes


def _media_updates(run_pk: int, closing: Iterable[bytes]) -> Iterator[MediaUpdate]:
    for each in chain(_logged(run_pk), closing):
        if b'"media.update"' in each:
            event = events.decode(each)
            if isinstance(event, MediaUpdate):
                yield event


def _logged(run_pk: int) -> Iterator[bytes]:
    rows = RunSegment.objects.filter(run=run_pk).order_by("first_seq")
    for is_compressed, body in rows.values_list("is_compressed", "body"):
        yield from events.split_bodies(zlib.decompress(body) if is_compressed else bytes(body))
