"""Puts a message into the queue, edits and removes it, or has it sent at once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import F, OuterRef
from django.utils.translation import gettext, ngettext

from chat.conversations.actions.conversation import stop_run
from chat.conversations.actions.messages import ModelChoice, check_text
from chat.conversations.comparisons import choose_first, is_undecided
from chat.conversations.page import SAID_OTHERWISE
from chat.core import notify
from chat.core.errors import ActionRefused, KeyReused, QueueFull, storage_errors
from chat.files.actions import AttachedFile, keep, written
from chat.message_queue.reading import end_below, is_on_hold
from chat.message_queue.sending import send_due_in
from chat.models import (
    ChangeKind,
    Conversation,
    ConversationChange,
    Message,
    QueuedFile,
    QueuedMessage,
    Run,
    StoredFile,
    User,
)
from chat.runs.tool_calls import is_live_run

logger = logging.getLogger(__name__)

# This topic tells the runners that messages are queued.
MESSAGES = "messages"
# Messages that may be queued in one conversation.
MOST_QUEUED = 50


def enqueue(
    user: User,
    conversation: Conversation,
    *,
    parent: Message,
    text: str,
    choice: ModelChoice,
    idempotency_key: UUID,
    attachments: Sequence[AttachedFile] = (),
) -> None:
    """Queues a message behind everything that has been sent below ``parent``. Where the queue is on hold,
    it is sent at once, and the others wait for its answer.

    The same key is stored once, also if its message has been sent meanwhile. Raises
    ``ActionRefused``, and ``KeyReused`` if the key's message has another text.
    """
    check_text(text)
    with storage_errors(), written(attachments) as stored, transaction.atomic():
        # Raises the conversation's revision, and locks its row: others who send or queue now wait here.
        conversation.touch()
        if _is_known(user, idempotency_key, text):
            return
        _check_room(conversation)
        end = end_below(parent)
        if Message.objects.filter(is_undecided(OuterRef("pk")), pk=end.pk).exists():
            raise ActionRefused(choose_first())
        queued = QueuedMessage.objects.create(
            conversation=conversation,
            author=user,
            after=end,
            is_urgent=is_on_hold(end),
            # PostgreSQL does not store NUL.
            text=text.replace("\x00", "\u2400"),
            upstream=choice.upstream,
            model=choice.model,
            parameters=dict(choice.parameters),
            system_prompt=choice.system_prompt,
            preset_version=choice.preset,
            keeps_preset=choice.keeps_preset,
            idempotency_key=idempotency_key,
        )
        files = keep(conversation, user, stored)
        QueuedFile.objects.bulk_create(
            QueuedFile(
                queued=queued, file=each.file, pages=each.pages, use=each.use, position=position
            )
            for position, each in enumerate(files)
        )
        _tell(conversation)
    _send_due(conversation)


def edit(queued: QueuedMessage, text: str) -> None:
    """Replaces the text. One that was refused is tried again. Raises ``ActionRefused``."""
    check_text(text)
    rows = QueuedMessage.objects.filter(pk=queued.pk)
    with storage_errors(), transaction.atomic():
        changed = rows.update(
            text=text.replace("\x00", "\u2400"), refusal="", version=F("version") + 1
        )
        if not changed:
            raise ActionRefused(_gone())
        _tell(queued.conversation)
    _send_due(queued.conversation)


def remove(user: User, queued: QueuedMessage) -> None:
    """Removes the message with its files. Raises ``ActionRefused``."""
    with storage_errors(), transaction.atomic():
        _sign(user, queued, ChangeKind.QUEUED_REMOVED)
        row = QueuedMessage.objects.select_for_update().filter(pk=queued.pk).first()
        if row is None:
            raise ActionRefused(_gone())
        new = StoredFile.objects.filter(queued__queued=row, conversation=row.conversation_id)
        keys = list(new.values_list("pk", flat=True))
        row.delete()
        StoredFile.objects.filter(pk__in=keys).delete()
        _tell(queued.conversation)
    _send_due(queued.conversation)


def send_now(user: User, queued: QueuedMessage) -> None:
    """Has the message sent before the others, and at once: a live answer before it is stopped. Raises
    ``ActionRefused``."""
    rows = QueuedMessage.objects.filter(pk=queued.pk)
    with storage_errors(), transaction.atomic():
        _sign(user, queued, ChangeKind.QUEUED_SENT)
        if not rows.update(is_urgent=True, refusal="", version=F("version") + 1):
            raise ActionRefused(_gone())
        _tell(queued.conversation)
    # The stop has a transaction of its own: the end of a run locks the run before the conversation, and
    # the task that sends from the queue locks the conversation before the queued message.
    after = rows.values_list("after", flat=True).first()
    live = Run.objects.filter(is_live_run(), message=after)
    if after is not None and (run := live.select_related("conversation").first()):
        stop_run(user, run)
    _send_due(queued.conversation)


def _sign(user: User, queued: QueuedMessage, kind: ChangeKind) -> None:
    """Adds the line about somebody else's message. Call it first: it locks the conversation, and actions that send
    from the queue lock the conversation before the message, too."""
    if queued.author_id != user.pk:
        queued.conversation.touch_quietly()
        ConversationChange.objects.record(user, queued.conversation, kind, person=queued.author)


def _send_due(conversation: Conversation) -> None:
    """Sends at once what waits for no answer. What fails here is left to the runners."""
    try:
        # One round may only find the answer to wait for.
        while send_due_in([conversation.pk]):
            pass
    except (DatabaseError, InterfaceError, ActionRefused) as error:
        logger.warning("queued_message.left error=%s", type(error).__name__)


def _tell(conversation: Conversation) -> None:
    notify.publish_after_commit(MESSAGES)
    notify.publish_after_commit(notify.room_topic(conversation.public_id))


def _gone() -> str:
    return gettext("This message was sent or removed in the meantime.")


def _is_known(user: User, key: UUID, text: str) -> bool:
    """Returns whether a message with this key is queued, or has been sent. Raises ``KeyReused``."""
    queued = QueuedMessage.objects.filter(author=user, idempotency_key=key)
    sent = Run.objects.filter(requested_by=user, idempotency_key=key)
    known = queued.values_list("text", flat=True).first()
    if known is None:
        known = sent.values_list("message__parent__text", flat=True).first()
    if known is not None and known != text:
        raise KeyReused(SAID_OTHERWISE)
    return known is not None


def _check_room(conversation: Conversation) -> None:
    if QueuedMessage.objects.filter(conversation=conversation).count() >= MOST_QUEUED:
        text = ngettext(
            "Only %(count)d message can be queued. Wait until it is sent, or remove it.",
            "Only %(count)d messages can be queued. Wait until one is sent, or remove one.",
            MOST_QUEUED,
        )
        raise QueueFull(text % {"count": MOST_QUEUED})
