"""Files and other data beside a conversation's text, counted and found with a few queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django.db.models import Count, QuerySet, Value

from chat.core.prepared import Prepared
from chat.models.artifact import Artifact, Mockup
from chat.models.conversation import Conversation
from chat.models.file import AnswerFile, Attachment

Result = TypeVar("Result")


def files_by_answer(conversation: Conversation) -> Mapping[int, int]:
    """The number of files by the key of the answer's message, in one query. Answers without files
    are left out."""
    rows = AnswerFile.objects.filter(run__conversation=conversation).order_by()
    return dict(rows.values_list("run__message_id").annotate(count=Count("pk")))


def count_files(conversation: Conversation) -> int:
    """How many objects the conversation's page of files shows, in one query. An edited message
    keeps its files, and they count once."""
    return sum(_counts.all(room=conversation.pk))


def _count(rows: QuerySet[Any], of: str) -> QuerySet[Any]:
    everything = rows.order_by().annotate(one=Value(1)).values("one")
    return everything.annotate(count=Count(of, distinct=True)).values_list("count")


_counts: Prepared[Any] = Prepared(
    lambda room: _count(Artifact.objects.filter(conversation=room), "pk").union(
        _count(Mockup.objects.filter(conversation=room), "pk"),
        _count(AnswerFile.objects.filter(run__conversation=room), "pk"),
        _count(Attachment.objects.filter(message__conversation=room), "file"),
        all=True,
    )
)


def has_no_files(conversation: Conversation) -> None:
    """Remembers, for the messages that this object is shown with, that `count_files` would find
    nothing."""
    vars(conversation)[f"_{count_files.__name__}"] = 0


def once(conversation: Conversation, read: Callable[[Conversation], Result]) -> Result:
    """The result of ``read``, cached on this object, which lives as long as the request."""
    known = vars(conversation)
    name = f"_{read.__name__}"
    if name not in known:
        known[name] = read(conversation)
    value: Result = known[name]
    return value
