"""Stores files: what people attach, and the files that answers contain."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import PurePosixPath
from typing import Any, TypeAlias, cast

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext, ngettext

from chat import events
from chat.core.errors import ActionRefused
from chat.core.pictures import read_picture
from chat.core.text import clean
from chat.events import MediaItem, MediaUpdate, Result
from chat.files.storage import check_storage
from chat.models import (
    AnswerFile,
    Attachment,
    Conversation,
    FileContent,
    Message,
    NewContent,
    Run,
    RunSegment,
    SearchKind,
    StoredFile,
    User,
)
from chat.result import media_name
from chat.runs.outcomes import OutcomeStep
from chat.search.sources import index, index_missing
from chat.web.files import SUFFIXES, file_name, may_be_shown

MEGABYTE = 1024 * 1024


# --- what people attach: images, so far --------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile(NewContent):
    """A file to attach whose bytes were checked; ``name`` is shown to people."""

    name: str
    media_type: str


# An attachment of a message: a new file, or a file that its project shares.
AttachedFile: TypeAlias = NewFile | StoredFile


def read_uploads(uploads: Sequence[UploadedFile[Any]]) -> list[NewFile]:
    """The files that a form uploads. Raises ``ActionRefused`` for one that is no image or too large,
    and for too many."""
    check_file_count(len(uploads))
    return [_read_upload(upload) for upload in uploads]


def read_attachments(
    shared: Iterable[StoredFile], uploads: Sequence[UploadedFile[Any]]
) -> list[AttachedFile]:
    """The shared files that a form names, then those that it uploads. Raises
    ``ActionRefused``."""
    found: list[AttachedFile] = [*shared, *read_uploads(uploads)]
    check_file_count(len(found))
    return found


def check_file_count(count: int) -> None:
    """Raises ``ActionRefused``."""
    most = settings.PICTURES_PER_MESSAGE
    if count > most:
        words = ngettext(
            "A message can have up to %(count)d image. Remove some.",
            "A message can have up to %(count)d images. Remove some.",
            most,
        )
        raise ActionRefused(words % {"count": most})


def _read_upload(upload: UploadedFile[Any]) -> NewFile:
    name = file_name(upload.name or "")
    check_file_size(name, upload.size)
    return new_file(name, upload.read())


def new_file(name: str, body: bytes) -> NewFile:
    """The image that these bytes are, to be attached. Raises ``ActionRefused``; ``name`` is shown to people."""
    check_file_size(name, len(body))
    facts = read_picture(body)
    if facts is None:
        words = gettext("“%(name)s” isn’t a PNG, JPEG, WebP or GIF image.")
        raise ActionRefused(words % {"name": name})
    if not may_be_shown(facts):
        words = gettext("“%(name)s” has too many pixels. Choose a smaller image.")
        raise ActionRefused(words % {"name": name})
    stem = PurePosixPath(name).stem
    return NewFile(
        name=f"{stem}{SUFFIXES[facts.media_type]}", media_type=facts.media_type, body=body
    )


def check_file_size(name: str, size_bytes: int | None) -> None:
    """Raises ``ActionRefused``."""
    if size_bytes is None or size_bytes > settings.PICTURE_BYTES:
        words = gettext("“%(name)s” is larger than %(limit)d MB. Choose a smaller image.")
        raise ActionRefused(
            words % {"name": name, "limit": round(settings.PICTURE_BYTES / MEGABYTE)}
        )


@contextmanager
def written(attachments: Sequence[AttachedFile]) -> Iterator[list[AttachedFile]]:
    """The attachments with their new files written to the storage for files
    (`FileContentManager.writing`). Raises ``ActionRefused``."""
    new = [each for each in attachments if isinstance(each, NewFile)]
    with FileContent.objects.writing(new) as done:
        rest = iter(done)
        yield [next(rest) if isinstance(each, NewFile) else each for each in attachments]


def attach(
    message: Message,
    user: User,
    attachments: Sequence[AttachedFile],
    *,
    earlier: Message | None = None,
    has_room: bool = False,
) -> None:
    """Attaches the files of an ``earlier`` version of the turn (the same bytes), then the new
    ones. Call this in the transaction that creates the message. Raises ``ActionRefused``, also if the
    person has no room for them, unless the caller has checked that (``has_room``)."""
    kept = [each.file for each in earlier.attachments.all()] if earlier else []
    # The others are the files of a message that was queued.
    shared = [
        each
        for each in attachments
        if isinstance(each, StoredFile) and each.conversation_id != message.conversation_id
    ]
    if shared:
        _check_shared(message, shared)
    contents = [each for each in attachments if isinstance(each, NewFile)]
    if not has_room:
        check_storage(user, contents)
    FileContent.objects.keep_all(contents)
    new = [
        each if isinstance(each, StoredFile) else _stored(message.conversation_id, user, each)
        for each in attachments
    ]
    Attachment.objects.bulk_create(
        Attachment(message=message, file=file, position=position)
        for position, file in enumerate([*kept, *new])
    )
    index(SearchKind.FILE, *(each for each in new if each.conversation_id is not None))
    # A shared file is found in the first conversation that it was sent in.
    index_missing(SearchKind.FILE, shared)


def keep_for_later(
    conversation: Conversation, user: User, attachments: Sequence[AttachedFile]
) -> list[StoredFile]:
    """The files of a message that is attached to later, in their order; new ones are stored. Call this
    in a transaction. Raises ``ActionRefused`` if the person has no room for them."""
    contents = [each for each in attachments if isinstance(each, NewFile)]
    check_storage(user, contents)
    FileContent.objects.keep_all(contents)
    return [
        each if isinstance(each, StoredFile) else _stored(conversation.pk, user, each)
        for each in attachments
    ]


def _stored(conversation_pk: int, user: User, new: NewFile) -> StoredFile:
    return StoredFile.objects.store(
        conversation_pk,
        name=new.name,
        media_type=new.media_type,
        content=new,
        by=user,
    )


def _check_shared(message: Message, shared: Sequence[StoredFile]) -> None:
    """Raises ``ActionRefused`` for files that the project doesn't have any more. They can't be removed
    until the transaction ends."""
    project = message.conversation.project_id
    known = StoredFile.objects.filter(pk__in={file.pk for file in shared}, project=project)
    if project is None or len(known.select_for_update()) < len({file.pk for file in shared}):
        raise ActionRefused(
            gettext("A selected file is no longer in the project. Reload the page.")
        )


def shows(run: Run, attachments: Sequence[AttachedFile]) -> bool:
    """Returns whether the message of the run has exactly these attachments: a repeated key may come with other
    ones."""
    stored = Attachment.objects.filter(message=run.message.parent_id).order_by("position")
    return list(stored.values_list("file__content_id", flat=True)) == [
        each.sha256 for each in attachments
    ]


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
