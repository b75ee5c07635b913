"""The full-text index: SQLite's FTS5 or PostgreSQL's `tsvector`, one contract for both.

Both get tokens that were made here (`chat.search.tokens`), so they find the same. Neither stores
the text. The words of `SearchRow` ``n`` are under key ``n``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from chat.core.prepared import insert
from chat.models import SearchRow
from chat.search.tokens import Phrase, Query, tokens_of

# Longer texts are several rows. PostgreSQL knows positions up to 16,383, and a megabyte for a row.
# All words of a query must be in one part.
PART_TOKENS = 15_000
PART_BYTES = 400_000
# What follows is not found: 300,000 words.
MOST_PARTS = 20
MOST_CHARACTERS = 4_000_000
# A few milliseconds of work.
SLICE_CHARACTERS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A text to be found, and what it is."""

    kind: str
    source: int
    conversation: int
    created_at: datetime
    # Of its text (`parts_of`).
    parts: Sequence[Sequence[str]]
    message: int | None = None
    author: int | None = None
    upstream: int | None = None
    model: str = ""


def put(entries: Iterable[Entry]) -> None:
    """Indexes new texts. Call it in the transaction that stores their records."""
    rows, words = [], []
    for entry in entries:
        for part, tokens in enumerate(entry.parts):
            rows.append(_row(entry, part, tokens))
            words.append(" ".join(tokens))
    if not rows:
        return
    if len(rows) == 1:
        # Most messages: a statement that is prepared.
        insert(rows[0])
    else:
        SearchRow.objects.bulk_create(rows)
    if connection.vendor != "postgresql":
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO chat_searchindex (rowid, words) VALUES (%s, %s)",
                [(row.pk, text) for row, text in zip(rows, words, strict=True)],
            )


def _row(entry: Entry, part: int, tokens: Sequence[str]) -> SearchRow:
    return SearchRow(
        kind=entry.kind,
        source=entry.source,
        part=part,
        conversation_id=entry.conversation,
        message_id=entry.message,
        author_id=entry.author,
        upstream_id=entry.upstream,
        model=entry.model,
        created_at=entry.created_at,
        vector=vector_of(tokens) if connection.vendor == "postgresql" else None,
    )


def empty() -> None:
    """Forgets all words. PostgreSQL keeps them in the rows."""
    if connection.vendor != "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO chat_searchindex (chat_searchindex) VALUES ('delete-all')")


def parts_of(text: str) -> list[Sequence[str]]:
    """The tokens of a text in parts. A text without words has one part without tokens, so that it is
    known to be indexed. A long answer takes half a second: do it before the transaction."""
    return list(_parts(_tokens(text)))


def _tokens(text: str) -> Iterator[str]:
    """Slice by slice: while a regular expression works, no other thread does."""
    start, most = 0, min(len(text), MOST_CHARACTERS)
    while start < most:
        end = min(start + SLICE_CHARACTERS, most)
        if end < most:
            spaces = (at for at in range(end, start, -1) if not _is_in_word(text[at - 1]))
            end = next(spaces, end)
        yield from tokens_of(text[start:end])
        start = end


def _is_in_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character).startswith("M")


def _parts(tokens: Iterable[str]) -> Iterator[Sequence[str]]:
    part: list[str] = []
    size = count = 0
    for token in tokens:
        token_bytes = len(token.encode()) + 4
        if len(part) == PART_TOKENS or size + token_bytes > PART_BYTES:
            yield part
            part, size, count = [], 0, count + 1
            if count == MOST_PARTS:
                return
        part.append(token)
        size += token_bytes
    yield part


def vector_of(tokens: Sequence[str]) -> str:
    # Tokens consist of letters, digits and their marks: nothing must be escaped.
    positions: dict[str, list[str]] = {}
    for position, token in enumerate(tokens, start=1):
        positions.setdefault(token, []).append(str(position))
    return " ".join(f"'{token}':{','.join(at)}" for token, at in positions.items())


# --- searching ----------------------------------------------------------------------------------


def matching(rows: QuerySet[SearchRow], query: Query) -> QuerySet[SearchRow]:
    """Those of the rows that have the words of a query. Without words: all of them."""
    if query.wanted:
        return rows.extra(**_condition(_all_of(query)))
    if query.excluded:
        found = SearchRow.objects.extra(**_condition(_any_of(query.excluded)))
        return rows.exclude(pk__in=found.values("pk"))
    return rows


def by_relevance(rows: QuerySet[SearchRow], query: Query) -> QuerySet[SearchRow]:
    """Best first. ``rows`` are those of `matching`, and few enough to be weighed one by one."""
    if connection.vendor == "postgresql":
        rank = RawSQL("-ts_rank(chat_searchrow.vector, %s::tsquery, 1)", [_all_of(query)])
    else:
        rank = RawSQL("bm25(chat_searchindex)", [])
    return rows.order_by(rank, "-pk")


def newest_first(rows: QuerySet[SearchRow], sorted_rows: int, *, limit: int) -> list[int]:
    """The keys of rows, of each text one, newest first. Of very many rows those that were stored
    last are sorted, as the index has them in that order. What was imported may be older."""
    last = rows.order_by("-pk").values_list("pk", "kind", "source", "created_at")[:sorted_rows]
    try:
        text, parameters = last.query.sql_with_params()
    except EmptyResultSet:
        return []
    with connection.cursor() as cursor:
        # The text is the ORM's, with placeholders.
        cursor.execute(
            f"SELECT MAX(pk) FROM ({text}) found GROUP BY kind, source"  # noqa: S608
            " ORDER BY MAX(created_at) DESC, 1 DESC LIMIT %s",
            [*parameters, limit],
        )
        return [pk for pk, *_ in cursor.fetchall()]


def _condition(words: str) -> dict[str, Any]:
    if connection.vendor == "postgresql":
        return {"where": ["chat_searchrow.vector @@ %s::tsquery"], "params": [words]}
    return {
        "tables": ["chat_searchindex"],
        "where": ["chat_searchindex.rowid = chat_searchrow.id", "chat_searchindex MATCH %s"],
        "params": [words],
    }


def _all_of(query: Query) -> str:
    wanted = [_phrase(phrase) for phrase in query.wanted]
    excluded = [_phrase(phrase) for phrase in query.excluded]
    if connection.vendor == "postgresql":
        return " & ".join([*wanted, *(f"!{phrase}" for phrase in excluded)])
    return " NOT ".join([f"({' AND '.join(wanted)})", *excluded])


def _any_of(phrases: Iterable[Phrase]) -> str:
    joined = " | " if connection.vendor == "postgresql" else " OR "
    return joined.join(_phrase(phrase) for phrase in phrases)


def _phrase(phrase: Phrase) -> str:
    if connection.vendor == "postgresql":
        lexemes = [f"'{token}'" for token in phrase.tokens]
        if phrase.is_prefix:
            lexemes[-1] += ":*"
        return f"({' <-> '.join(lexemes)})"
    return f'"{" ".join(phrase.tokens)}"{" *" if phrase.is_prefix else ""}'
