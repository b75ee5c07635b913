"""One version of an artifact: preview, code, changes, and the other versions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models.functions import Length
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_http_methods, require_safe

from chat import access
from chat.artifacts.file_rows import artifact_name, title_of
from chat.artifacts.views.previews import form_of, has_scripts
from chat.artifacts.views.versions import VersionedFile
from chat.models import ArtifactVersion
from chat.rendering.components import name_of, safe
from chat.rendering.figures import size
from chat.rendering.markdown import diagram
from chat.rendering.markdown import render as render_markdown
from chat.rendering.safety import reveal, storable
from chat.rendering.text_diff import TextDiff, compare
from chat.web.decorators import frames_previews, login_required
from chat.web.files import code_of, language_of, text_response

# A longer Markdown text is shown as source, because rendering takes time in proportion to its
# length.
PREVIEWED_CHARACTERS = 200_000
# Characters up to which versions are compared: a text split into lines takes up to fifty times its
# memory.
COMPARED_CHARACTERS = 1_000_000


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@frames_previews
def artifact(request: HttpRequest, public_id: UUID, number: int) -> HttpResponse:
    """The preview, or the code of a file that has none. A ``POST`` runs its scripts."""
    version = _ARTIFACTS.version(request, public_id, number)
    form = form_of(version)
    if not form:
        return _page(request, version, "code", _code(version))
    if form in _IN_PAGE:
        return _page(request, version, "preview", {"text": _text(form, version.content)})
    context = _ARTIFACTS.preview(request, version, may_run=has_scripts(version.content))
    return _page(request, version, "preview", context)


@login_required
@require_safe
def code(request: HttpRequest, public_id: UUID, number: int) -> HttpResponse:
    version = _ARTIFACTS.version(request, public_id, number)
    return _page(request, version, "code", _code(version))


@login_required
@require_safe
def difference(
    request: HttpRequest, public_id: UUID, number: int, other: int | None = None
) -> HttpResponse:
    """The changes between two versions, from the older to the newer. Without ``other`` the version
    is compared with the one before it."""
    version = _ARTIFACTS.version(request, public_id, number)
    other = other if other is not None else max(number - 1, 1)
    older, newer = sorted(
        (version, _ARTIFACTS.version(request, public_id, other)), key=lambda v: v.number
    )
    return _page(
        request,
        version,
        "changes",
        {
            "other": other,
            "older": older.number,
            "newer": newer.number,
            "difference": _difference(older.content, newer.content),
        },
    )


@login_required
@require_safe
def versions(request: HttpRequest, public_id: UUID, number: int) -> HttpResponse:
    version = _ARTIFACTS.version(request, public_id, number)
    rows = (
        version.artifact.versions.order_by("-number")
        .annotate(characters=Length("content"))
        .select_related("run__message")
        .defer("content", "run__result")
    )
    listed = [{"version": row, "size": size(row.characters)} for row in rows]
    return _page(request, version, "versions", {"listed": listed})


@login_required
@require_safe
def raw(request: HttpRequest, public_id: UUID, number: int) -> HttpResponse:
    version = _ARTIFACTS.version(request, public_id, number)
    return text_response(version.content, artifact_name(version))


@login_required
@require_safe
def made(request: HttpRequest, public_id: UUID, seq: int) -> HttpResponse:
    return _ARTIFACTS.redirect_to_made(request, public_id, seq)


def _code(version: ArtifactVersion) -> dict[str, Any]:
    return code_of(version.content, language_of(version.language, version.content_type))


# No frame is needed around these two: rendered Markdown is sanitised, and a diagram has a frame of
# its own.
_IN_PAGE = {"markdown": render_markdown, "mermaid": diagram}


def _text(form: str, text: str) -> str:
    if len(text) > PREVIEWED_CHARACTERS or not text.strip():
        return ""
    return safe(_IN_PAGE[form](text))


def _difference(older: str, newer: str) -> TextDiff | None:
    """The difference, or ``None`` if one of the versions is too long."""
    if max(len(older), len(newer)) > COMPARED_CHARACTERS:
        return None
    return compare(_shown(older), _shown(newer))


def _shown(text: str) -> str:
    return reveal(storable(text))


def _page(
    request: HttpRequest, version: ArtifactVersion, tab: str, context: dict[str, Any]
) -> HttpResponse:
    artifact = version.artifact
    has_others = artifact.versions.count() > 1
    tabs = [
        *(["preview"] if form_of(version) else []),
        "code",
        *(["changes", "versions"] if has_others else []),
    ]
    context = {
        "name": title_of(version, artifact.artifact_id),
        "written_in": name_of(version.language or version.content_type),
        **context,
    }
    return _ARTIFACTS.page(request, version, tab, tabs, context)


_ARTIFACTS = VersionedFile(
    kind="artifact",
    model=ArtifactVersion,
    load=access.get_artifact,
    tabs={
        "preview": (gettext_noop("Preview"), "artifact"),
        "code": (gettext_noop("Code"), "artifact_code"),
        "changes": (gettext_noop("Changes"), "artifact_difference"),
        "versions": (gettext_noop("Versions"), "artifact_versions"),
    },
)
