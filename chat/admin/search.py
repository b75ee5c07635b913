"""Search through the history: people, titles, and the words of turns and answers."""

from __future__ import annotations

from django.db.models import Exists, F, Func, OuterRef, Q, QuerySet, TextField
from django.db.models.sql.compiler import SQLCompiler

from chat.models import Conversation, Message, Run

# Each word costs a scan of what the filters leave.
WORD_LIMIT = 8


class AnswerText(Func):
    """The words of a stored result: the contents of its output items, without the JSON around.

    Searching the JSON itself would find its own member names ("stats", "content") everywhere.
    """

    output_field = TextField()
    arity = 1

    def as_sqlite(self, compiler: SQLCompiler, connection: object, **extra: object) -> tuple:
        return self.as_sql(
            compiler,
            connection,
            template="(SELECT group_concat(json_extract(item.value, '$.content'), ' ') FROM"
            " json_each(CASE WHEN json_valid(%(expressions)s) THEN %(expressions)s ELSE '{}' END,"
            " '$.output') AS item)",
            **extra,
        )

    def as_postgresql(self, compiler: SQLCompiler, connection: object, **extra: object) -> tuple:
        # A row with an escaped NUL cannot be taken apart there; it is searched as it is. That the
        # text is JSON cannot be asked before version 16: nothing but our encoder writes it.
        return self.as_sql(
            compiler,
            connection,
            template="(CASE WHEN %(expressions)s = '' OR position('\\u0000' in %(expressions)s) > 0"
            " THEN %(expressions)s"
            " WHEN json_typeof((%(expressions)s)::json -> 'output') = 'array'"
            " THEN (SELECT string_agg(item ->> 'content', ' ')"
            " FROM json_array_elements((%(expressions)s)::json -> 'output') AS item) END)",
            **extra,
        )


def search(rows: QuerySet[Conversation], text: str) -> QuerySet[Conversation]:
    """The conversations in which every word occurs somewhere."""
    for word in text.split()[:WORD_LIMIT]:
        rows = rows.filter(_has(word))
    return rows


def _has(word: str) -> Q:
    turns = Message.objects.filter(conversation=OuterRef("pk"))
    written = turns.filter(
        Q(text__icontains=word) | Q(author__name__icontains=word) | Q(author__email__icontains=word)
    )
    answered = (
        Run.objects.filter(conversation=OuterRef("pk"))
        .annotate(words=AnswerText(F("result")))
        .filter(words__icontains=word)
    )
    return (
        Q(title__icontains=word)
        | Q(owner__name__icontains=word)
        | Q(owner__email__icontains=word)
        | Exists(written)
        | Exists(answered)
    )
