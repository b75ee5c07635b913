"""Access to what belongs to a person's own account: sessions and the profile picture."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Exists, OuterRef, Q
from django.http import Http404

from chat.access.conversations import visible_conversations
from chat.access.not_here import NOT_HERE, check_is_active, existing
from chat.models import Membership, Message, Participant, ProfilePicture, User, UserSession
from chat.models.session import UserSessionQuerySet
from chat.models.team import FULL_ROLES


def open_sessions(user: User) -> UserSessionQuerySet:
    """The sessions in which a person is signed in, the last used first."""
    return UserSession.objects.filter(user=user).open().order_by("-last_used_at")


def get_session(user: User, public_id: UUID) -> UserSession:
    """An open session of the user. Raises ``Http404`` for those of others."""
    check_is_active(user)
    return existing(open_sessions(user).filter(public_id=public_id).first())


def get_picture(user: User, public_id: UUID) -> ProfilePicture:
    """The picture of a person whom the user may know: themselves, people of teams that they see, people in
    conversations that they read; for an administrator everybody. Raises ``Http404``."""
    check_is_active(user)
    rows = ProfilePicture.objects.select_related("user", "content")
    picture = rows.filter(user__public_id=public_id).first()
    if picture is None or not knows(user, picture.user):
        raise Http404(NOT_HERE)
    return picture


def knows(user: User, person: User) -> bool:
    """Returns whether the user may see who the person is."""
    if user.pk == person.pk or user.is_staff:
        return True
    teams = Membership.objects.filter(user=user, role__in=FULL_ROLES).values("team")
    if Membership.objects.filter(user=person, team__in=teams).exists():
        return True
    messages = Message.objects.filter(conversation=OuterRef("pk"), author=person)
    participants = Participant.objects.filter(conversation=OuterRef("pk"), person=person)
    common = Q(owner=person) | Q(Exists(participants)) | Q(Exists(messages))
    return visible_conversations(user).filter(common).exists()
