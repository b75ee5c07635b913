"""The files of a conversation: what answers made, what people attached; as source and as download."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from chat import access
from chat.actions.files import may_be_shown
from chat.actions.pictures import read_picture
from chat.models import ArtifactVersion, Conversation
from chat.rendering.anatomy import name_of
from chat.views.file_lists import artifacts_of, attached_in, brought_in, mockups_of
from chat.views.file_names import artifact_name, language_of
from chat.views.gate import signed_in
from chat.views.listing import listing_context
from chat.views.serving import bytes_response, text_response
from chat.views.source_code import read_text, source_code


@signed_in
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


@signed_in
@require_safe
def file(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The one way by which bytes of others leave this origin."""
    stored = access.get_file(request.user, public_id)
    return bytes_response(bytes(stored.body), stored.name, may_show="download" not in request.GET)


@signed_in
@require_safe
def file_source(request: HttpRequest, public_id: UUID) -> HttpResponse:
    stored = access.get_file(request.user, public_id)
    assert stored.conversation is not None
    body = bytes(stored.body)
    text = read_text(body)
    return _page(
        request,
        "file",
        stored.conversation,
        file=stored,
        name=name_of(stored.name) or "A file",
        media_type=name_of(stored.media_type),
        is_text=text is not None,
        is_picture=may_be_shown(read_picture(body)),
        **_code_of(text or "", language_of(stored.name, stored.media_type)),
    )


@signed_in
@require_safe
def artifact(request: HttpRequest, public_id: UUID, number: int) -> HttpResponse:
    version = _version(request, public_id, number)
    return _page(
        request,
        "artifact",
        version.artifact.conversation,
        version=version,
        name=name_of(version.title or version.identifier or version.artifact.artifact_id),
        language=name_of(version.language or version.content_type),
        numbers=list(version.artifact.versions.values_list("number", flat=True)),
        **_code_of(version.content, language_of(version.language, version.content_type)),
    )


@signed_in
@require_safe
def artifact_raw(request: HttpRequest, public_id: UUID, number: int) -> HttpResponse:
    version = _version(request, public_id, number)
    return text_response(version.content, artifact_name(version))


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


def _code_of(text: str, language: str) -> dict[str, Any]:
    code, shown = source_code(text, language)
    return {"code": code, "shown": shown, "total": len(text), "is_cut": shown < len(text)}


def _page(
    request: HttpRequest, template: str, conversation: Conversation, **context: Any
) -> HttpResponse:
    context |= {"conversation": conversation, **listing_context(request.user, conversation)}
    return render(request, f"chat/artifacts/{template}.html", context)
