"""The entries of the inbox, of all sources and for all people who have a page open, with one statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from django.urls import reverse
from django.utils import timezone

from chat.access import rule
from chat.core.prepared import fetch
from chat.core.value_table import ValueTable
from chat.models import Conversation, User
from chat.unread.marks import ShownRevision, store_read
from chat.web.inbox_sources import InboxSource, inbox_sources, source_of

# The newest entries of a person. More than a hundred are counted as "99+".
MOST_ENTRIES = 100
# Entries that were not read for so long are no longer listed.
KEPT_FOR = timedelta(days=30)
# A page that shows the news stores that after up to two seconds: until then they are not in the inbox, or
# each answer would come and go there while somebody reads it.
SHOWN_AFTER = timedelta(seconds=3)


class Entry(NamedTuple):
    """Something that waits for a person, or that they have not read."""

    kind: str
    key: UUID
    room: UUID
    title: str
    # The conversation's revision.
    revision: int
    message: UUID | None
    actor: str
    at: datetime
    detail: str

    @property
    def source(self) -> InboxSource:
        return source_of(self.kind)

    @property
    def address(self) -> str:
        """The address of its turn, or of the conversation."""
        if self.message is None:
            return reverse("conversation", args=[self.room])
        anchor = self.source.anchor.format(key=self.key.hex, message=self.message.hex)
        return f"{reverse('message_find', args=[self.message])}#{anchor}"


_READ = """
    WITH asked AS (SELECT person FROM {asked}), found AS ({rows}), waiting AS (
        SELECT found.*, chat_conversation.public_id AS room, chat_conversation.title,
            chat_conversation.revision AS room_revision,
            ROW_NUMBER() OVER (PARTITION BY found.person ORDER BY found.at DESC) AS place
        FROM found
        JOIN chat_user reader ON reader.id = found.person
        JOIN chat_conversation ON chat_conversation.id = found.conversation_id
        LEFT JOIN chat_readmark mark
            ON mark.user_id = found.person AND mark.conversation_id = found.conversation_id
        WHERE {reads} AND (
            found.is_readable = 0 OR (
                found.at > %s AND found.at <= %s AND found.at > reader.unread_since
                AND CASE
                    WHEN mark.id IS NULL THEN TRUE
                    WHEN found.is_read_by_visit = 1 THEN found.at > mark.read_at
                    WHEN found.revision IS NOT NULL THEN found.revision > mark.revision
                    ELSE mark.news_at IS NULL OR found.at > mark.news_at
                END
            )
        )
    )
    SELECT waiting.person, waiting.kind, waiting.key, waiting.room, waiting.title,
        waiting.room_revision, message.public_id, COALESCE(NULLIF(actor.name, ''), actor.email),
        waiting.at, waiting.detail
    FROM waiting
    LEFT JOIN chat_message message ON message.id = waiting.message_id
    LEFT JOIN chat_user actor ON actor.id = waiting.actor_id
    WHERE waiting.place <= {most}
    ORDER BY waiting.person, waiting.at DESC, waiting.key
"""
_asked = ValueTable("asked_people", person="bigint")


_ROWS = """
        SELECT '{source.kind}' AS kind, {is_readable} AS is_readable,
            {is_read_by_visit} AS is_read_by_visit, rows_of_{source.kind}.*
        FROM ({rows}) rows_of_{source.kind}
"""


@cache
def _statement(vendor: str) -> str:
    rows = [
        _ROWS.format(
            source=source,
            is_readable=int(source.is_read_by_reading),
            is_read_by_visit=int(source.is_read_by_visit),
            rows=source.rows(),
        )
        for source in inbox_sources()
    ]
    reads = rule.text_of(Conversation, rule.READS, person="found.person")
    return _READ.format(
        asked=_asked.text, rows="UNION ALL".join(rows), reads=reads, most=MOST_ENTRIES
    )


def read_entries(
    people: Iterable[int], *, now: datetime | None = None
) -> Mapping[int, tuple[Entry, ...]]:
    """The entries of each of these people, the newest first, of conversations that they may read now."""
    found: dict[int, list[Entry]] = {person: [] for person in people}
    if not found:
        return {}
    now = now or timezone.now()
    values = [_asked.value((person,) for person in found), now - KEPT_FOR, now - SHOWN_AFTER]
    seen: set[tuple[int, str, UUID, UUID]] = set()
    for person, kind, key, room, title, revision, message, actor, at, detail in fetch(
        _statement(connection.vendor), values
    ):
        entry = Entry(
            *(kind, _uuid(key), _uuid(room), title, revision),
            *(message and _uuid(message), actor or "", _moment(at), detail),
        )
        # Somebody may be given access in two ways.
        cause = (person, kind, entry.room, entry.key if entry.message else entry.room)
        if cause not in seen:
            seen.add(cause)
            found[person].append(entry)
    return {person: tuple(entries) for person, entries in found.items()}


def entries_of(user: User) -> tuple[Entry, ...]:
    return read_entries([user.pk])[user.pk]


def mark_all_read(user: User) -> None:
    """Marks the conversations of all entries as read that reading ends. What needs a response stays."""
    readable = [each for each in entries_of(user) if each.source.is_read_by_reading]
    shown: Sequence[ShownRevision] = list(
        {ShownRevision(user.pk, each.room, each.revision) for each in readable}
    )
    if shown:
        store_read(shown)


def _uuid(value: UUID | str) -> UUID:
    """SQLite gives the text of an id, and of a time."""
    return value if isinstance(value, UUID) else UUID(value)


def _moment(value: datetime | str) -> datetime:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment if timezone.is_aware(moment) else moment.replace(tzinfo=UTC)
