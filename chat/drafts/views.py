"""Drafts of pages that can't send them over a websocket."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from chat import access
from chat.drafts.records import MOST_CHARACTERS, WrittenDraft, next_version, store_drafts
from chat.models import Conversation
from chat.web.decorators import login_required, post_action, refuse_with_message


@post_action(access.get_conversation, refuse_with_message("home"))
def save(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    return _saved(request, conversation.public_id)


@login_required
@require_POST
def save_new(request: HttpRequest) -> HttpResponse:
    return _saved(request, None)


def _saved(request: HttpRequest, room: UUID | None) -> HttpResponse:
    """Nothing is answered: the page is told over its event stream, as all tabs of its person are."""
    text, version = request.POST.get("text", ""), request.POST.get("version", "")
    base = int(version) if version.isascii() and version.isdigit() and len(version) < 16 else 0
    if len(text) <= MOST_CHARACTERS:
        draft = WrittenDraft(request.user.pk, room, text, base, next_version(base))
        with transaction.atomic():
            store_drafts([draft])
    return HttpResponse(status=204)
