"""Participants of conversations: who takes part, through what people read, and conversations without a manager."""

from __future__ import annotations

from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, QuerySet
from django.http import Http404

from chat.access import rule
from chat.access.conversations import (
    ONLY_MANAGERS,
    get_conversation,
    managed_conversations,
    may_manage,
    members_among,
)
from chat.access.not_here import NOT_HERE, check_is_active, existing
from chat.models import Conversation, Membership, Participant, Team, User
from chat.models.team import MANAGING_ROLES, WRITING_ROLES


def unmanaged_conversations(team: Team) -> QuerySet[Conversation]:
    """The conversations of the team that others than their owner see, and that nobody manages any more. What
    only its owner saw waits for their return."""
    own = Membership.objects.filter(team=OuterRef("team"), user=OuterRef("owner"))
    able = own.filter(user__is_active=True, role__in=WRITING_ROLES)
    managed = managed_conversations(OuterRef("user")).filter(pk=OuterRef(OuterRef("pk")))
    managers = Membership.objects.filter(Exists(managed), team=OuterRef("team"))
    # Most have their owner, so that the managers of few are looked for.
    shared = Conversation.objects.filter(rule.IS_PRESENT, ~rule.IS_PRIVATE, team=team)
    return shared.filter(~Exists(able)).filter(~Exists(managers))


def may_take_over(user: User, team: Team) -> bool:
    """Returns whether this user may take over conversations of the team that nobody manages: as one of its owners
    and admins. Being an administrator of the installation is not enough."""
    members = Membership.objects.filter(team=team, user=user, user__is_active=True)
    return members.filter(role__in=MANAGING_ROLES).exists()


def get_unmanaged_conversation(user: User, public_id: UUID) -> Conversation:
    """A conversation without a manager, for owners and admins of its team, who may take it over. Whether they
    read it or not, its content is not for them yet. Raises ``Http404``."""
    check_is_active(user)
    rows = Conversation.objects.select_related("team", "owner").filter(public_id=public_id)
    conversation = rows.first()
    if conversation is None or not may_take_over(user, conversation.team):
        raise Http404(NOT_HERE)
    if not unmanaged_conversations(conversation.team).filter(pk=conversation.pk).exists():
        raise Http404(NOT_HERE)
    return conversation


def get_participant(user: User, public_id: UUID, participant_id: UUID) -> Participant:
    """Somebody who takes part in a conversation, for its managers and for themselves. Raises as
    ``get_conversation`` does."""
    conversation = get_conversation(user, public_id)
    rows = Participant.objects.filter(conversation=conversation.pk, public_id=participant_id)
    participant = existing(rows.select_related("person", "group").first())
    if participant.person_id != user.pk and not may_manage(user, conversation):
        raise PermissionDenied(str(ONLY_MANAGERS))
    participant.conversation = conversation
    return participant


def members_taking_part(conversation: Conversation) -> QuerySet[Membership]:
    """The members of `readers_of` who are its owner or participants, alone or in a group, whatever its
    visibility is."""
    rows = rule.for_person(Conversation.objects.all(), OuterRef("user")).filter(rule.TAKES_PART)
    return members_among(rows, conversation)


def with_ways(members: QuerySet[Membership], conversation: Conversation) -> QuerySet[Membership]:
    """These members of `readers_of` with what they may do in the conversation, and whether they read it
    through its project or as one of the team: ``writes``, ``manages``, ``by_project`` and ``by_team``."""
    theirs = rule.for_person(Conversation.objects.filter(pk=conversation.pk), OuterRef("user"))
    ways = {
        "writes": rule.WRITES,
        "manages": rule.MANAGES,
        "by_project": rule.READS_BY_PROJECT,
        "by_team": rule.READS_AS_TEAM,
    }
    return members.annotate(**{name: Exists(theirs.filter(way)) for name, way in ways.items()})
