"""Everything that a conversation has collected, or one version of a mockup, as one ZIP file.

The names come from others. Each becomes a path that stays below the folder in which it is unpacked,
on every system, and no path occurs twice.
"""

from __future__ import annotations

import io
import re
import unicodedata
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.functions import Length
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from chat import access
from chat.artifacts.file_rows import artifact_name
from chat.core.text import without_hidden
from chat.models import (
    AnswerFile,
    ArtifactVersion,
    Attachment,
    Conversation,
    FetchStatus,
    MockupFile,
    MockupVersion,
    StoredFile,
)
from chat.rendering.figures import count
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import login_required
from chat.web.files import archive_response

MEGABYTE = 1024 * 1024
# The ZIP file is made in memory, by a thread that serves no other request meanwhile.
MOST_BYTES = 64 * MEGABYTE
MOST_FILES = 2_000
SEGMENT_LENGTH = 100
# File systems count bytes, and allow 255; a number may be appended.
SEGMENT_BYTES = 200
MOST_SEGMENTS = 20
# Names that some system takes for devices. Superscript digits count as digits there as well.
_DEVICE = re.compile(
    r"(con|conin\$|conout\$|prn|aux|nul|(?:com|lpt)[\d¹²³])\s*(\..*)?", re.IGNORECASE
)
_FORBIDDEN = re.compile(r'[<>:"|?*\x00-\x1f\x7f]')


@dataclass(frozen=True, slots=True, kw_only=True)
class ZipEntry:
    """A file to add. ``size_bytes`` is known before it is read; a text may be larger than that."""

    path: str
    size_bytes: int
    at: datetime
    read: Callable[[], bytes]


@login_required
@require_safe
def mockup_zip(request: HttpRequest, public_id: UUID, number: int) -> HttpResponse:
    kept = access.get_mockup(request.user, public_id)
    version = MockupVersion.objects.filter(mockup=kept, number=number).first()
    if version is None:
        raise Http404(access.NOT_HERE)
    name = version.title or version.identifier or "mockup"
    files = MockupFile.objects.filter(version=version)
    entries = (_of_file(each, each.path) for each in _stored(files))
    return _answer(entries, f"{name}-v{number}.zip")


@confirmed_recently(gives_file=True)
@login_required
@require_safe
def conversation_zip(request: HttpRequest, public_id: UUID) -> HttpResponse:
    conversation = access.get_conversation(request.user, public_id)
    return _answer(_everything(conversation), f"{conversation.title or 'conversation'}.zip")


def _everything(conversation: Conversation) -> Iterator[ZipEntry]:
    # Each file is read when its turn comes: a hundred at once may be as large as a hundred answers.
    artifacts = ArtifactVersion.objects.filter(artifact__conversation=conversation)
    sized = artifacts.defer("content").annotate(characters=Length("content"))
    for version in sized.select_related("artifact").order_by("pk"):
        yield ZipEntry(
            path=f"artifacts/{artifact_name(version)}",
            size_bytes=version.characters,
            at=version.created_at,
            read=partial(_text_of, version.pk),
        )
    for file in _stored(MockupFile.objects.filter(version__mockup__conversation=conversation)):
        bundle = file.version
        folder = (bundle.title or bundle.identifier or "mockup").replace("/", " ")
        yield _of_file(file, f"mockups/{folder}-v{bundle.number}/{file.path}")
    brought = AnswerFile.objects.filter(run__conversation=conversation).order_by("pk")
    attached = Attachment.objects.filter(
        message__conversation=conversation, file__content__isnull=False
    ).order_by("pk")
    seen: set[int] = set()
    for folder, rows in (("answers", brought), ("attached", attached)):
        for row in rows.select_related("file"):
            if row.file_id not in seen:
                seen.add(row.file_id)
                yield _of_file(row, f"{folder}/{row.file.name.replace('/', ' ')}")


def _text_of(version_pk: int) -> bytes:
    contents = ArtifactVersion.objects.filter(pk=version_pk).values_list("content", flat=True)
    # The file was deleted meanwhile, with its conversation.
    return (contents.first() or "").encode("utf-8", "replace")


def _stored(files: QuerySet[MockupFile]) -> Iterable[MockupFile]:
    stored = files.filter(status=FetchStatus.STORED, file__isnull=False)
    return stored.select_related("file", "version").order_by("version", "path")


def _of_file(row: MockupFile | AnswerFile | Attachment, path: str) -> ZipEntry:
    file = row.file
    assert file is not None
    return ZipEntry(
        path=path,
        size_bytes=file.size_bytes,
        at=file.created_at,
        read=partial(_body_of, file.pk),
    )


def _body_of(file_pk: int) -> bytes:
    file = StoredFile.objects.filter(pk=file_pk).first()
    return file.body if file else b""


def _answer(entries: Iterable[ZipEntry], name: str) -> HttpResponse:
    body = io.BytesIO()
    taken: set[str] = set()
    room = MOST_BYTES
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for position, entry in enumerate(entries):
            if entry.size_bytes > room or position >= MOST_FILES:
                return _too_much()
            content = entry.read()
            room -= len(content)
            if room < 0:
                return _too_much()
            info = zipfile.ZipInfo(unique_path(entry.path, taken), _moment(entry.at))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, content)
    return archive_response(body.getvalue(), name)


def _too_much() -> HttpResponse:
    words = gettext(
        "These files exceed the limit for one download (%(size)d MB or %(count)s files). "
        "Download them one by one."
    )
    text = words % {"size": MOST_BYTES // MEGABYTE, "count": count(MOST_FILES)}
    return HttpResponse(text, status=413, content_type="text/plain; charset=utf-8")


def _moment(at: datetime) -> tuple[int, int, int, int, int, int]:
    return (max(at.year, 1980), at.month, at.day, at.hour, at.minute, at.second)


def unique_path(path: str, taken: set[str]) -> str:
    """A relative path without ``..`` that is not used yet in any form that a system takes for the
    same, and that neither is a folder of another path nor lies below a file."""
    segments = [
        safe for each in re.split(r"[/\\]", path)[-MOST_SEGMENTS:] if (safe := _segment(each))
    ]
    folder = ""
    for name in segments[:-1]:
        folder = f"{_free(folder, name, taken, _as_file)}/"
        taken.add(_as_folder(folder[:-1]))
    found = _free(folder, segments[-1] if segments else "file", taken, _as_file, _as_folder)
    taken.add(_as_file(found))
    return found


def _free(folder: str, name: str, taken: set[str], *forms: Callable[[str], str]) -> str:
    """The name in this folder, with a number if one of its forms is used already."""
    stem, dot, suffix = name.rpartition(".")
    if not stem:
        stem, dot, suffix = name, "", ""

    def numbered(number: int) -> str:
        return folder + name if number == 1 else f"{folder}{stem} ({number}){dot}{suffix}"

    def is_taken(number: int) -> bool:
        return any(form(numbered(number)) in taken for form in forms)

    # The step doubles, then halves: thousands may have the same name, and counting up for each
    # would look at all those before it.
    last_taken, free = 0, 1
    while is_taken(free):
        last_taken, free = free, 2 * free
    while free - last_taken > 1:
        middle = (last_taken + free) // 2
        if is_taken(middle):
            last_taken = middle
        else:
            free = middle
    return numbered(free)


def _as_file(path: str) -> str:
    """The name as systems compare it that distinguish neither case nor Unicode normal forms."""
    return unicodedata.normalize("NFC", path).casefold()


def _as_folder(path: str) -> str:
    return f"{_as_file(path)}/"


def _segment(text: str) -> str:
    name = _FORBIDDEN.sub("_", without_hidden(text)).strip(" .")[:SEGMENT_LENGTH]
    name = name.encode()[:SEGMENT_BYTES].decode("utf-8", "ignore").strip(" .")
    return f"_{name}" if _DEVICE.fullmatch(name) else name
