"""How far people have read their conversations: stored for all tabs of a process at once, and read by the list
of conversations and by open pages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from chat.core.prepared import Prepared, fetch
from chat.core.value_table import ValueTable
from chat.models import ReadMark, User


class ShownRevision(NamedTuple):
    """The revision of a conversation that a visible page has shown."""

    person: int
    room: UUID
    revision: int


def is_unread(person: Any) -> ExpressionWrapper:
    """The column of a query of conversations that tells whether one has news that this person has not seen.
    The person is a user or a placeholder, as in `chat.access`."""
    read = ReadMark.objects.filter(user=person, conversation=OuterRef("pk"))
    since = User.objects.filter(pk=getattr(person, "pk", person))
    seen = Coalesce(
        Subquery(read.values("news_at")[:1]), Subquery(since.values("unread_since")[:1])
    )
    return ExpressionWrapper(Q(updated_at__gt=seen), output_field=BooleanField())


_revision: Prepared[Any] = Prepared(
    lambda person, room: ReadMark.objects.filter(user=person, conversation=room).values_list(
        "revision", flat=True
    )
)


def revision_read(user: User, conversation_pk: int) -> int | None:
    """The conversation's revision up to which this person has read; ``None`` if they have never opened it."""
    revision: int | None = _revision.first(person=user.pk, room=conversation_pk)
    return revision


# --- writing --------------------------------------------------------------------------------------

# A conversation that has gone on meanwhile keeps the time of its older news, and so is unread.
_STORE = """
    INSERT INTO chat_readmark (user_id, conversation_id, revision, news_at, read_at)
    SELECT chat_user.id, chat_conversation.id, said.revision,
        CASE WHEN chat_conversation.revision = said.revision
            THEN chat_conversation.updated_at END,
        said.read_at
    FROM {said}
    JOIN chat_user ON chat_user.id = said.person
    JOIN chat_conversation ON chat_conversation.public_id = said.room
        AND chat_conversation.revision >= said.revision
    WHERE 1 = 1
    ORDER BY chat_user.id, chat_conversation.id
    ON CONFLICT (user_id, conversation_id) DO UPDATE SET
        revision = excluded.revision,
        news_at = COALESCE(excluded.news_at, chat_readmark.news_at),
        read_at = excluded.read_at
    WHERE chat_readmark.revision <= excluded.revision
"""
_said = ValueTable("said", person="bigint", room="uuid", revision="bigint", read_at="timestamptz")


def store_read(shown: Sequence[ShownRevision]) -> Collection[ShownRevision]:
    """Stores what all tabs have shown with one statement. A mark never goes back."""
    newest: dict[tuple[int, UUID], int] = {}
    for person, room, revision in shown:
        newest[person, room] = max(revision, newest.get((person, room), 0))
    now = timezone.now()
    rows = ((person, room, revision, now) for (person, room), revision in newest.items())
    fetch(_STORE.format(said=_said.text), [_said.value(rows)])
    return shown


# --- reading --------------------------------------------------------------------------------------


class MarksAsked(NamedTuple):
    """The marks of a person that were set since a time."""

    person: int
    since: datetime


_READ = """
    SELECT asked.number, chat_conversation.public_id, mark.news_at
    FROM {asked}
    JOIN chat_readmark mark ON mark.user_id = asked.person AND mark.read_at > asked.since
    JOIN chat_conversation ON chat_conversation.id = mark.conversation_id
    WHERE mark.news_at IS NOT NULL
"""
_asked = ValueTable("asked", number="bigint", person="bigint", since="timestamptz")


def read_marks(asked: Iterable[MarksAsked]) -> Mapping[MarksAsked, Mapping[str, int]]:
    """For each question the conversations, with the time of the newest news that the person has seen, in
    milliseconds as in the list. One statement for all."""
    questions = list(set(asked))
    rows = ((number, each.person, each.since) for number, each in enumerate(questions))
    found: dict[MarksAsked, dict[str, int]] = {each: {} for each in questions}
    for number, room, news_at in fetch(_READ.format(asked=_asked.text), [_asked.value(rows)]):
        hex_id = room.hex if isinstance(room, UUID) else room
        found[questions[number]][hex_id] = milliseconds(news_at)
    return found


def milliseconds(moment: datetime | str) -> int:
    """SQLite gives the text of a time."""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
