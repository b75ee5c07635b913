"""Names and rows of files for lists."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from django.utils.translation import gettext

from chat.models import ArtifactVersion, FetchStatus, MockupFile, MockupVersion, StoredFile
from chat.rendering.components import name_of
from chat.rendering.figures import size
from chat.web.files import file_name


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


def listed_file(file: MockupFile, entry: str) -> ListedFile:
    stored = file.file if file.status == FetchStatus.STORED else None
    return ListedFile(
        path=name_of(file.path) or gettext("(no path)"),
        media_type=name_of(file.content_type),
        size=size(stored.size_bytes if stored else file.announced_bytes),
        file=stored,
        reason=reason_of(file) if file.status == FetchStatus.REFUSED else "",
        is_entry=file.path == entry,
    )


def reason_of(file: MockupFile) -> str:
    """Why the file is missing. Reasons with a value in them are stored in the installation's language."""
    # Gettext would return the head of the catalogue for an empty text.
    return gettext(file.reason) if file.reason else ""


# --- names ----------------------------------------------------------------------------------------
_SUFFIXES = {
    "python": "py",
    "javascript": "js",
    "typescript": "ts",
    "markdown": "md",
    "rust": "rs",
    "ruby": "rb",
    "shell": "sh",
    "bash": "sh",
    "golang": "go",
    "c++": "cpp",
    "c#": "cs",
    "csharp": "cs",
    "kotlin": "kt",
    "plain": "txt",
    "text": "txt",
}
_IS_SUFFIX = re.compile(r"[a-z0-9]{1,8}")


def artifact_name(version: ArtifactVersion) -> str:
    """A file name that says what the file is, and which version."""
    title = version.title or version.identifier or version.artifact.artifact_id
    title = file_name(title.replace("/", " "))
    stem = re.sub(r"\s+", "-", title)[:80] or "artifact"
    own = PurePosixPath(stem).suffix[1:].lower()
    if _IS_SUFFIX.fullmatch(own):
        return f"{PurePosixPath(stem).stem}-v{version.number}.{own}"
    language = (version.language or version.content_type.rpartition("/")[2]).lower()
    language = language.removeprefix("x-")
    suffix = _SUFFIXES.get(language, language)
    return f"{stem}-v{version.number}.{suffix if _IS_SUFFIX.fullmatch(suffix) else 'txt'}"


def title_of(version: ArtifactVersion | MockupVersion, identity: str) -> str:
    """The name to show: the title of the file, else its identifier at the upstream."""
    return name_of(version.title or version.identifier or identity) or gettext("Untitled")
