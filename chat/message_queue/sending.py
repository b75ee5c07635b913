"""Sends queued messages when the answer before them has ended."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.http import Http404
from django.utils.translation import gettext_lazy

from chat import access
from chat.access import rule
from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.messages import ModelChoice
from chat.conversations.choice_form import MODEL_GONE, SERVER_GONE
from chat.core import notify
from chat.core.errors import ActionRefused, StorageBusy, StorageFull, is_database_unavailable
from chat.message_queue.reading import WaitingMessages, end_below, with_states
from chat.message_queue.states import HALTING, QueueState
from chat.models import Conversation, Message, QueuedMessage, Run, RunStatus
from chat.models.run import LIVE_STATUSES

logger = logging.getLogger(__name__)

LEFT = gettext_lazy("The author no longer has write access to this conversation.")


def has_queued() -> bool:
    return QueuedMessage.objects.exists()


def read_due() -> Sequence[int]:
    """The conversations in which a message may be due."""
    return list(_due().values_list("conversation", flat=True).distinct())


def _due() -> QuerySet[QueuedMessage]:
    """The first messages whose answer has ended so that they are sent, or was followed or replaced.
    Nothing is sent into the trash: what is due there waits for the conversation's return."""
    present = Conversation.objects.filter(rule.HAS_NOT_EXPIRED, deleted_at__isnull=True)
    earlier = QueuedMessage.objects.filter(after=OuterRef("after")).filter(
        Q(is_urgent__gt=OuterRef("is_urgent"))
        | Q(is_urgent=OuterRef("is_urgent"), pk__lt=OuterRef("pk"))
    )
    runs = Run.objects.filter(message=OuterRef("after")).order_by("-position")
    followed = Message.objects.filter(parent=OuterRef("after"))
    # Answers that were compared with it are no attempts in its place.
    replaced = Message.objects.filter(
        parent=OuterRef("after__parent"), pk__gt=OuterRef("after"), compared=None
    )
    has_ended = Q(status__isnull=True) | Q(status__in=[RunStatus.COMPLETED, RunStatus.INCOMPLETE])
    return (
        QueuedMessage.objects.annotate(status=Subquery(runs.values("status")[:1]))
        .filter(~Exists(earlier), Exists(present.filter(pk=OuterRef("conversation"))), refusal="")
        .filter(
            has_ended
            | (Q(is_urgent=True) & ~Q(status__in=LIVE_STATUSES))
            | Exists(followed)
            | (Q(status__in=list(HALTING)) & Exists(replaced))
        )
        .order_by()
    )


def advance(conversation_pk: int) -> bool:
    """Sends what is due in a conversation, in one transaction: the message becomes a turn, its row goes,
    and the rows behind it wait for its answer. Returns whether anything has changed."""
    with transaction.atomic():
        # All who send, queue or advance here at the same time wait.
        rooms = Conversation.objects.select_for_update(no_key=True)
        room = rooms.filter(pk=conversation_pk, deleted_at__isnull=True).first()
        if room is None:
            return False
        # An edit either comes before this, or is told that the message was sent.
        rows = QueuedMessage.objects.select_for_update(of=("self",)).filter(conversation=room)
        waiting = with_states(rows.select_related("author", "upstream", "after"))
        changes = [_advance(room, each) for each in waiting]
        return any(changes)


def _advance(room: Conversation, waiting: WaitingMessages) -> bool:
    end = _end_of(waiting)
    if end.pk != waiting.first.after_id:
        _wait_for(end, waiting.messages)
    elif waiting.state == QueueState.READY:
        _send(room, waiting)
    else:
        return False
    notify.publish_after_commit(notify.room_topic(room.public_id))
    return True


def _end_of(waiting: WaitingMessages) -> Message:
    """The answer that the messages wait for. If it has failed or was stopped, another attempt takes its
    place; and a program may have sent a message below it."""
    after = waiting.first.after
    if waiting.state in HALTING.values():
        versions = Message.objects.filter(Q(compared=None) | Q(pk=after.pk))
        after = versions.filter(parent=after.parent_id).order_by("-pk").first() or after
    return end_below(after)


def _wait_for(answer: Message, messages: Sequence[QueuedMessage]) -> None:
    rows = QueuedMessage.objects.filter(pk__in=[each.pk for each in messages])
    rows.update(after=answer, version=F("version") + 1)


def _send(room: Conversation, waiting: WaitingMessages) -> None:
    first = waiting.first
    try:
        run = _sent(room, first)
    except (StorageBusy, StorageFull):
        # Its time comes when the database has room again.
        raise
    except ActionRefused as refusal:
        rows = QueuedMessage.objects.filter(pk=first.pk)
        rows.update(refusal=str(refusal), is_urgent=False, version=F("version") + 1)
        logger.info("queued_message.refused message=%s", first.public_id)
        return
    first.delete()
    _wait_for(run.message, waiting.messages[1:])
    logger.info("queued_message.sent message=%s run=%s", first.public_id, run.public_id)


def _sent(room: Conversation, queued: QueuedMessage) -> Run:
    """Right, server and model are checked as of now. Raises ``ActionRefused``."""
    try:
        conversation = access.get_conversation(queued.author, room.public_id, for_write=True)
    except (Http404, PermissionDenied):
        raise ActionRefused(str(LEFT)) from None
    return message_actions.send_message(
        queued.author,
        conversation,
        parent=queued.after,
        text=queued.text,
        choice=_choice_of(queued, conversation.team_id),
        idempotency_key=queued.idempotency_key,
        attachments=list(queued.files.select_related("file")),
    )


def _choice_of(queued: QueuedMessage, team: int) -> ModelChoice:
    """The choice of its author, when they wrote it. Raises ``ActionRefused``."""
    server = queued.upstream
    if server is None:
        raise ActionRefused(str(SERVER_GONE))
    try:
        access.get_usable_upstream(queued.author, server.public_id, team, known=server)
    except Http404:
        raise ActionRefused(str(SERVER_GONE)) from None
    if server.is_off(queued.model):
        raise ActionRefused(str(MODEL_GONE))
    return ModelChoice(
        upstream=server,
        model=queued.model,
        parameters=queued.parameters,
        system_prompt=queued.system_prompt,
        preset=queued.preset_version,
        keeps_preset=queued.keeps_preset,
    )


def send_due_in(rooms: Sequence[int]) -> bool:
    """Returns whether anything has changed. An error in one conversation keeps nothing from the others."""
    has_changed = False
    for room in rooms:
        try:
            has_changed = advance(room) or has_changed
        except Exception as error:
            if is_database_unavailable(error) or isinstance(error, (StorageBusy, StorageFull)):
                raise
            logger.exception("queued_message.failed conversation=%d", room)
    return has_changed
