"""The comments of a conversation as threads, in the order of its turns: for the panel, and for the marks beside the
text."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from uuid import UUID

from django.urls import reverse
from django.utils.html import urlize
from django.utils.safestring import SafeString

from chat import access
from chat.models import Comment, Conversation, User

_IN_NEW_TAB = 'target="_blank" rel="noopener noreferrer nofollow"'


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownComment:
    """A comment, and what this reader may do with it."""

    comment: Comment
    may_edit: bool = False
    may_delete: bool = False

    @property
    def hex(self) -> str:
        return self.comment.public_id.hex

    @property
    def html(self) -> SafeString:
        """The text with its addresses as links, which open a page of their own as those of answers do."""
        # Escaped by ``urlize``, a text has no quotation marks: these are all in its links.
        linked = urlize(self.comment.text, nofollow=True, autoescape=True)
        return SafeString(linked.replace('rel="nofollow"', _IN_NEW_TAB))


@dataclass(frozen=True, kw_only=True)
class Thread:
    """A comment and its replies."""

    first: ShownComment
    replies: Sequence[ShownComment]
    may_resolve: bool = False
    # The key of the form of a reply.
    key: UUID = field(default_factory=uuid.uuid4)

    @property
    def comments(self) -> list[ShownComment]:
        return [self.first, *self.replies]

    @property
    def row(self) -> Comment:
        return self.first.comment

    @property
    def hex(self) -> str:
        return self.first.hex

    @property
    def turn(self) -> str:
        return self.row.message.public_id.hex

    @property
    def is_resolved(self) -> bool:
        return self.row.resolved_at is not None

    @property
    def address(self) -> str:
        """The address to share: it opens the conversation at the turn, and the thread beside it."""
        return f"{reverse('message_find', args=[self.row.message.public_id])}#comment-{self.hex}"

    @cached_property
    def mark(self) -> str:
        """Changes with everything that the thread shows."""
        times = [self.row.resolved_at, *(each.comment.edited_at for each in self.comments)]
        latest = max((time.timestamp() for time in times if time is not None), default=0)
        gone = sum(each.comment.is_deleted for each in self.comments)
        rights = sum(2 * each.may_delete + each.may_edit for each in self.comments)
        keys = [each.comment.pk for each in self.comments]
        return f"{latest:.3f}-{max(keys)}-{len(keys)}-{gone}-{rights}-{self.may_resolve:d}{self.is_resolved:d}"


def read_threads(user: User, conversation: Conversation) -> list[Thread]:
    """All threads of a conversation that this user may read."""
    is_writer = access.may_write(user, conversation)
    is_manager = access.may_manage(user, conversation)

    def shown(comment: Comment) -> ShownComment:
        is_own = comment.author_id == user.pk
        return ShownComment(
            comment=comment,
            may_edit=is_own and not comment.is_deleted,
            may_delete=(is_own or is_manager) and not comment.is_deleted,
        )

    return [
        Thread(
            first=shown(first),
            replies=[shown(reply) for reply in replies],
            may_resolve=is_writer or first.author_id == user.pk,
        )
        for first, replies in _rows_by_thread(conversation)
    ]


def _rows_by_thread(conversation: Conversation) -> Iterable[tuple[Comment, Sequence[Comment]]]:
    """In the order of the turns, and of the passages within them."""
    rows = Comment.objects.filter(conversation=conversation).select_related(
        "author", "message", "resolved_by"
    )
    begun: list[Comment] = []
    replies: defaultdict[int, list[Comment]] = defaultdict(list)
    for row in rows.order_by("pk"):
        if row.thread_id is None:
            begun.append(row)
        else:
            replies[row.thread_id].append(row)
    begun.sort(key=lambda row: (row.message_id, bool(row.quote), row.start, row.pk))
    return [(row, replies[row.pk]) for row in begun]


# --- marks of open pages --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The comments that a page marks, as it gets them. They are the same for everybody who reads the conversation."""

    version: int
    threads: Sequence[Mapping[str, object]]


def read_versions(rooms: Collection[UUID]) -> dict[UUID, int]:
    """How often the comments of these conversations have changed, with one statement."""
    versions = dict.fromkeys(rooms, 0)
    commented = Conversation.objects.filter(public_id__in=set(rooms), comments_version__gt=0)
    versions.update(commented.values_list("public_id", "comments_version"))
    return versions


def read_marks(room: UUID) -> Marks | None:
    # Read before the comments, so that a page with this version never lacks a change that it stands for.
    conversation = Conversation.objects.filter(public_id=room).first()
    if conversation is None:
        return None
    threads = [_mark_of(first, replies) for first, replies in _rows_by_thread(conversation)]
    return Marks(version=conversation.comments_version, threads=threads)


def _mark_of(first: Comment, replies: Sequence[Comment]) -> Mapping[str, object]:
    return {
        "id": first.public_id.hex,
        "turn": first.message.public_id.hex,
        "part": first.part,
        "quote": first.quote,
        "prefix": first.prefix,
        "suffix": first.suffix,
        "start": first.start,
        "isResolved": first.resolved_at is not None,
        "comments": [
            {
                "id": each.public_id.hex,
                "by": each.author_name,
                "person": each.author.public_id.hex if each.author else "",
            }
            for each in (first, *replies)
            if not each.is_deleted
        ],
    }
