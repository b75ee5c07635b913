"""Stores what people attach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, TypeAlias
from uuid import UUID

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext, ngettext

from chat import access
from chat.core.errors import ActionRefused, FilesTaken
from chat.core.pictures import read_picture
from chat.documents.kinds import ACCEPTED, HEAD_BYTES, media_type_of
from chat.files.storage import check_storage
from chat.models import (
    Attachment,
    Conversation,
    DocumentKind,
    FileContent,
    FileUse,
    Message,
    NewContent,
    QueuedFile,
    Run,
    SearchKind,
    StoredFile,
    UnsentFile,
    User,
)
from chat.rendering.media import BEGINNING, PICTURE_TYPES, sound_of
from chat.search.sources import index, index_missing
from chat.web.files import SUFFIXES, file_name, may_be_shown

MEGABYTE = 1024 * 1024
# The other fields of a request that uploads a file, and what separates them.
FORM_BYTES = 64 * 1024
# A file with such a name that is no picture is broken.
_PICTURE_SUFFIXES = (*SUFFIXES.values(), ".jpeg")


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
    return new_file(name, upload.read())


def file_bytes() -> int:
    """The size of a file that one request can upload."""
    return int(settings.MAX_UPLOAD_BYTES) - FORM_BYTES


def upload_limits() -> Mapping[str, Any]:
    """The limits of attachments, for the page of a message: the number of files, that of images among them, and sizes."""
    return {
        "accept": ",".join((*PICTURE_TYPES, "audio/*", *ACCEPTED)),
        "files": settings.FILES_PER_MESSAGE,
        "images": settings.PICTURES_PER_MESSAGE,
        "bytes": file_bytes(),
        "image_bytes": settings.PICTURE_BYTES,
    }


def new_file(name: str, body: bytes) -> NewFile:
    """A picture, a sound or a document with these bytes, to be attached. Raises ``ActionRefused``; ``name`` is shown to
    people."""
    if read_picture(body) or PurePosixPath(name.lower()).suffix in _PICTURE_SUFFIXES:
        return new_picture(name, body)
    check_file_size(name, len(body), file_bytes())
    media_type = media_type_of(name, body[:HEAD_BYTES])
    is_document = DocumentKind.of_media_type(media_type) is not None
    if not is_document and sound_of(body[:BEGINNING]) is None:
        words = gettext("“%(name)s” isn’t an image, a sound, or a document with text.")
        raise ActionRefused(words % {"name": name})
    return NewFile(name=name, media_type=media_type, body=body)


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
    if not attachments:
        return []
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
    rows = access.unsent_files(user, chosen[0].place)
    wanted = rows.filter(file__public_id__in=[each.public_id for each in chosen])
    found = {row.file.public_id: row for row in wanted.select_for_update(of=("self",))}
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
