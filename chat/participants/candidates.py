"""People and groups of a team to whom a conversation may be shared, by a part of their name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.db.models import Count, Q

from chat.models import Conversation, Group, Membership, Participant, User
from chat.search.tokens import folded

# Shown at once; a longer word finds the others.
MOST_FOUND = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """``person`` or ``group`` is set. ``key`` is the value of the button that adds them."""

    key: str
    person: User | None = None
    group: Group | None = None
    is_guest: bool = False
    # The number of people in a group.
    count: int = 0


def candidates(conversation: Conversation, words: str) -> Sequence[Candidate]:
    """Groups first, then people, each by name; without the owner and those who take part already. None without
    words."""
    if not words.strip():
        return []
    taking_part = Participant.objects.filter(conversation=conversation)
    people = set(taking_part.values_list("person", flat=True)) | {conversation.owner_id}
    groups = set(taking_part.values_list("group", flat=True))
    found = [*_groups(conversation, groups, words), *_people(conversation, people, words)]
    return found[:MOST_FOUND]


def _groups(
    conversation: Conversation, without: set[int | None], words: str
) -> Iterator[Candidate]:
    is_member = Q(people__is_active=True, people__memberships__team=conversation.team_id)
    rows = Group.objects.filter(team=conversation.team_id)
    for group in rows.annotate(count=Count("people", filter=is_member, distinct=True)):
        if group.pk not in without and folded(words.strip()) in folded(group.name):
            yield Candidate(key=f"group:{group.public_id}", group=group, count=group.count)


def _people(
    conversation: Conversation, without: set[int | None], words: str
) -> Iterator[Candidate]:
    """Names are compared here, because databases may ignore the case of ASCII letters only."""
    members = Membership.objects.filter(team=conversation.team_id, user__is_active=True)
    wanted = folded(words.strip())
    for membership in members.select_related("user").order_by("user__name", "user__email"):
        person = membership.user
        is_named = wanted in folded(person.name) or folded(person.email).startswith(wanted)
        if person.pk not in without and is_named:
            yield Candidate(
                key=f"person:{person.public_id}",
                person=person,
                is_guest=not membership.sees_team,
            )
