"""The index of full-text search: one row for each text that a person may search for."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.translation import gettext_lazy

from chat.models.conversation import Conversation, Message
from chat.models.upstream import Upstream


class SearchKind(models.TextChoices):
    TITLE = "title", gettext_lazy("Title")
    MESSAGE = "message", gettext_lazy("Message")
    ANSWER = "answer", gettext_lazy("Answer")
    REASONING = "reasoning", gettext_lazy("Reasoning")
    ARTIFACT = "artifact", gettext_lazy("Artifact")
    FILE = "file", gettext_lazy("File")
    QUESTION = "question", gettext_lazy("Question")


class TokenVector(models.TextField):  # type: ignore[type-arg]  # TextField takes none when it runs
    """The words of a row on PostgreSQL, as `chat.search.index` writes them; null on SQLite, where
    they are in a table of their own."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "tsvector" if connection.vendor == "postgresql" else "text"


class SearchRowManager(models.Manager["SearchRow"]):
    """Nobody reads the words."""

    def get_queryset(self) -> models.QuerySet[SearchRow]:
        return super().get_queryset().defer("vector")


class SearchRow(models.Model):
    """A searchable text, or a part of a long one. The text itself stays with its record; the
    database's full-text index (`chat.search.index`) knows its words under this row's key.

    Keys are never used again, so what the index keeps of deleted rows is never found.
    """

    kind = models.CharField(max_length=10, choices=SearchKind.choices)
    # The key of the record that has the text, in the table of its kind: of a conversation, message,
    # run, artifact version, stored file or question.
    source = models.PositiveBigIntegerField()
    part = models.PositiveSmallIntegerField(default=0)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="search_rows"
    )
    # The turn to which a hit leads. A title has none.
    message = models.ForeignKey(
        Message, null=True, on_delete=models.CASCADE, related_name="search_rows"
    )
    # These have no indexes of their own: people are rarely deleted, rows often written.
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="+",
    )
    upstream = models.ForeignKey(
        Upstream, null=True, on_delete=models.SET_NULL, db_index=False, related_name="+"
    )
    model = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField()
    vector = TokenVector(null=True)

    objects = SearchRowManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "source", "part"], name="search_row_unique")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.source}"
