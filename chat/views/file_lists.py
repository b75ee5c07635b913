"""What the page of files lists, read with a fixed number of queries and without any bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from django.db.models import Prefetch

from chat.models import (
    AnswerFile,
    Artifact,
    ArtifactVersion,
    Attachment,
    Conversation,
    FetchStatus,
    Message,
    Mockup,
    MockupFile,
    MockupVersion,
    StoredFile,
    User,
)
from chat.rendering.components import name_of
from chat.rendering.figures import size

# Of these the newest are listed; more is a flood, and the answers' own pages have it.
MOST_LISTED = 200
PICTURES = ("image/png", "image/jpeg", "image/webp", "image/gif")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedArtifact:
    artifact: Artifact
    name: str
    language: str
    versions: Sequence[ArtifactVersion]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A file of a mockup, or the reason why there is none."""

    path: str
    media_type: str
    size: str
    file: StoredFile | None = None
    reason: str = ""
    is_entry: bool = False

    @property
    def is_wanted(self) -> bool:
        return self.file is None and not self.reason


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
class ListedPicture:
    """A stored file with the turn that it came in. ``label`` says what it is, also to the blind."""

    file: StoredFile
    message: Message
    label: str
    size: str
    transcript: str = ""
    by: User | None = field(default=None)

    @property
    def is_picture(self) -> bool:
        return self.file.media_type in PICTURES

    @property
    def is_sound(self) -> bool:
        """Whether it is said to be one; no bytes are read for a list."""
        return self.file.media_type.startswith("audio/")


def artifacts_of(conversation: Conversation) -> list[ListedArtifact]:
    """The newest first, with their versions from the newest on, without the contents."""
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
        name=name_of(newest.title or newest.identifier or artifact.artifact_id) or "Untitled",
        language=name_of(newest.language or newest.content_type),
        versions=versions,
    )


def mockups_of(conversation: Conversation) -> list[ListedMockup]:
    files = MockupFile.objects.select_related("file").defer("file__body").order_by("path")
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
        name=name_of(newest.title or newest.identifier or mockup.bundle_id) or "Untitled",
        versions=[
            ListedBundle(
                version=version,
                files=[listed_file(file, version.entry) for file in version.files.all()],
            )
            for version in versions
        ],
    )


def listed_file(file: MockupFile, entry: str) -> ListedFile:
    stored = file.file if file.status == FetchStatus.STORED else None
    return ListedFile(
        path=name_of(file.path) or "(no path)",
        media_type=name_of(file.content_type),
        size=size(stored.size_bytes if stored else file.announced_bytes),
        file=stored,
        reason=file.reason if file.status == FetchStatus.REFUSED else "",
        is_entry=file.path == entry,
    )


def brought_in(conversation: Conversation) -> list[ListedPicture]:
    """The files that answers brought with them: the newest answer first, its files in their order."""
    rows = (
        AnswerFile.objects.filter(run__conversation=conversation)
        .select_related("file", "run__message")
        .defer("file__body", "run__result")
        .order_by("-run_id", "pk")[:MOST_LISTED]
    )
    return [
        ListedPicture(
            file=row.file,
            message=row.run.message,
            label=row.file.name,
            size=size(row.file.size_bytes),
            transcript=row.transcript[:500],
        )
        for row in rows
    ]


def attached_in(conversation: Conversation) -> list[ListedPicture]:
    """The pictures that people attached, each once however often its turn was edited."""
    rows = (
        Attachment.objects.filter(message__conversation=conversation)
        .select_related("file", "message__author")
        .defer("file__body")
        .order_by("-pk")
    )
    return [
        ListedPicture(
            file=row.file,
            message=row.message,
            label=name_of(row.file.name),
            size=size(row.file.size_bytes),
            by=row.message.author,
        )
        for row in _once(rows)[:MOST_LISTED]
    ]


def _once(rows: Iterable[Attachment]) -> list[Attachment]:
    newest: dict[int, Attachment] = {}
    for row in rows:
        newest.setdefault(row.file_id, row)
    return list(newest.values())
