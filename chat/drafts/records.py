"""Rows of drafts: stored for all tabs of a process at once, and read for all of them at once.

A row is replaced only by a text that was written with knowledge of it (compare and swap by ``version``). A tab
whose text was not stored is told of the other one, and its page decides: the newer one wins, and the other one is
offered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from django.utils import timezone

from chat.core.prepared import fetch
from chat.core.text import clean
from chat.core.value_table import ValueTable

# Longer texts stay in the tab: a message over the websocket would have no room for them.
MOST_CHARACTERS = 20_000
# The place of the home page's composer.
NEW = "new"


class WrittenDraft(NamedTuple):
    """A text that replaces ``base``, the version that its tab knows (0: none). ``room`` is ``None`` for the home
    page. An empty text deletes the draft."""

    person: int
    room: UUID | None
    text: str
    base: int
    version: int

    @property
    def place(self) -> str:
        return place_of(self.room)


def place_of(room: UUID | None) -> str:
    return NEW if room is None else room.hex


def next_version(base: int) -> int:
    """Now, in milliseconds. Versions of one draft only rise, whatever the clocks of the hosts say."""
    return max(int(timezone.now().timestamp() * 1000), base + 1)


# --- writing --------------------------------------------------------------------------------------

_STORE = """
    INSERT INTO chat_draft (user_id, conversation_id, place, text, version, base)
    SELECT chat_user.id, chat_conversation.id, said.place, said.text, said.version, said.base
    FROM {said}
    JOIN chat_user ON chat_user.id = said.person
    LEFT JOIN chat_conversation ON chat_conversation.public_id = said.room
    WHERE said.room IS NULL OR chat_conversation.id IS NOT NULL
    ORDER BY chat_user.id, said.place
    ON CONFLICT (user_id, place) DO UPDATE SET
        text = excluded.text, version = excluded.version, base = excluded.base
    WHERE chat_draft.version = excluded.base
    RETURNING user_id, place, version
"""
_said = ValueTable(
    "said",
    person="bigint",
    room="uuid",
    place="text",
    text="text",
    version="bigint",
    base="bigint",
)
_DELETE = """
    DELETE FROM chat_draft
    WHERE (user_id, place, version) IN (SELECT person, place, base FROM {sent})
    RETURNING user_id, place
"""
_sent = ValueTable("sent", person="bigint", place="text", base="bigint")


def store_drafts(drafts: Sequence[WrittenDraft]) -> Collection[WrittenDraft]:
    """Stores and deletes the drafts of all tabs with one statement each, and returns those that replaced what
    their tab knew. Of two tabs of one person the later one counts."""
    latest = {(draft.person, draft.place): draft for draft in drafts}
    texts = [draft for draft in latest.values() if draft.text]
    empty = [draft for draft in latest.values() if not draft.text]
    return [*_insert(texts), *_delete(empty)]


def _insert(drafts: Sequence[WrittenDraft]) -> list[WrittenDraft]:
    if not drafts:
        return []
    rows = (
        (each.person, each.room, each.place, clean(each.text), each.version, each.base)
        for each in drafts
    )
    stored = set(fetch(_STORE.format(said=_said.text), [_said.value(rows)]))
    return [each for each in drafts if (each.person, each.place, each.version) in stored]


def _delete(drafts: Sequence[WrittenDraft]) -> list[WrittenDraft]:
    known = [each for each in drafts if each.base]
    rows = ((each.person, each.place, each.base) for each in known)
    deleted = set(fetch(_DELETE.format(sent=_sent.text), [_sent.value(rows)])) if known else set()
    # Without a base there was nothing to delete.
    return [each for each in drafts if not each.base or (each.person, each.place) in deleted]


# --- reading --------------------------------------------------------------------------------------


class DraftAsked(NamedTuple):
    """A person's draft at a place, unless it is the version that the tab knows."""

    person: int
    place: str
    known: int


class StoredDraft(NamedTuple):
    """``version`` is 0 without a draft; the text is left out of the version that the tab knows. ``files`` changes with
    the files that are attached to the message (`UnsentFile`); empty without any."""

    version: int
    text: str
    files: str = ""


_READ = """
    SELECT asked.number, COALESCE(draft.version, 0),
        CASE WHEN draft.version <> asked.known THEN draft.text ELSE '' END,
        COALESCE((
            SELECT {joined}
            FROM chat_unsentfile unsent JOIN chat_storedfile file ON file.id = unsent.file_id
            WHERE unsent.user_id = asked.person AND unsent.place = asked.place
        ), '')
    FROM {asked}
    LEFT JOIN chat_draft draft ON draft.user_id = asked.person AND draft.place = asked.place
"""
_FILE = "REPLACE(CAST(file.public_id AS text), '-', '') || ':' || unsent.use || ':' || unsent.pages"
_JOINED = {
    "postgresql": f"string_agg({_FILE}, ';' ORDER BY unsent.id)",
    "sqlite": f"group_concat({_FILE}, ';')",
}
_asked = ValueTable("asked", number="bigint", person="bigint", place="text", known="bigint")


def read_drafts(asked: Iterable[DraftAsked]) -> Mapping[DraftAsked, StoredDraft]:
    """One statement for all."""
    questions = list(set(asked))
    rows = ((number, *question) for number, question in enumerate(questions))
    found = dict.fromkeys(questions, StoredDraft(0, ""))
    statement = _READ.format(asked=_asked.text, joined=_JOINED[connection.vendor])
    for number, *columns in fetch(statement, [_asked.value(rows)]):
        found[questions[number]] = StoredDraft(*columns)
    return found
