"""The full-text index: SQLite's FTS5 or PostgreSQL's `tsvector`, one contract for both.

Both get tokens that were made here (`chat.search.tokens`), so they find the same. Neither stores
the text. The words of `SearchRow` ``n`` are under key ``n``.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import BooleanField, F, Func, Max, Min, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from chat.core.prepared import insert
from chat.models import Conversation, SearchRow
from chat.search.tokens import Phrase, Query, tokens_of

# A longer text is several rows. PostgreSQL knows positions up to 16,383, and a megabyte for a row.
# All words of a query must be in one part.
PART_TOKENS = 15_000
PART_BYTES = 400_000
# The rest of a text is not found: these are 300,000 words.
MOST_PARTS = 20
MOST_CHARACTERS = 4_000_000
# A few milliseconds of work.
SLICE_CHARACTERS = 100_000
# A search over at most this many conversations starts from their rows; over more, from the rows that
# have the words.
FEW_CONVERSATIONS = 1_500
# PostgreSQL reads all rows that have a word before it can sort them. So it first searches this many of
# the newest rows, and the number of hits says how much further back it must search.
FIRST_ROWS = 3_000
# Reading this many rows one by one is faster than reading all of a frequent word from its index.
MOST_READ_ROWS = 10_000
# After this many steps it searches all that is left.
MOST_STEPS = 4
# Columns of a row: what it is, and what changes when it is indexed again.
_KEY = ("kind", "source", "part")
_PLACE = ("conversation", "message", "author", "upstream", "model", "created_at", "vector")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A text to be found, and what it is."""

    kind: str
    source: int
    conversation: int
    created_at: datetime
    # The parts of its text (`parts_of`).
    parts: Sequence[Sequence[str]]
    message: int | None = None
    author: int | None = None
    upstream: int | None = None
    model: str = ""


def put(entries: Iterable[Entry], *, are_known: bool = False) -> None:
    """Indexes new texts. Call it in the transaction that stores their records. ``are_known``: of records that
    are stored already, which `manage.py rebuild_search` may index at the same moment."""
    rows, words = [], []
    for entry in entries:
        for part, tokens in enumerate(entry.parts):
            rows.append(_row(entry, part, tokens))
            words.append(tokens)
    if not rows:
        return
    if are_known and connection.vendor == "postgresql":
        SearchRow.objects.bulk_create(
            rows, update_conflicts=True, unique_fields=_KEY, update_fields=_PLACE
        )
    elif len(rows) == 1:
        # A single row, as of most messages, has a prepared statement.
        insert(rows[0])
    else:
        SearchRow.objects.bulk_create(rows)
    if connection.vendor != "postgresql":
        put_words((row.pk, tokens) for row, tokens in zip(rows, words, strict=True))


def put_words(rows: Iterable[tuple[int, Sequence[str]]]) -> None:
    """Indexes the tokens of rows of `SearchRow`, by key, in SQLite. PostgreSQL keeps them in the rows."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO chat_searchindex (rowid, words) VALUES (%s, %s)",
            [(key, " ".join(tokens)) for key, tokens in rows],
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


def are_few(conversations: QuerySet[Conversation]) -> bool:
    return conversations.order_by()[: FEW_CONVERSATIONS + 1].count() <= FEW_CONVERSATIONS


def matching(
    query: Query, conversations: QuerySet[Conversation], *, are_few: bool
) -> QuerySet[SearchRow]:
    """Rows of these conversations that have the words of a query. Without words: all of them.

    A search in few conversations starts from their rows; in many, from the rows that have the
    words, until enough are found.
    """
    rows = _rows_of_few(conversations) if are_few else _rows_of_many(conversations)
    known = rows if are_few else None
    if query.wanted:
        if connection.vendor == "postgresql" and not are_few:
            return rows.extra(**_compared(_all_of(query), "IS TRUE"))
        return rows.extra(**_condition(_all_of(query), known))
    if query.excluded and connection.vendor == "postgresql":
        return rows.extra(**_compared(_any_of(query.excluded), "IS NOT TRUE"))
    if query.excluded:
        found = SearchRow.objects.extra(**_condition(_any_of(query.excluded), known))
        return rows.exclude(pk__in=found.values("pk"))
    return rows


def rows_with(phrase: Phrase) -> QuerySet[SearchRow]:
    """Rows of all conversations. Unlike `matching`, it can stand within another query."""
    column, joiner, end = (
        ("vector", " @@ ", "::tsquery")
        if connection.vendor == "postgresql"
        else ("pk", " IN (SELECT rowid FROM chat_searchindex WHERE chat_searchindex MATCH ", ")")
    )
    has_words = Func(
        F(column),
        Value(_phrase(phrase)),
        arg_joiner=joiner,
        template=f"%(expressions)s{end}",
        output_field=BooleanField(),
    )
    return SearchRow.objects.filter(has_words)


def _rows_of_few(conversations: QuerySet[Conversation]) -> QuerySet[SearchRow]:
    if connection.vendor != "postgresql":
        return SearchRow.objects.filter(conversation__in=conversations.values("pk"))
    # PostgreSQL would estimate how many there are, and often search for all words instead. It
    # computes an array first.
    text, parameters = conversations.values("pk").query.sql_with_params()
    condition = f"chat_searchrow.conversation_id = ANY(ARRAY({text}))"
    # The text is the ORM's, with placeholders.
    return SearchRow.objects.extra(where=[condition], params=list(parameters))  # noqa: S610


def _rows_of_many(conversations: QuerySet[Conversation]) -> QuerySet[SearchRow]:
    # A value is looked up for each row. For a condition, PostgreSQL would read all of the
    # conversations first, or join the two tables and sort what it has joined.
    this = conversations.filter(pk=OuterRef("conversation")).order_by()
    is_readable = Subquery(this.values(found=Value(True))[:1], output_field=BooleanField())
    return SearchRow.objects.filter(Coalesce(is_readable, Value(False)))


def by_relevance(keys: Sequence[int], query: Query) -> list[int]:
    """The keys of `newest_first`, best first. They are weighed one by one."""
    if connection.vendor == "postgresql":
        text = """
            SELECT id FROM chat_searchrow WHERE id = ANY(%s)
            ORDER BY ts_rank(vector, %s::tsquery, 1) DESC, id DESC
        """
        parameters: list[Any] = [list(keys), _all_of(query)]
    else:
        text = """
            SELECT rowid FROM chat_searchindex
            WHERE chat_searchindex MATCH %s AND +rowid IN (SELECT value FROM json_each(%s))
            ORDER BY bm25(chat_searchindex), rowid DESC
        """
        parameters = [_all_of(query), json.dumps(keys)]
    with connection.cursor() as cursor:
        cursor.execute(text, parameters)
        return [pk for (pk,) in cursor.fetchall()]


def is_slow(query: Query, *, are_few: bool) -> bool:
    """Returns whether rows must be read that the query does not find. PostgreSQL's index has no positions, so
    it compares all rows that have the words of a phrase."""
    is_phrase = any(len(phrase.tokens) > 1 for phrase in query.wanted)
    return connection.vendor == "postgresql" and is_phrase and not are_few


def newest_first(
    rows: QuerySet[SearchRow],
    query: Query,
    *,
    are_few: bool,
    before: datetime | None,
    sorted_rows: int,
    limit: int,
) -> list[int]:
    """The keys of rows, of each text one, newest first. All rows are older than ``before``."""
    if connection.vendor == "postgresql" and not are_few:
        return _newest_of_many(rows, query, before=before, limit=limit)
    if query.wanted and connection.vendor != "postgresql":
        # The same key, but in this order SQLite reads no more of the words than it needs.
        rows = rows.extra(order_by=["-chat_searchindex.rowid"])
    else:
        rows = rows.order_by("-pk")
    # Only the rows stored last are sorted, because the index has them in that order. Imported rows
    # among them may be older.
    return _sorted(rows[:sorted_rows], limit)


def _newest_of_many(
    rows: QuerySet[SearchRow], query: Query, *, before: datetime | None, limit: int
) -> list[int]:
    """Looks further and further back, each time as far as what is missing is to be expected. How far
    depends also on rows that others have; what is returned does not."""
    everything = SearchRow.objects.filter(created_at__lt=before) if before else SearchRow.objects
    newest, oldest = everything.aggregate(Max("created_at"), Min("created_at")).values()
    times = everything.order_by("-created_at").values_list("created_at", flat=True)
    start = times[FIRST_ROWS : FIRST_ROWS + 1].first()
    keys = _sorted(_between(rows, start, before), limit)
    if newest is None or start is None:
        return keys
    most_read = (newest - start) * (MOST_READ_ROWS / FIRST_ROWS)
    for steps_left in reversed(range(MOST_STEPS)):
        if start is None or len(keys) == limit:
            break
        # Half as far again, so that mostly one step is enough.
        ratio = 1.5 * (limit - len(keys)) / max(len(keys), 1)
        further = (newest - start) * max(ratio, 1.0)
        # Thousands of imported rows may have the same time, so ``further`` can be zero.
        is_known = steps_left and timedelta() < further < start - oldest
        end, start = start, start - further if is_known else None
        older = _between(rows, start, end)
        if query.wanted and not (is_known and further <= most_read):
            older = older.extra(**_condition(_all_of(query), None))
        keys += _sorted(older, limit - len(keys))
    return keys


def _between(
    rows: QuerySet[SearchRow], start: datetime | None, end: datetime | None
) -> QuerySet[SearchRow]:
    if start:
        rows = rows.filter(created_at__gte=start)
    return rows.filter(created_at__lt=end) if end else rows


def _sorted(rows: QuerySet[SearchRow], limit: int) -> list[int]:
    try:
        found = rows.values_list("pk", "kind", "source", "created_at")
        text, parameters = found.query.sql_with_params()
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


def _condition(words: str, known: QuerySet[SearchRow] | None) -> dict[str, Any]:
    """The arguments of `QuerySet.extra`. ``known``: all rows that may be found, if they are few."""
    if connection.vendor == "postgresql":
        return {"where": ["chat_searchrow.vector @@ %s::tsquery"], "params": [words]}
    where = ["chat_searchindex.rowid = chat_searchrow.id", "chat_searchindex MATCH %s"]
    parameters: list[Any] = [words]
    if known is not None:
        # With the plus sign, SQLite compares the rows that have the words with these. Without it,
        # it would look up the words again for each of them.
        text, inner = known.values("pk").query.sql_with_params()
        where.append(f"+chat_searchindex.rowid IN ({text})")
        parameters += inner
    return {"tables": ["chat_searchindex"], "where": where, "params": parameters}


def _compared(words: str, outcome: str) -> dict[str, Any]:
    """The arguments of `QuerySet.extra`. In this form PostgreSQL compares each row, without the index of words."""
    where = f"(chat_searchrow.vector @@ %s::tsquery) {outcome}"
    return {"where": [where], "params": [words]}


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
