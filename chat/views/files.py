"""The files of a conversation, listed; and one file: as source and as download."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from chat import access
from chat.actions.files import may_be_shown
from chat.models import AnswerFile, Conversation
from chat.rendering.components import name_of
from chat.rendering.media import BEGINNING, read_picture, sound_of
from chat.views.file_lists import artifacts_of, attached_in, brought_in, mockups_of
from chat.views.file_names import language_of
from chat.views.gate import signed_in
from chat.views.panel import beside_room
from chat.views.serving import bytes_response
from chat.views.source_code import code_of, read_text


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
    return bytes_response(
        bytes(stored.body),
        stored.name,
        may_show="download" not in request.GET,
        wanted=request.headers.get("Range", ""),
    )


@signed_in
@require_safe
def medium(
    request: HttpRequest, public_id: UUID, choice: int, item: int, position: int
) -> HttpResponse:
    """From a card, which knows its place in its run, to the file that is kept of it."""
    run = access.get_run(request.user, public_id)
    made = AnswerFile.objects.filter(run=run, choice=choice, item=item, position=position)
    file_id = made.values_list("file__public_id", flat=True).first()
    if file_id is None:
        raise Http404(access.NOT_HERE)
    address = reverse("file", args=[file_id])
    return redirect(f"{address}?download" if "download" in request.GET else address)


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
        is_sound=sound_of(body[:BEGINNING]) is not None,
        **code_of(text or "", language_of(stored.name, stored.media_type)),
    )


def _page(
    request: HttpRequest, template: str, conversation: Conversation, **context: Any
) -> HttpResponse:
    return beside_room(request, f"files/{template}.html", conversation, context)
