"""The contents of the Share dialog: everybody with access to a conversation, and through what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext

from chat import access
from chat.conversations.page import project_shown
from chat.models import (
    Conversation,
    ConversationRole,
    Group,
    GroupMember,
    Participant,
    Project,
    User,
)
from chat.participants.candidates import candidates
from chat.participants.forms import TEAM_READS

# People shown by name; of a larger team the rest is counted.
PEOPLE_SHOWN = 200
# People of a group that are named beside it.
NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Somebody who has access. ``ways`` are the words for what it comes through."""

    person: User
    ways: Sequence[str]
    may_write: bool
    may_manage: bool
    is_me: bool
    is_owner: bool
    participant: Participant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group that takes part. ``people`` are some of its members who have access."""

    participant: Participant
    group: Group
    people: Sequence[User]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """A choice of who has access beside the participants."""

    value: str
    label: str
    is_chosen: bool


def sharing_context(user: User, conversation: Conversation, words: str = "") -> dict[str, Any]:
    """A guest is shown the people who take part, and not the team."""
    context = access.context_of(user, conversation)
    members = access.members_taking_part(conversation)
    if not context.is_guest:
        members = access.readers_of(conversation)
    taking_part = Participant.objects.filter(conversation=conversation).select_related(
        "person", "group"
    )
    participants = {each.person_id or 0: each for each in taking_part if each.group_id is None}
    groups = [each for each in taking_part if each.group is not None]
    project = project_shown(user, conversation)
    people_in = _people_in(conversation, groups)
    known = [] if context.is_guest else groups
    shown = _readers(user, conversation, members, participants, known, people_in, project)
    return {
        "conversation": conversation,
        "people": shown,
        "more": members.count() - len(shown),
        "groups": [_group_row(each, people_in) for each in known],
        "roles": ConversationRole.choices,
        "audiences": _audiences(conversation),
        "project": project,
        "is_shared": conversation.is_shared,
        "has_participants": bool(participants or groups),
        "is_owner": conversation.owner_id == user.pk,
        "is_guest": context.is_guest,
        "may_manage": context.may_manage,
        "words": words,
        # Asked only for managers.
        "found": SimpleLazyObject(lambda: candidates(conversation, words)),
    }


def _people_in(
    conversation: Conversation, groups: Sequence[Participant]
) -> Mapping[int, Sequence[User]]:
    """The members of these groups who are on the team, by the key of the group."""
    members = GroupMember.objects.filter(
        group__in=[each.group_id for each in groups],
        user__is_active=True,
        user__memberships__team=conversation.team_id,
    ).select_related("user")
    people: dict[int, list[User]] = defaultdict(list)
    for member in members.order_by("user__name", "user__email") if groups else ():
        people[member.group_id].append(member.user)
    return people


def _group_row(participant: Participant, people_in: Mapping[int, Sequence[User]]) -> GroupRow:
    group = participant.group
    assert group is not None
    people = people_in.get(group.pk, ())
    return GroupRow(
        participant=participant,
        group=group,
        people=people[:NAMED],
        more=max(len(people) - NAMED, 0),
    )


def _readers(
    user: User,
    conversation: Conversation,
    members: Any,
    participants: Mapping[int, Participant],
    groups: Sequence[Participant],
    people_in: Mapping[int, Sequence[User]],
    project: Project | None,
) -> list[Reader]:
    """The owner first, then the other participants, then the rest, each by name."""
    names: dict[int, list[str]] = defaultdict(list)
    for each in groups:
        for person in people_in.get(each.group_id or 0, ()):
            names[person.pk].append(str(each.group))
    rows = access.with_ways(members, conversation).order_by("user__name", "pk")[:PEOPLE_SHOWN]
    sees_team = not access.context_of(user, conversation).is_guest
    shown = []
    for row in rows:
        is_owner = row.user_id == conversation.owner_id
        participant = participants.get(row.user_id)
        ways = [
            *([gettext("Owner")] if is_owner else []),
            *([gettext("Participant")] if participant else []),
            *(gettext("Group %(group)s") % {"group": name} for name in names[row.user_id]),
            *([_project_way(project)] if row.by_project and sees_team else []),
            *([gettext("Team")] if row.by_team and sees_team else []),
            *([] if row.sees_team else [gettext("Guest")]),
        ]
        shown.append(
            Reader(
                person=row.user,
                ways=ways,
                may_write=row.writes,
                may_manage=row.manages,
                is_me=row.user_id == user.pk,
                is_owner=is_owner,
                participant=participant,
            )
        )
    return sorted(shown, key=lambda row: (not row.is_owner, row.participant is None))


def _project_way(project: Project | None) -> str:
    """A participant may not know the project."""
    return gettext("Project %(project)s") % {"project": project} if project else gettext("Project")


def _audiences(conversation: Conversation) -> Sequence[Audience]:
    team = {"team": conversation.team}
    private, shared = conversation.audiences
    labels = [(private, gettext("Only people added here"))]
    if conversation.project_id is not None:
        labels.append((shared, gettext("Everyone in the project")))
    else:
        labels.append((TEAM_READS, gettext("Everyone in %(team)s can read") % team))
        labels.append((shared, gettext("Everyone in %(team)s can read and reply") % team))
    chosen = conversation.visibility
    if conversation.is_read_by_team:
        chosen = TEAM_READS
    return [
        Audience(value=value, label=label, is_chosen=value == chosen) for value, label in labels
    ]
