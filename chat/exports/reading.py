"""Reads a conversation for an export: all positions first, then its turns in small batches, so that
memory doesn't grow with the conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import F, Prefetch, Q, QuerySet

from chat import access
from chat.conversations.change_lines import ChangeLine, lines_below
from chat.conversations.paths import read_path
from chat.models import (
    Attachment,
    ContextStart,
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
from chat.questions.card_reading import with_calls

# Turns in memory at once. Logs are read run by run.
BATCH_TURNS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A conversation as ``reader`` sees it: ``visible`` are the turns of their branch, ``order`` those
    of all branches, each to its end before the next one. ``names`` are those of an imported
    conversation; ``projects`` the keys of the projects that it has been in and that they read.
    ``with_settings``: they may see the system prompts, parameters and tools."""

    conversation: Conversation
    reader: User
    visible: Sequence[Position]
    order: Sequence[Position]
    names: ImportedNames
    projects: frozenset[int]
    with_settings: bool
    # The order of the choices what is sent, by the key of the message.
    starts: Mapping[int, int] = field(default_factory=dict)

    @property
    def visible_keys(self) -> frozenset[int]:
        return frozenset(position.pk for position in self.visible)

    def lines_below(self, positions: Sequence[Position]) -> Mapping[int, Sequence[ChangeLine]]:
        """The lines about changes below these turns, by the key of the turn."""
        context = self.conversation.context
        for_guest = context is not None and context.is_guest
        keys = [position.pk for position in positions]
        return lines_below(keys, self.conversation, for_guest=for_guest)

    def reads(self, project_pk: int | None) -> bool:
        return project_pk in self.projects


def exportable(conversations: QuerySet[Conversation]) -> QuerySet[Conversation]:
    """The conversations that exports of many contain: none in the trash, and none that is
    temporary."""
    return conversations.filter(deleted_at__isnull=True, expires_at__isnull=True)


def read_source(reader: User, conversation: Conversation, *, is_complete: bool = False) -> Source:
    """``is_complete``: an export of an administrator, with everything that is stored."""
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
        with_settings=is_complete or access.may_see_settings(reader, conversation),
        starts=_starts_in(conversation),
    )


def _starts_in(conversation: Conversation) -> Mapping[int, int]:
    rows = ContextStart.objects.filter(message__conversation=conversation).order_by("pk")
    return {key: number for number, key in enumerate(rows.values_list("message", flat=True))}


def _projects_of(reader: User, conversation: Conversation) -> frozenset[int]:
    sent = RunInstructions.objects.filter(run__conversation=conversation)
    of_conversation = Q(pk=conversation.project_id) | Q(pk__in=sent.values("project"))
    return frozenset(
        access.visible_projects(reader).filter(of_conversation).values_list("pk", flat=True)
    )


def read_turns(source: Source, keys: Sequence[int]) -> Iterator[Message]:
    """The messages with these keys, in this order, with all related records but logs and the bytes
    of files."""
    for start in range(0, len(keys), BATCH_TURNS):
        batch = keys[start : start + BATCH_TURNS]
        yield from read_messages(source.conversation, batch, source.names)


def read_messages(
    conversation: Conversation, keys: Sequence[int], names: ImportedNames | None = None
) -> list[Message]:
    """The same for a few messages at once, in a fixed number of queries."""
    found = _turns().in_bulk(keys)
    messages = [found[key] for key in keys if key in found]
    runs = [run for message in messages for run in message.runs.all()]
    questions = [question for run in runs for question in run.questions.all()]
    name_imported(conversation.pk, messages=messages, runs=runs, names=names)
    name_answerers(questions, names)
    return messages


def _turns() -> QuerySet[Message]:
    questions = with_calls(Question.objects.select_related("claimed_by", "answered_by"))
    runs = Run.objects.select_related(
        *("upstream", "requested_by", "stop_requested_by", "runner", "project_instructions")
    )
    turns = Message.objects.select_related(
        "author", "context_start__person", "compared__comparison"
    ).annotate(of_parent=F("parent__public_id"))
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
