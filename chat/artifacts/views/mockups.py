"""One version of a mockup: its first page beside the tree of its files, and the list of files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_http_methods, require_safe

from chat import access
from chat.artifacts.file_rows import ListedFile, listed_file, title_of
from chat.artifacts.views.previews import has_scripts
from chat.artifacts.views.versions import VersionedFile
from chat.models import FetchStatus, MockupFile, MockupVersion
from chat.rendering.components import name_of
from chat.web.decorators import frames_previews, login_required
from chat.web.files import read_text

# Suffixes of files that always count as scripts. Pages of HTML are searched for scripts instead.
_SCRIPT_FILES = (".js", ".mjs", ".svg")


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFile:
    """A file in the tree. ``mark`` says what the version did to it: new, changed, deleted, or
    nothing."""

    name: str
    file: ListedFile | None
    mark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder in the tree. ``name`` is the whole path, and empty for files outside of any
    folder."""

    name: str
    files: Sequence[TreeFile]


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@frames_previews
def mockup(request: HttpRequest, public_id: UUID, number: int) -> HttpResponse:
    """The preview. A ``POST`` runs its scripts."""
    version = _MOCKUPS.version(request, public_id, number)
    files = _files_of(version)
    stored = [file for file in files if file.status == FetchStatus.STORED]
    entry = next((file for file in stored if file.path == version.entry), None)
    context: dict[str, Any] = {"entry": name_of(version.entry)}
    if entry is not None and not _is_fetching(files):
        may_run = _may_run(entry, stored)
        context |= _MOCKUPS.preview(request, version, may_run=may_run, path=entry.path)
    return _page(request, version, files, "preview", context)


@login_required
@require_safe
def files(request: HttpRequest, public_id: UUID, number: int) -> HttpResponse:
    version = _MOCKUPS.version(request, public_id, number)
    files = _files_of(version)
    return _page(request, version, files, "files", {"folders": _tree(version, files)})


@login_required
@require_safe
def made(request: HttpRequest, public_id: UUID, seq: int) -> HttpResponse:
    return _MOCKUPS.redirect_to_made(request, public_id, seq)


def _files_of(version: MockupVersion) -> list[MockupFile]:
    return list(version.files.select_related("file").order_by("path"))


def _is_fetching(files: Iterable[MockupFile]) -> bool:
    return any(file.status == FetchStatus.WANTED for file in files)


def _may_run(entry: MockupFile, stored: Iterable[MockupFile]) -> bool:
    if any(file.path.lower().endswith(_SCRIPT_FILES) for file in stored):
        return True
    return entry.file is not None and has_scripts(read_text(entry.file.body) or "")


def _tree(version: MockupVersion, files: Iterable[MockupFile]) -> list[Folder]:
    before = set(
        MockupFile.objects.filter(
            version__mockup=version.mockup, version__number=version.number - 1
        ).values_list("path", flat=True)
    )
    changed = set(version.changed) if before else set()
    shown = {
        file.path: TreeFile(
            name=_name(file.path),
            file=listed_file(file, version.entry),
            mark=_mark(file.path, changed, before),
        )
        for file in files
    }
    gone = {
        path: TreeFile(name=_name(path), file=None, mark="deleted")
        for path in version.deleted
        if path not in shown
    }
    return _folders({**shown, **gone})


def _mark(path: str, changed: set[str], before: set[str]) -> str:
    if path not in changed:
        return ""
    return "changed" if path in before else "new"


def _name(path: str) -> str:
    return name_of(PurePosixPath(path).name) or gettext("(no path)")


def _folders(files: Mapping[str, TreeFile]) -> list[Folder]:
    """Files outside of any folder first, then the folders by name."""
    by_folder: dict[str, list[TreeFile]] = {}
    for path in sorted(files):
        folder = path.rpartition("/")[0]
        by_folder.setdefault(folder, []).append(files[path])
    return [Folder(name=name_of(name), files=by_folder[name]) for name in sorted(by_folder)]


def _page(
    request: HttpRequest,
    version: MockupVersion,
    files: Sequence[MockupFile],
    tab: str,
    context: dict[str, Any],
) -> HttpResponse:
    context = {
        "name": title_of(version, version.mockup.bundle_id),
        "here": reverse(_MOCKUPS.tabs[tab][1], args=[version.mockup.public_id, version.number]),
        "is_fetching": _is_fetching(files),
        "stored": sum(file.status == FetchStatus.STORED for file in files),
        "count": len(files),
        **context,
    }
    return _MOCKUPS.page(request, version, tab, list(_MOCKUPS.tabs), context)


_MOCKUPS = VersionedFile(
    kind="mockup",
    model=MockupVersion,
    load=access.get_mockup,
    tabs={
        "preview": (gettext_noop("Preview"), "mockup"),
        "files": (gettext_noop("Files"), "mockup_files"),
    },
)
