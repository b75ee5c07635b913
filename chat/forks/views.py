"""Views that fork a conversation: at a message, or the whole path that somebody sees."""

from __future__ import annotations

from uuid import UUID, uuid5

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext

from chat import access
from chat.core.errors import ActionRefused, InvalidForm
from chat.core.text import as_uuid
from chat.forks import actions
from chat.models import Conversation, Message
from chat.web.decorators import post_action


def _refuse(
    request: HttpRequest, record: Conversation | Message, refusal: ActionRefused
) -> HttpResponse:
    """The page shows the refusal as a message: a reader's page has no composer beside which it could."""
    conversation = record.conversation if isinstance(record, Message) else record
    messages.error(request, str(refusal))
    return redirect("conversation", public_id=conversation.public_id)


@post_action(access.get_conversation_to_fork, _refuse)
def fork_conversation(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    key = _key(request, conversation.public_id)
    return _forked(actions.fork(request.user, conversation, idempotency_key=key))


@post_action(access.get_message_to_fork, _refuse)
def fork_message(request: HttpRequest, message: Message) -> HttpResponse:
    key = _key(request, message.public_id)
    room = actions.fork(request.user, message.conversation, at=message, idempotency_key=key)
    return _forked(room)


def _key(request: HttpRequest, place: UUID) -> UUID:
    """The buttons of a page share a form with one key, and each makes a conversation of its own."""
    key = as_uuid(request.POST.get("key"))
    if key is None:
        raise InvalidForm(gettext("Reload the page and try again."))
    return uuid5(key, place.hex)


def _forked(room: Conversation) -> HttpResponse:
    return redirect("conversation", public_id=room.public_id)
