"""The page of a conversation's files, and downloads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

from django.db.models import Prefetch
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from chat import access
from chat.artifacts.file_rows import ListedFile, listed_file, title_of
from chat.core.pictures import read_picture
from chat.documents.actions import document_of, documents_of
from chat.documents.texts import facts, text_of
from chat.files.chips import Chip, chip_of, deleted_words
from chat.files.deleting import delete_file
from chat.models import (
    AnswerFile,
    Artifact,
    ArtifactVersion,
    Attachment,
    Conversation,
    Document,
    DocumentKind,
    Message,
    Mockup,
    MockupFile,
    MockupVersion,
    StoredFile,
    User,
)
from chat.rendering.components import name_of
from chat.rendering.figures import size
from chat.rendering.media import BEGINNING, sound_of
from chat.web.decorators import login_required, post_action, refuse_with_message
from chat.web.files import bytes_response, code_of, language_of, may_be_shown, read_text
from chat.web.responses import beside_room

# The list shows this many files, the newest; the pages of the answers show all.
MOST_LISTED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedArtifact:
    artifact: Artifact
    name: str
    language: str
    versions: Sequence[ArtifactVersion]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBundle:
    version: MockupVersion
    files: Sequence[ListedFile]

    @property
    def stored(self) -> int:
        return sum(file.file is not None for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMockup:
    mockup: Mockup
    name: str
    versions: Sequence[ListedBundle]

    @property
    def is_fetching(self) -> bool:
        return any(file.is_wanted for bundle in self.versions for file in bundle.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFile:
    """A stored file with the message that it came with. ``label`` describes it, also for screen
    readers."""

    chip: Chip
    message: Message
    label: str
    size: str
    transcript: str = ""
    by: User | None = field(default=None)

    @property
    def file(self) -> StoredFile:
        return self.chip.file


def artifacts_of(conversation: Conversation) -> list[ListedArtifact]:
    """The newest artifacts first, with their versions from the newest on, without the contents."""
    versions = (
        ArtifactVersion.objects.defer("content", "run__result")
        .select_related("run__message")
        .order_by("-number")
    )
    rows = (
        Artifact.objects.filter(conversation=conversation)
        .prefetch_related(Prefetch("versions", queryset=versions))
        .order_by("-pk")[:MOST_LISTED]
    )
    return [_listed_artifact(row, list(row.versions.all())) for row in rows]


def _listed_artifact(artifact: Artifact, versions: Sequence[ArtifactVersion]) -> ListedArtifact:
    newest = versions[0] if versions else ArtifactVersion()
    return ListedArtifact(
        artifact=artifact,
        name=title_of(newest, artifact.artifact_id),
        language=name_of(newest.language or newest.content_type),
        versions=versions,
    )


def mockups_of(conversation: Conversation) -> list[ListedMockup]:
    files = MockupFile.objects.select_related("file").order_by("path")
    versions = (
        MockupVersion.objects.select_related("run__message")
        .defer("run__result")
        .prefetch_related(Prefetch("files", queryset=files))
        .order_by("-number")
    )
    rows = (
        Mockup.objects.filter(conversation=conversation)
        .prefetch_related(Prefetch("versions", queryset=versions))
        .order_by("-pk")[:MOST_LISTED]
    )
    return [_listed_mockup(row, list(row.versions.all())) for row in rows]


def _listed_mockup(mockup: Mockup, versions: Sequence[MockupVersion]) -> ListedMockup:
    newest = versions[0] if versions else MockupVersion()
    return ListedMockup(
        mockup=mockup,
        name=title_of(newest, mockup.bundle_id),
        versions=[
            ListedBundle(
                version=version,
                files=[listed_file(file, version.entry) for file in version.files.all()],
            )
            for version in versions
        ],
    )


def brought_in(conversation: Conversation) -> list[MessageFile]:
    """The files of answers: the newest answer first, its files in their order."""
    rows = (
        AnswerFile.objects.filter(run__conversation=conversation)
        .select_related("file", "run__message")
        .defer("run__result")
        .order_by("-run_id", "pk")[:MOST_LISTED]
    )
    return [
        MessageFile(
            chip=Chip(file=row.file),
            message=row.run.message,
            label=row.file.name,
            size=size(row.file.size_bytes),
            transcript=row.transcript[:500],
        )
        for row in rows
    ]


def attached_in(conversation: Conversation) -> list[MessageFile]:
    """The files that people attached, each once, however often its message was edited."""
    rows = (
        Attachment.objects.filter(message__conversation=conversation)
        .select_related("file", "message__author")
        .order_by("-pk")
    )
    newest = _once(rows)[:MOST_LISTED]
    documents = documents_of(row.file for row in newest)
    return [
        MessageFile(
            chip=chip_of(row, documents.get(row.file_id)),
            message=row.message,
            label=name_of(row.file.name),
            size=size(row.file.size_bytes),
            by=row.message.author,
        )
        for row in newest
    ]


def _once(rows: Iterable[Attachment]) -> list[Attachment]:
    newest: dict[int, Attachment] = {}
    for row in rows:
        newest.setdefault(row.file_id, row)
    return list(newest.values())


# --- pages: the files of a conversation; one file as source and as download ---------------------


@login_required
@require_safe
def page(request: HttpRequest, public_id: UUID) -> HttpResponse:
    conversation = access.get_conversation(request.user, public_id)
    mockups = mockups_of(conversation)
    return _page(
        request,
        "page",
        conversation,
        artifacts=artifacts_of(conversation),
        mockups=mockups,
        is_fetching=any(mockup.is_fetching for mockup in mockups),
        brought=brought_in(conversation),
        attached=attached_in(conversation),
    )


@login_required
@require_safe
def file(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The only way by which bytes from elsewhere leave this origin."""
    stored = access.get_file(request.user, public_id)
    if stored.is_deleted:
        raise Http404(gettext("This file was deleted."))
    return bytes_response(
        stored.body,
        stored.name,
        may_show="download" not in request.GET,
        wanted=request.headers.get("Range", ""),
    )


@login_required
@require_safe
def medium(
    request: HttpRequest, public_id: UUID, choice: int, item: int, position: int
) -> HttpResponse:
    """Redirects from a card, which knows its position in its run, to the stored file."""
    run = access.get_run(request.user, public_id)
    made = AnswerFile.objects.filter(run=run, choice=choice, item=item, position=position)
    file_id = made.values_list("file__public_id", flat=True).first()
    if file_id is None:
        raise Http404(access.NOT_HERE)
    address = reverse("file", args=[file_id])
    return redirect(f"{address}?download" if "download" in request.GET else address)


@login_required
@require_safe
def file_source(request: HttpRequest, public_id: UUID) -> HttpResponse:
    stored = access.get_file(request.user, public_id)
    # A shared file is shown beside a conversation that it was sent in.
    room = stored.conversation or access.conversations_with(request.user, stored).first()
    if room is None:
        raise Http404(access.NOT_HERE)
    body = stored.body
    document = document_of(stored)
    text = _text_of(stored, document, body)
    return _page(
        request,
        "file",
        room,
        file=stored,
        name=name_of(stored.name) or gettext("Untitled"),
        media_type=name_of(stored.media_type),
        document_facts=facts(document) if document else "",
        deleted_words=deleted_words(document) if stored.is_deleted else "",
        may_delete=access.may_remove_file(request.user, stored),
        is_text=text is not None,
        is_picture=may_be_shown(read_picture(body)),
        is_sound=sound_of(body[:BEGINNING]) is not None,
        **code_of(text or "", language_of(stored.name, stored.media_type)),
    )


def _text_of(stored: StoredFile, document: Document | None, body: bytes) -> str | None:
    """A text as it is, and of any other document what the model gets of it."""
    if stored.is_deleted and document is None:
        return None
    if document is None or (document.kind == DocumentKind.TEXT and not stored.is_deleted):
        return read_text(body)
    return text_of(document, stored.name) if document.is_readable else None


@post_action(access.get_removable_file, refuse_with_message("home"))
def delete(request: HttpRequest, stored: StoredFile) -> HttpResponse:
    delete_file(cast(User, request.user), stored)
    return redirect("file_source", stored.public_id)


def _page(
    request: HttpRequest, template: str, conversation: Conversation, **context: Any
) -> HttpResponse:
    return beside_room(request, f"files/{template}.html", conversation, context)
