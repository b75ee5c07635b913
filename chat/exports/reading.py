"""Reads a conversation for an export: all positions first, then its turns a few at a time, so that the
length of a conversation costs no memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from django.db.models import F, Prefetch, Q, QuerySet

from chat import access
from chat.conversations.transcript import read_path
from chat.models import (
    Attachment,
    Conversation,
    ImportedNames,
    Message,
    Question,
    Run,
    RunInstructions,
    User,
)
from chat.models.imports import imported_names, name_answerers, name_imported
from chat.models.tree import Position, tree_order

# Turns in memory at a time. Logs are read run by run.
BATCH_TURNS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A conversation as ``reader`` sees it: ``visible`` are the turns of their branch, ``order`` those
    of all branches, each to its end before the next one. ``names`` are those of an imported
    conversation; ``projects`` the keys of the projects that it has been in and that they read."""

    conversation: Conversation
    reader: User
    visible: Sequence[Position]
    order: Sequence[Position]
    names: ImportedNames
    projects: frozenset[int]

    @property
    def visible_keys(self) -> frozenset[int]:
        return frozenset(position.pk for position in self.visible)

    def reads(self, project_pk: int | None) -> bool:
        return project_pk in self.projects


def exportable(conversations: QuerySet[Conversation]) -> QuerySet[Conversation]:
    """Those that exports of many contain: none in the trash, and none that is temporary."""
    return conversations.filter(deleted_at__isnull=True, expires_at__isnull=True)


def read_source(reader: User, conversation: Conversation) -> Source:
    path = read_path(reader, conversation)
    visible = [
        Position(
            pk=place.message.pk,
            number=number,
            parent_number=number - 1 or None,
            sibling_number=place.number,
            sibling_count=place.count,
        )
        for number, place in enumerate(path.places, start=1)
    ]
    return Source(
        conversation=conversation,
        reader=reader,
        visible=visible,
        order=tree_order(path.messages.values()),
        names=imported_names(conversation.pk),
        projects=_projects_of(reader, conversation),
    )


def _projects_of(reader: User, conversation: Conversation) -> frozenset[int]:
    sent = RunInstructions.objects.filter(run__conversation=conversation)
    of_conversation = Q(pk=conversation.project_id) | Q(pk__in=sent.values("project"))
    return frozenset(
        access.visible_projects(reader).filter(of_conversation).values_list("pk", flat=True)
    )


def read_turns(source: Source, keys: Sequence[int]) -> Iterator[Message]:
    """The messages with these keys, in this order, with everything that belongs to them but logs and
    the bytes of files."""
    for start in range(0, len(keys), BATCH_TURNS):
        batch = keys[start : start + BATCH_TURNS]
        found = _turns().in_bulk(batch)
        _name(source, found.values())
        yield from (found[key] for key in batch if key in found)


def _name(source: Source, messages: Collection[Message]) -> None:
    if source.names:
        runs = [run for message in messages for run in message.runs.all()]
        questions = [question for run in runs for question in run.questions.all()]
        name_imported(source.conversation.pk, messages=messages, runs=runs, names=source.names)
        name_answerers(questions, source.names)


def _turns() -> QuerySet[Message]:
    questions = Question.objects.select_related("claimed_by", "answered_by")
    runs = Run.objects.select_related(
        "upstream", "requested_by", "stop_requested_by", "project_instructions"
    )
    turns = Message.objects.select_related("author").annotate(of_parent=F("parent__public_id"))
    return turns.prefetch_related(
        Prefetch("attachments", Attachment.objects.prefetch_related("file")),
        Prefetch(
            "runs",
            runs.order_by("position").prefetch_related(
                "attempts",
                Prefetch("questions", questions.order_by("position", "pk")),
                "files__file",
            ),
        ),
    )
