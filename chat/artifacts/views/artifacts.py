"""One version of an artifact: preview, code, changes, and the other versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models.functions import Length
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from chat import access
from chat.artifacts.file_rows import artifact_name
from chat.artifacts.views.previews import Ticket, form_of, has_scripts, sign
from chat.models import ArtifactVersion
from chat.rendering.components import name_of, safe
from chat.rendering.figures import size
from chat.rendering.markdown import diagram
from chat.rendering.markdown import render as render_markdown
from chat.rendering.safety import reveal, storable
from chat.rendering.text_diff import TextDiff, compare
from chat.web.decorators import frames_previews, login_required
from chat.web.files import code_of, language_of, text_response
from chat.web.responses import beside_room


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    label: str
    address: str
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionLink:
    number: int
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepper:
    """The version before this one and the one after it, where there are."""

    number: int
    count: int
    before: VersionLink | None
    after: VersionLink | None

    @classmethod
    def of(cls, number: int, numbers: Sequence[int], address: Callable[[int], str]) -> Stepper:
        """``address`` gives that of a version's page."""
        place = numbers.index(number)

        def step(at: int) -> VersionLink | None:
            if not 0 <= at < len(numbers):
                return None
            return VersionLink(number=numbers[at], address=address(numbers[at]))

        return cls(number=number, count=len(numbers), before=step(place - 1), after=step(place + 1))


# One version of an artifact: its preview, its code, what changed, and the other versions.

# A Markdown text that is longer is read as its source: rendering takes time with its length.
PREVIEWED_CHARACTERS = 200_000
# Versions that are longer are not compared: a text in lines takes up to fifty times its memory.
COMPARED_CHARACTERS = 1_000_000
IN_FRAME = ("html", "svg")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@frames_previews
def artifact(request: HttpRequest, public_id: UUID, number: int) -> HttpResponse:
    """The preview, or the code of what has none. A ``POST`` is somebody's wish to run its scripts:
    no address alone does that."""
    version = _version(request, public_id, number)
    form = form_of(version)
    if not form:
        return _page(request, version, "code", _code(version))
    if form in _IN_PAGE:
        return _page(request, version, "preview", {"text": _text(form, version.content)})
    ticket = Ticket(
        kind="artifact",
        public_id=public_id,
        number=number,
        user=request.user.public_id,
        runs=request.method == "POST",
    )
    return _page(
        request,
        version,
        "preview",
        {
            "frame_address": sign(ticket),
            "runs": ticket.runs,
            "may_run": has_scripts(version.content),
            "preview_page": reverse("artifact", args=[public_id, number]),
        },
    )


@login_required
@require_safe
def code(request: HttpRequest, public_id: UUID, number: int) -> HttpResponse:
    version = _version(request, public_id, number)
    return _page(request, version, "code", _code(version))


@login_required
@require_safe
def difference(
    request: HttpRequest, public_id: UUID, number: int, other: int | None = None
) -> HttpResponse:
    """What changed between two versions, from the older to the newer; without ``other`` from the
    version before."""
    version = _version(request, public_id, number)
    other = other if other is not None else max(number - 1, 1)
    older, newer = sorted((version, _version(request, public_id, other)), key=lambda v: v.number)
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
    version = _version(request, public_id, number)
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
    version = _version(request, public_id, number)
    return text_response(version.content, artifact_name(version))


@login_required
@require_safe
def made(request: HttpRequest, public_id: UUID, seq: int) -> HttpResponse:
    """From a card, which knows its run and its event, to the version that is kept of that."""
    run = access.get_run(request.user, public_id)
    version = (
        ArtifactVersion.objects.filter(run=run, seq=seq)
        .defer("content")
        .select_related("artifact")
        .first()
    )
    if version is None:  # More versions than are kept: the list has those that are.
        return redirect("conversation_files", run.conversation.public_id)
    return redirect("artifact", version.artifact.public_id, version.number)


def _version(request: HttpRequest, public_id: UUID, number: int) -> ArtifactVersion:
    artifact = access.get_artifact(request.user, public_id)
    version = (
        ArtifactVersion.objects.filter(artifact=artifact, number=number)
        .select_related("run__message")
        .defer("run__result")
        .first()
    )
    if version is None:
        raise Http404(access.NOT_HERE)
    version.artifact = artifact
    return version


def _code(version: ArtifactVersion) -> dict[str, Any]:
    return code_of(version.content, language_of(version.language, version.content_type))


# Needs no frame around all of it: what is rendered here is tame, and a diagram has its own.
_IN_PAGE = {"markdown": render_markdown, "mermaid": diagram}


def _text(form: str, text: str) -> str:
    if len(text) > PREVIEWED_CHARACTERS or not text.strip():
        return ""
    return safe(_IN_PAGE[form](text))


def _difference(older: str, newer: str) -> TextDiff | None:
    """``None`` where one of them is too long."""
    if max(len(older), len(newer)) > COMPARED_CHARACTERS:
        return None
    return compare(_shown(older), _shown(newer))


def _shown(text: str) -> str:
    return reveal(storable(text))


def _page(
    request: HttpRequest, version: ArtifactVersion, tab: str, context: dict[str, Any]
) -> HttpResponse:
    artifact = version.artifact
    numbers = list(artifact.versions.values_list("number", flat=True))
    context = {
        "version": version,
        "name": name_of(version.title or version.identifier or artifact.artifact_id) or "Untitled",
        "language": name_of(version.language or version.content_type),
        "numbers": numbers,
        "stepper": Stepper.of(
            version.number, numbers, lambda n: reverse(_ROUTES[tab], args=[artifact.public_id, n])
        ),
        "tabs": _tabs(version, tab, has_others=len(numbers) > 1),
        "tab": tab,
        "may_write": access.may_write(request.user, artifact.conversation),
        **context,
    }
    return beside_room(request, "artifacts/artifact.html", artifact.conversation, context)


_ROUTES = {
    "preview": "artifact",
    "code": "artifact_code",
    "changes": "artifact_difference",
    "versions": "artifact_versions",
}
_LABELS = {"preview": "Preview", "code": "Code", "changes": "Changes", "versions": "Versions"}


def _tabs(version: ArtifactVersion, current: str, *, has_others: bool) -> list[Tab]:
    names = [
        *(["preview"] if form_of(version) else []),
        "code",
        *(["changes", "versions"] if has_others else []),
    ]
    place = [version.artifact.public_id, version.number]
    return [
        Tab(
            label=_LABELS[name],
            address=reverse(_ROUTES[name], args=place),
            is_current=name == current,
        )
        for name in names
    ]
