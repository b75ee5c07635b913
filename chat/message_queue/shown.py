"""The queue of messages as a page shows it."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import F, OuterRef, Subquery

from chat import access
from chat.core.prepared import Prepared
from chat.message_queue.reading import read_queue_of
from chat.models import Conversation, QueuedMessage, Run, User


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """A queued message, and what this reader may do with it."""

    message: QueuedMessage
    may_edit: bool
    may_remove: bool
    may_send: bool

    @property
    def hex(self) -> str:
        return self.message.public_id.hex

    @property
    def file_count(self) -> int:
        return len(self.message.files.all())


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePart:
    """The messages that wait for the same answer, and for what. ``is_halted``: until somebody sends
    or removes the first."""

    sentence: str
    is_halted: bool
    lines: Sequence[QueueLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownQueue:
    """``mark`` changes with everything that is shown."""

    mark: str = ""
    parts: Sequence[QueuePart] = ()


def read_shown_queue(user: User, conversation: Conversation, *, may_write: bool) -> ShownQueue:
    # Read before the messages, so that a page with this mark never lacks a change that it stands for.
    mark = mark_for(read_marks().get(conversation.public_id, ""), may_write=may_write)
    parts = [
        QueuePart(
            sentence=waiting.state.sentence,
            is_halted=waiting.state.is_halted,
            lines=[_line(user, conversation, each, may_write) for each in waiting.messages],
        )
        for waiting in read_queue_of(conversation)
    ]
    return ShownQueue(mark=mark, parts=parts)


def _line(
    user: User, conversation: Conversation, message: QueuedMessage, may_write: bool
) -> QueueLine:
    author_pk = message.author_id
    return QueueLine(
        message=message,
        may_edit=may_write and author_pk == user.pk,
        may_remove=may_write and access.may_remove(user, conversation, author_pk=author_pk),
        may_send=may_write and not message.is_urgent,
    )


def mark_for(mark: str, *, may_write: bool) -> str:
    """The mark of what a reader with this right is shown. Empty without a queue."""
    return f"{mark}{'w' if may_write else 'r'}" if mark else ""


def read_marks() -> Mapping[UUID, str]:
    """The marks of all conversations with queued messages, in one statement. There are few."""
    facts: defaultdict[UUID, list[str]] = defaultdict(list)
    for room, *about in _about_queued.all():
        facts[room].append(" ".join(map(str, about)))
    return {room: f"{zlib.crc32(chr(10).join(some).encode()):08x}" for room, some in facts.items()}


def _last_runs() -> Any:
    return Run.objects.filter(message=OuterRef("after")).order_by("-position")


_about_queued: Prepared[Any] = Prepared(
    lambda: (
        QueuedMessage.objects.annotate(
            room=F("conversation__public_id"),
            status=Subquery(_last_runs().values("status")[:1]),
        )
        .order_by("pk")
        .values_list("room", "pk", "version", "after_id", "status")
    )
)
