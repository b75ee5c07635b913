"""Rows of presence: stored for all tabs of a process at once, and read for all open conversations at once.

Ages are compared on the hosts' clocks, which may differ by a second or so: the shortest age that matters is
six seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from django.utils import timezone

from chat.access import rule
from chat.core.prepared import fetch
from chat.core.value_table import ValueTable
from chat.models import Conversation, Presence

# A person is gone after this time without a sign of a tab of theirs, and idle after this time in which
# they did nothing on the page.
GONE_AFTER = timedelta(seconds=60)
IDLE_AFTER = timedelta(minutes=5)
# Pages repeat the sign about every three seconds, and it takes up to three seconds to all others.
TYPING_FOR = timedelta(seconds=7)
# Rows are deleted after this time.
KEPT_FOR = timedelta(minutes=10)
# Older than any limit.
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


class Sign(NamedTuple):
    """A sign of a person's tab. ``is_typing`` is ``None`` if that has not changed."""

    person: int
    room: UUID
    is_active: bool = False
    is_typing: bool | None = None

    def with_earlier(self, earlier: Sign | None) -> Sign:
        """Both signs in one. They are of two tabs, or the earlier one was not stored yet."""
        if earlier is None:
            return self
        is_typing = earlier.is_typing if self.is_typing is None else self.is_typing
        return self._replace(is_active=self.is_active or earlier.is_active, is_typing=is_typing)


class PresentPerson(NamedTuple):
    """Somebody who has the conversation open."""

    pk: int
    name: str
    is_idle: bool
    is_typing: bool
    public_id: UUID | None = None
    # The version of the person's picture (`User.picture_version`).
    picture_version: str = ""

    def __str__(self) -> str:
        return self.name


# --- writing --------------------------------------------------------------------------------------

# Null keeps the time that is stored.
_STORE = """
    INSERT INTO chat_presence (user_id, conversation_id, seen_at, active_at, typed_at)
    SELECT chat_user.id, chat_conversation.id, said.seen_at, said.active_at, said.typed_at
    FROM {said}
    JOIN chat_user ON chat_user.id = said.person
    JOIN chat_conversation ON chat_conversation.public_id = said.room
    WHERE 1 = 1
    ORDER BY chat_conversation.id, chat_user.id
    ON CONFLICT (conversation_id, user_id) DO UPDATE SET
        seen_at = excluded.seen_at,
        active_at = COALESCE(excluded.active_at, chat_presence.active_at),
        typed_at = COALESCE(excluded.typed_at, chat_presence.typed_at)
"""
_said = ValueTable(
    "said",
    person="bigint",
    room="uuid",
    seen_at="timestamptz",
    active_at="timestamptz",
    typed_at="timestamptz",
)


def store_signs(signs: Sequence[Sign]) -> Collection[Sign]:
    """Stores the signs of all tabs with one statement. Those of people and conversations that are gone by now
    are left out."""
    merged: dict[tuple[int, UUID], Sign] = {}
    for sign in signs:
        key = sign.person, sign.room
        merged[key] = sign.with_earlier(merged.get(key))
    now = timezone.now()
    rows = [
        (
            *(sign.person, sign.room, now),
            now if sign.is_active or sign.is_typing else None,
            None if sign.is_typing is None else (now if sign.is_typing else _LONG_AGO),
        )
        for sign in merged.values()
    ]
    fetch(_STORE.format(said=_said.text), [_said.value(rows)])
    return signs


# --- reading --------------------------------------------------------------------------------------

_READ = """
    SELECT chat_conversation.public_id, chat_user.id, chat_user.name, chat_user.email,
        presence.active_at IS NULL OR presence.active_at <= %s,
        presence.typed_at IS NOT NULL AND presence.typed_at > %s,
        chat_user.public_id, chat_user.picture_version
    FROM {asked}
    JOIN chat_conversation ON chat_conversation.public_id = asked.room
    JOIN chat_presence presence
        ON presence.conversation_id = chat_conversation.id AND presence.seen_at > %s
    JOIN chat_user ON chat_user.id = presence.user_id
        AND chat_user.is_active AND NOT chat_user.is_invisible
    ORDER BY chat_conversation.id, LOWER(chat_user.name), chat_user.id
"""
_asked = ValueTable("asked", room="uuid")


def read_people(
    rooms: Iterable[UUID], *, now: datetime | None = None
) -> Mapping[UUID, tuple[PresentPerson, ...]]:
    """The visible people in each of these conversations, with one statement."""
    asked = set(rooms)
    now = now or timezone.now()
    values = (now - IDLE_AFTER, now - TYPING_FOR, _asked.value((room,) for room in asked))
    rows = fetch(_READ.format(asked=_asked.text), [*values, now - GONE_AFTER])
    found: dict[UUID, list[PresentPerson]] = {room: [] for room in asked}
    for room, pk, name, email, is_idle, is_typing, public_id, picture_version in rows:
        person = PresentPerson(
            *(pk, name or email, bool(is_idle), bool(is_typing)),
            *(_as_uuid(public_id), picture_version),
        )
        found[_as_uuid(room)].append(person)
    return {room: tuple(people) for room, people in found.items()}


def _as_uuid(value: UUID | str) -> UUID:
    """SQLite has texts."""
    return value if isinstance(value, UUID) else UUID(value)


# The rows of people who are here now are few, so they come first.
_READ_LISTS = """
    WITH present AS (
        SELECT presence.conversation_id, presence.user_id
        FROM chat_presence presence
        JOIN chat_user ON chat_user.id = presence.user_id
            AND chat_user.is_active AND NOT chat_user.is_invisible
        WHERE presence.seen_at > %s
    )
    SELECT asked.person, chat_conversation.public_id, (
        SELECT COUNT(*) FROM present
        WHERE present.conversation_id = chat_conversation.id AND present.user_id <> asked.person
    )
    FROM {asked}
    JOIN chat_membership membership ON membership.user_id = asked.person
    JOIN chat_conversation ON chat_conversation.team_id = membership.team_id
        AND chat_conversation.id IN (SELECT conversation_id FROM present)
    WHERE {reads}
"""
_people_asked = ValueTable("asked", person="bigint")


@cache
def _read_lists(vendor: str) -> str:
    reads = rule.text_of(Conversation, rule.READS, person="asked.person")
    return _READ_LISTS.format(asked=_people_asked.text, reads=reads)


def read_lists(people: Iterable[int]) -> Mapping[int, Mapping[str, int]]:
    """For each of these people the conversations that they may read in which others are, with their number. One
    statement for all."""
    asked = set(people)
    values = [timezone.now() - GONE_AFTER, _people_asked.value((person,) for person in asked)]
    found: dict[int, dict[str, int]] = {person: {} for person in asked}
    for person, room, count in fetch(_read_lists(connection.vendor), values):
        if count:
            found[person][room.hex if isinstance(room, UUID) else room] = count
    return found


def delete_old() -> None:
    Presence.objects.filter(seen_at__lt=timezone.now() - KEPT_FOR).delete()
