"""Who reads a conversation, and who writes in it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from chat import access
from chat.models import User, Visibility
from chat.views.gate import signed_in
from chat.views.panel import beside_room

# A team is a few dozen; of a larger one the rest is counted.
PEOPLE_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    person: User
    role: str
    may_write: bool
    is_me: bool
    is_owner: bool


@signed_in
@require_safe
def people(request: HttpRequest, public_id: UUID) -> HttpResponse:
    conversation = access.get_conversation(request.user, public_id)
    readers = access.readers_of(conversation)
    shown = sorted(
        (
            Reader(
                person=membership.user,
                role=membership.get_role_display(),
                may_write=membership.may_write,
                is_me=membership.user_id == request.user.pk,
                is_owner=membership.user_id == conversation.owner_id,
            )
            for membership in readers.order_by("user__name", "pk")[:PEOPLE_SHOWN]
        ),
        key=lambda reader: not reader.is_owner,
    )
    context = {
        "people": shown,
        "more": readers.count() - len(shown),
        "is_shared": conversation.visibility == Visibility.TEAM,
        "is_owner": conversation.owner_id == request.user.pk,
    }
    return beside_room(request, "conversations/visibility.html", conversation, context)
