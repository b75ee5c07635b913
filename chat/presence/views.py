"""The signs of pages that can't send them over a websocket."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from chat import access
from chat.models import Conversation
from chat.presence.records import Sign, store_signs
from chat.web.decorators import post_action, refuse_with_message


@post_action(access.get_conversation, refuse_with_message("home"))
def sign(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    """Something was done on the page; ``typing`` is "1" or "0" if that has changed."""
    typing = request.POST.get("typing", "")
    is_typing = typing == "1" if typing else None
    store_signs([Sign(request.user.pk, conversation.public_id, True, is_typing)])
    return HttpResponse(status=204)
