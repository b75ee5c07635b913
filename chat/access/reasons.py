"""Reading of conversations by administrators who are not part of them: with a reason, for an hour."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import Http404
from django.utils import timezone

from chat.access.conversations import may_read, visible_conversations
from chat.access.not_here import NOT_HERE, existing
from chat.models import AccessKind, AccessReason, Conversation, Membership, User

REASON_LASTS = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The right to read the content of a conversation. ``reason`` is the one that an administrator gave;
    ``None`` for who reads it as one of its people."""

    reason: AccessReason | None = None

    @property
    def until(self) -> datetime | None:
        return self.reason.given_at + REASON_LASTS if self.reason else None


def reading_of(user: User, conversation: Conversation) -> Reading | None:
    """Decides by which right this person may read the content of a conversation now: as one of its
    people, or as an administrator with a reason. ``None``: they may not. Everything that shows content or
    titles to administrators asks it, or `is_readable`."""
    if may_read(user, conversation):
        return Reading()
    reason = _valid(user, AccessKind.OPEN).filter(conversation=conversation).last()
    return Reading(reason=reason) if reason is not None else None


def is_readable(user: User, conversation: str = "pk") -> Q:
    """`reading_of` as a column of another query, of which ``conversation`` is the key of the
    conversation."""
    key = OuterRef(conversation)
    own = Conversation.objects.filter(pk=key, owner=user)
    visible = visible_conversations(user).filter(pk=key)
    opened = _valid(user, AccessKind.OPEN).filter(conversation=key)
    return Q(Exists(own)) | Q(Exists(visible)) | Q(Exists(opened))


def may_search(user: User, words: str) -> bool:
    """A search of an administrator in all texts and titles needs a valid reason for these very words."""
    return _valid(user, AccessKind.SEARCH).filter(words=words).exists()


def _valid(user: User, kind: AccessKind) -> QuerySet[AccessReason]:
    return AccessReason.objects.filter(
        kind=kind,
        administrator=user,
        administrator__is_active=True,
        administrator__is_staff=True,
        given_at__gt=timezone.now() - REASON_LASTS,
    ).order_by("pk")


def get_conversation_to_open(user: User, public_id: UUID) -> Conversation:
    """Any conversation, for an administrator who is asked for a reason: its content and its title are not
    for them yet. Raises ``Http404``."""
    if not (user.is_authenticated and user.is_active and user.is_staff):
        raise Http404(NOT_HERE)
    rows = Conversation.objects.select_related("owner", "team")
    return existing(rows.filter(public_id=public_id).first())


def exports_about(user: User) -> QuerySet[AccessReason]:
    """The exports that administrators have made since this person joined, of everyone's conversations, of
    theirs, or of what a team shares that they were in; the newest first."""
    if not user.is_authenticated or not user.is_active:
        return AccessReason.objects.none()
    made = AccessReason.objects.filter(kind=AccessKind.EXPORT, given_at__gte=user.date_joined)
    of_everyone = Q(person__isnull=True, team__isnull=True)
    memberships = Membership.objects.filter(
        team=OuterRef("team"), user=user, joined_at__lte=OuterRef("given_at")
    )
    theirs = Q(person=user) | Exists(memberships)
    return made.filter(of_everyone | theirs).select_related("team").order_by("-pk")
