"""Writes, edits, deletes, resolves and reopens comments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from chat.core import notify
from chat.core.errors import ActionRefused, InvalidForm, KeyReused, storage_errors
from chat.core.rate_limits import is_within_limit
from chat.mentions.records import mentioned_in
from chat.models import Comment, CommentNotice, Conversation, Message, Role, Run, User

# Characters.
TEXT_LIMIT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The subject of a comment, in the columns of `Comment` with these names. Without a quotation, it is the whole
    turn."""

    part: str = ""
    quote: str = ""
    prefix: str = ""
    suffix: str = ""
    start: int = 0


WHOLE_TURN = Passage()


def begin_thread(
    user: User, message: Message, *, text: str, key: UUID, passage: Passage = WHOLE_TURN
) -> Comment:
    """A comment on a turn, or on a passage of it. The same key is stored once. Raises ``ActionRefused``."""
    about = passage if passage.quote else WHOLE_TURN
    return _add(
        user,
        Comment(
            conversation=message.conversation,
            message=message,
            part=about.part,
            quote=about.quote,
            prefix=about.prefix,
            suffix=about.suffix,
            start=about.start,
            text=text,
            idempotency_key=key,
        ),
    )


def reply(user: User, comment: Comment, *, text: str, key: UUID) -> Comment:
    """A reply in the thread of a comment. It reopens the thread, because a reply needs attention. Raises
    ``ActionRefused``."""
    return _add(
        user,
        Comment(
            conversation=comment.conversation,
            message=comment.message,
            thread=comment.first,
            text=text,
            idempotency_key=key,
        ),
    )


def _add(user: User, comment: Comment) -> Comment:
    _check_text(comment.text)
    if not is_within_limit("comments", user.pk, settings.COMMENTS_PER_MINUTE):
        raise ActionRefused(gettext("Too many comments in a short time. Try again in a minute."))
    comment.author = user
    conversation = comment.conversation
    with storage_errors(), transaction.atomic():
        # The row stays locked, so that the number below is right.
        _note_change(conversation)
        known = Comment.objects.filter(author=user, idempotency_key=comment.idempotency_key).first()
        if known is not None:
            if known.text != comment.text:
                raise KeyReused(gettext("An earlier version of this comment was already saved."))
            return known
        _check_room(conversation)
        thread = comment.thread
        if thread is not None and not _open_again(thread):
            raise ActionRefused(_gone())
        comment.save(force_insert=True)
        _tell(user, comment, [*_people_concerned(comment), *_mentioned(user, comment)])
    return comment


def edit(comment: Comment, text: str) -> None:
    """Replaces the text; people whom it mentions now are told. Raises ``ActionRefused``."""
    _check_text(text)
    rows = Comment.objects.filter(pk=comment.pk).exclude(text="")
    with storage_errors(), transaction.atomic():
        _note_change(comment.conversation)
        if not rows.update(text=text, edited_at=timezone.now()):
            raise ActionRefused(_gone())
        comment.text = text
        if comment.author is not None:
            _tell(comment.author, comment, _mentioned(comment.author, comment))


def delete(comment: Comment) -> None:
    """Deletes a comment. One with replies keeps its place, without its text; the thread goes with the last
    of its comments."""
    with storage_errors(), transaction.atomic():
        _note_change(comment.conversation)
        if Comment.objects.filter(thread=comment.pk).exists():
            Comment.objects.filter(pk=comment.pk).update(text="", edited_at=None)
            return
        Comment.objects.filter(pk=comment.pk).delete()
        if comment.thread_id is not None:
            emptied = Comment.objects.filter(pk=comment.thread_id, text="")
            emptied.filter(replies__isnull=True).delete()


def resolve(user: User, thread: Comment) -> None:
    """Marks a thread as done."""
    rows = Comment.objects.filter(pk=thread.pk, resolved_at__isnull=True)
    with storage_errors(), transaction.atomic():
        _note_change(thread.conversation)
        rows.update(resolved_at=timezone.now(), resolved_by=user)


def reopen(thread: Comment) -> None:
    """Takes a thread back to the open ones."""
    with storage_errors(), transaction.atomic():
        _note_change(thread.conversation)
        _open_again(thread)


def _tell(author: User, comment: Comment, people: Iterable[int]) -> None:
    """Puts the comment into the inboxes of these people, of each once."""
    CommentNotice.objects.bulk_create(
        (
            CommentNotice(comment=comment, person_id=person)
            for person in sorted(set(people) - {author.pk})
        ),
        ignore_conflicts=True,
    )


def _people_concerned(comment: Comment) -> Iterable[int]:
    """The author of the turn (of an answer, the person who asked), and the earlier authors of the thread."""
    thread = comment.thread_id
    concerned = [_author_of_turn(comment.message)]
    if thread is not None:
        earlier = Comment.objects.filter(Q(pk=thread) | Q(thread=thread))
        concerned += earlier.values_list("author", flat=True)
    return [person for person in concerned if person is not None]


def _mentioned(author: User, comment: Comment) -> Iterable[int]:
    return [each.person for each in mentioned_in(comment.text, author, comment.conversation)]


def _author_of_turn(message: Message) -> int | None:
    if message.role == Role.USER:
        return message.author_id
    asked = Run.objects.filter(message=message).order_by("position")
    return asked.values_list("requested_by", flat=True).first()


def _note_change(conversation: Conversation) -> None:
    """Comments are no news of the conversation: its revision, its time and its place in lists stay."""
    rows = Conversation.objects.filter(pk=conversation.pk)
    if not rows.update(comments_version=F("comments_version") + 1):
        raise ActionRefused(gettext("This conversation was deleted."))
    notify.publish_after_commit(notify.room_topic(conversation.public_id))


def _open_again(thread: Comment) -> bool:
    """Reopens the thread. False if it was deleted."""
    rows = Comment.objects.filter(pk=thread.pk)
    return bool(rows.update(resolved_at=None, resolved_by=None))


def _check_text(text: str) -> None:
    if not text.strip():
        raise InvalidForm(gettext("Enter a comment."))


def _check_room(conversation: Conversation) -> None:
    most = settings.COMMENTS_PER_CONVERSATION
    if Comment.objects.filter(conversation=conversation).count() >= most:
        text = ngettext(
            "This conversation can have only %(count)d comment.",
            "This conversation already has %(count)d comments. Delete some to add more.",
            most,
        )
        raise ActionRefused(text % {"count": most})


def _gone() -> str:
    return gettext("This comment was deleted in the meantime.")
