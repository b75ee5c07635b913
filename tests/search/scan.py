"""What a search must find, by reading everything: no index, and access spelled out."""

from __future__ import annotations

from chat.models import (
    Conversation,
    Membership,
    Pin,
    Project,
    ProjectAccess,
    ProjectMember,
    TeamRole,
    User,
    Visibility,
)
from chat.search.sources import KINDS
from chat.search.tokens import Phrase, Query, tokens_of

Found = set[tuple[str, int]]


class Everything:
    """All records as they are now, with their words."""

    def __init__(self) -> None:
        self._records = [
            (str(kind), record.pk, room_of(record), tokens_of(known.text(record)))
            for kind, known in KINDS.items()
            for record in known.records()
        ]
        self._rooms = Conversation.objects.select_related("owner", "project__team").in_bulk()

    def scan(self, user: User, *queries: Query) -> list[Found]:
        """For each query kind and key of every record that the person may read and that has the
        words, in a conversation that has the states and is in the project."""
        readable = [room for room in self._rooms.values() if may_read(user, room)]
        return [
            {
                (kind, key)
                for kind, key, room, tokens in self._records
                if room in where and has_words(tokens, query)
            }
            for query in queries
            for where in [{room.pk for room in readable if is_where(user, room, query)}]
        ]


def may_read(user: User, room: Conversation) -> bool:
    """Temporary conversations are not searched, even by people who may read them."""
    member = Membership.objects.filter(user=user, team_id=room.team_id).first()
    is_guest = member is not None and member.role == TeamRole.GUEST
    is_readable = room.owner_id == user.pk or (
        not is_guest
        and (
            room.visibility == Visibility.TEAM
            or (room.visibility == Visibility.PROJECT and sees(user, room.project))
        )
    )
    return (
        member is not None and is_readable and room.deleted_at is None and room.expires_at is None
    )


def sees(user: User, project: Project | None) -> bool:
    """Returns whether the project is one of this user's."""
    if project is None:
        return False
    member = Membership.objects.filter(user=user, team=project.team).first()
    if member is None or member.role == TeamRole.GUEST:
        return False
    return (
        project.access == ProjectAccess.TEAM
        or ProjectMember.objects.filter(user=user, project=project).exists()
    )


def room_of(record: object) -> int:
    """The key of its conversation."""
    run = getattr(record, "run", None)
    key: int = getattr(run or record, "conversation_id", None) or record.pk  # type: ignore[attr-defined]
    return key


def is_where(user: User, room: Conversation, query: Query) -> bool:
    if query.project:
        project = room.project
        if not sees(user, project) or project.name.casefold() != query.project:
            return False
    if not query.states:
        return True
    return query.states <= {
        "archived" if room.archived_at else "",
        "pinned" if Pin.objects.filter(user=user, conversation=room).exists() else "",
        "" if room.visibility == Visibility.PRIVATE else "shared",
    }


def has_words(tokens: list[str], query: Query) -> bool:
    return all(_has(tokens, phrase) for phrase in query.wanted) and not any(
        _has(tokens, phrase) for phrase in query.excluded
    )


def _has(tokens: list[str], phrase: Phrase) -> bool:
    *firsts, last = phrase.tokens
    return any(
        tokens[at : at + len(firsts)] == firsts
        and (found.startswith(last) if phrase.is_prefix else found == last)
        for at in range(len(tokens))
        for found in tokens[at + len(firsts) : at + len(firsts) + 1]
    )
