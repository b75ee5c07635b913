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
from uuid import UUID

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext, ngettext

from chat import events
from chat.core.errors import ActionRefused, FilesTaken
from chat.core.pictures import read_picture
from chat.core.text import clean
from chat.documents.kinds import HEAD_BYTES, kind_of, media_type_of
from chat.events import MediaItem, MediaUpdate, Result
from chat.files.storage import check_storage
from chat.models import (
    AnswerFile,
    Attachment,
    Conversation,
    FileContent,
    FileUse,
    Message,
    NewContent,
    QueuedFile,
    Run,
    RunSegment,
    SearchKind,
    StoredFile,
    UnsentFile,
    User,
)
from chat.rendering.media import BEGINNING, PICTURE_TYPES, sound_of
from chat.result import media_name
from chat.runs.outcomes import OutcomeStep
from chat.search.sources import index, index_missing
from chat.web.files import SUFFIXES, file_name, may_be_shown

MEGABYTE = 1024 * 1024
# Of a request that uploads a file: its other fields, and what separates them.
FORM_BYTES = 64 * 1024
# A file with such a name that is no picture is broken.
_PICTURE_SUFFIXES = (*SUFFIXES.values(), ".jpeg")


# --- what people attach --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile(NewContent):
    """A file to attach whose bytes were checked; ``name`` is shown to people."""

    name: str
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenUnsent:
    """A file of the message that a person writes at ``place``, by the id of the file (`UnsentFile`)."""

    place: str
    public_id: UUID


# An attachment of a message: new bytes, a file of its author's draft, or one that was queued with it.
AttachedFile: TypeAlias = NewFile | ChosenUnsent | QueuedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenFile:
    """A stored file, and what of it is sent (`ChosenContent`)."""

    file: StoredFile
    pages: str = ""
    use: str = FileUse.CONTENT


def read_uploads(uploads: Sequence[UploadedFile[Any]]) -> list[NewFile]:
    """The files that a form uploads. Raises ``ActionRefused`` for one that can't be attached."""
    return [read_upload(upload) for upload in uploads]


def read_upload(upload: UploadedFile[Any]) -> NewFile:
    """Raises ``ActionRefused``."""
    name = file_name(upload.name or "")
    check_file_size(name, upload.size, file_bytes())
    return new_file(name, upload.read(), upload.content_type or "")


def file_bytes() -> int:
    """The size of a file that one request can upload."""
    return int(settings.MAX_UPLOAD_BYTES) - FORM_BYTES


def new_file(name: str, body: bytes, media_type: str = "") -> NewFile:
    """A picture, a sound or a document with these bytes, to be attached. ``media_type`` is what its sender says.
    Raises ``ActionRefused``; ``name`` is shown to people."""
    if read_picture(body) or PurePosixPath(name.lower()).suffix in _PICTURE_SUFFIXES:
        return new_picture(name, body)
    check_file_size(name, len(body), file_bytes())
    is_document = kind_of(name, media_type, body[:HEAD_BYTES]) is not None
    if not is_document and sound_of(body[:BEGINNING]) is None:
        words = gettext("“%(name)s” isn’t an image, a sound, or a document with text.")
        raise ActionRefused(words % {"name": name})
    return NewFile(name=name, media_type=media_type_of(name, body[:HEAD_BYTES]), body=body)


def new_picture(name: str, body: bytes) -> NewFile:
    """The image that these bytes are, to be attached. Raises ``ActionRefused``; ``name`` is shown to people."""
    check_file_size(name, len(body), settings.PICTURE_BYTES)
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


def check_file_size(name: str, size_bytes: int | None, limit: int) -> None:
    """Raises ``ActionRefused``."""
    if size_bytes is None or size_bytes > limit:
        words = gettext("“%(name)s” is larger than %(limit)d MB. Choose a smaller file.")
        raise ActionRefused(words % {"name": name, "limit": round(limit / MEGABYTE)})


def check_file_counts(media_types: Sequence[str]) -> None:
    """Raises ``ActionRefused`` if a message may not have so many files of these types."""
    most = settings.FILES_PER_MESSAGE
    if len(media_types) > most:
        words = ngettext(
            "A message can have up to %(count)d file. Remove some.",
            "A message can have up to %(count)d files. Remove some.",
            most,
        )
        raise ActionRefused(words % {"count": most})
    most = settings.PICTURES_PER_MESSAGE
    if sum(each in PICTURE_TYPES for each in media_types) > most:
        words = ngettext(
            "A message can have up to %(count)d image. Remove some.",
            "A message can have up to %(count)d images. Remove some.",
            most,
        )
        raise ActionRefused(words % {"count": most})


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
    kept = [_as_chosen(each) for each in earlier.attachments.all()] if earlier else []
    new = keep(message.conversation, user, attachments, has_room=has_room)
    Attachment.objects.bulk_create(
        Attachment(
            message=message, file=each.file, pages=each.pages, use=each.use, position=position
        )
        for position, each in enumerate([*kept, *new])
    )
    files = [each.file for each in new]
    index(SearchKind.FILE, *(file for file in files if file.conversation_id is not None))
    # A shared file is found in the first conversation that it was sent in.
    index_missing(SearchKind.FILE, [file for file in files if file.conversation_id is None])


def keep(
    conversation: Conversation,
    user: User,
    attachments: Sequence[AttachedFile],
    *,
    has_room: bool = False,
) -> list[ChosenFile]:
    """The files of a message in the conversation, which is perhaps sent later, in their order: new bytes are stored,
    and files of a draft leave it. Call this in a transaction. Raises ``ActionRefused``."""
    contents = [each for each in attachments if isinstance(each, NewFile)]
    if not has_room:
        check_storage(user, contents)
    FileContent.objects.keep_all(contents)
    taken = _take(user, [each for each in attachments if isinstance(each, ChosenUnsent)])
    chosen = [
        ChosenFile(file=_stored(conversation.pk, user, each))
        if isinstance(each, NewFile)
        else _as_chosen(taken[each.public_id] if isinstance(each, ChosenUnsent) else each)
        for each in attachments
    ]
    _bring(conversation, [each.file for each in chosen])
    return chosen


def _as_chosen(row: Attachment | UnsentFile | QueuedFile) -> ChosenFile:
    return ChosenFile(file=row.file, pages=row.pages, use=row.use)


def _stored(conversation_pk: int, user: User, new: NewFile) -> StoredFile:
    return StoredFile.objects.store(
        conversation_pk,
        name=new.name,
        media_type=new.media_type,
        content=new,
        by=user,
    )


def _take(user: User, chosen: Sequence[ChosenUnsent]) -> dict[UUID, UnsentFile]:
    """Takes files from a draft of the person. Raises ``ActionRefused`` if one of them isn't in it any more."""
    if not chosen:
        return {}
    rows = UnsentFile.objects.filter(
        user=user,
        place=chosen[0].place,
        file__public_id__in=[each.public_id for each in chosen],
    )
    found = {
        row.file.public_id: row
        for row in rows.select_related("file").select_for_update(of=("self",))
    }
    if any(each.public_id not in found for each in chosen):
        raise FilesTaken(
            gettext("An attached file was sent or removed in the meantime. Remove it here, too.")
        )
    check_file_counts([row.file.media_type for row in found.values()])
    UnsentFile.objects.filter(pk__in=[row.pk for row in found.values()]).delete()
    return found


def _bring(conversation: Conversation, files: Sequence[StoredFile]) -> None:
    """Gives the conversation those that belong nowhere yet. The others are its own by now, or those of its project.
    Raises ``ActionRefused``."""
    others = [file for file in files if file.conversation_id != conversation.pk]
    loose = [file.pk for file in others if file.project_id is None]
    owned = StoredFile.objects.filter(pk__in=loose, attachments__isnull=True, project__isnull=True)
    keys = set(owned.values_list("pk", flat=True)) if loose else set()
    StoredFile.objects.filter(pk__in=keys).update(conversation=conversation)
    for file in others:
        if file.pk in keys:
            file.conversation = conversation
    shared = [file for file in others if file.pk not in keys]
    if shared:
        _check_shared(conversation, shared)


def _check_shared(conversation: Conversation, shared: Sequence[StoredFile]) -> None:
    """Raises ``ActionRefused`` for files that the project doesn't have any more. They can't be removed
    until the transaction ends."""
    project = conversation.project_id
    known = StoredFile.objects.filter(pk__in={file.pk for file in shared}, project=project)
    if project is None or len(known.select_for_update()) < len({file.pk for file in shared}):
        raise ActionRefused(
            gettext("A selected file is no longer in the project. Reload the page.")
        )


def shows(run: Run, chosen: Sequence[UUID]) -> bool:
    """Returns whether the message of the run has exactly these files: a repeated key may come with other
    ones."""
    stored = Attachment.objects.filter(message=run.message.parent_id).order_by("position")
    return list(stored.values_list("file__public_id", flat=True)) == list(chosen)


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
