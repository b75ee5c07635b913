"""Imports of conversations from other products: who imported what, and from which source."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.conversation import Conversation, Message
from chat.models.fork import Fork
from chat.models.jobs import Job
from chat.models.question import Question
from chat.models.run import Run
from chat.models.team import Team


class Import(models.Model):
    """One file that a person imported. It can be undone as a whole."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="imports")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="imports"
    )
    # The job that imports, or undoes, while it is stored. None: imported by a command.
    job = models.OneToOneField(Job, null=True, on_delete=models.SET_NULL, related_name="batch")
    # The name of a format in `chat.imports.formats`.
    format = models.CharField(max_length=40)
    # Conversations: in the file, created, imported before, of these changed since, and not readable.
    found = models.PositiveIntegerField(default=0)
    created = models.PositiveIntegerField(default=0)
    skipped = models.PositiveIntegerField(default=0)
    changed = models.PositiveIntegerField(default=0)
    not_understood = models.PositiveIntegerField(default=0)
    # Bytes that the import has added to the database, as `chat.imports.budget` counts it.
    written_bytes = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)
    finished_at = models.DateTimeField(null=True, blank=True)
    undone_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"import {self.public_id}"


class ImportedSource(models.Model):
    """A conversation of another product that a person has imported into a team. It is not imported
    again, not even if its conversation was deleted; undoing the import removes the row."""

    batch = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="sources")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    format = models.CharField(max_length=40)
    # The product's own id; a digest of the content where it has none.
    source_id = models.CharField(max_length=200)
    # The content's, to see whether it has changed.
    digest = models.CharField(max_length=64)
    conversation = models.ForeignKey(
        Conversation, null=True, on_delete=models.SET_NULL, related_name="imported_from"
    )
    # The newest message that was imported: a later one continues the conversation.
    last_message = models.PositiveBigIntegerField(default=0)
    # Names in the source for which there is no record here: {kind: {name: [keys of records]}}. Kinds
    # are those of `ImportedNames`.
    names = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "team", "format", "source_id"], name="imported_source_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.format} {self.source_id}"


# By kind and key of a record. Kinds: "author" of a message, "answered_by" of a question, "server" and
# "model" (its label) of a run, "room_server" of the conversation, "mockup_server" of a mockup.
ImportedNames: TypeAlias = Mapping[tuple[str, int], str]


def imported_names(conversation_pk: int) -> ImportedNames:
    """The names that the source of an imported conversation, or of a copy of one, has for people and
    servers that have no record here. Empty for every other conversation."""
    imported = ImportedSource.objects.filter(conversation=conversation_pk)
    copied = Fork.objects.filter(conversation=conversation_pk)
    rows = imported.values_list("names", flat=True)
    return {
        (kind, key): name
        for names in rows.union(copied.values_list("names", flat=True), all=True)
        for kind, keys_by_name in names.items()
        for name, keys in keys_by_name.items()
        for key in keys
    }


def name_imported(
    conversation_pk: int,
    *,
    messages: Iterable[Message] = (),
    runs: Iterable[Run] = (),
    names: ImportedNames | None = None,
) -> None:
    """Sets the imported names of records of one conversation that have no author or server. Without
    ``names`` they are read, in one query, if any record lacks one."""
    unnamed = [each for each in messages if each.role == "user" and each.author_id is None]
    without_server = [each for each in runs if each.upstream_id is None]
    if not unnamed and not without_server:
        return
    names = imported_names(conversation_pk) if names is None else names
    for message in unnamed:
        message.imported_author = names.get(("author", message.pk), "")
    for run in without_server:
        run.imported_server = names.get(("server", run.pk), "")
        run.imported_label = names.get(("model", run.pk), "")


def name_answerers(questions: Iterable[Question], names: ImportedNames | None = None) -> None:
    """The same for questions, which may be of several conversations."""
    unnamed = [each for each in questions if not each.is_open and each.answered_by_id is None]
    for room in {each.conversation_id for each in unnamed}:
        found = imported_names(room) if names is None else names
        for question in unnamed:
            if question.conversation_id == room:
                question.imported_answerer = found.get(("answered_by", question.pk), "")
