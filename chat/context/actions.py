"""Chooses what of a conversation models are sent: older turns are left out, included again, or summarized.

Callers have loaded every object through `chat.access` with the right to write.
"""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.utils.text import Truncator
from django.utils.translation import gettext

from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.conversation import count_rearrangement
from chat.conversations.actions.messages import ModelChoice
from chat.conversations.context_start import start_in_effect
from chat.conversations.paths import read_path
from chat.core import notify
from chat.core.errors import ActionRefused, storage_errors
from chat.core.text import one_line
from chat.models import (
    ChangeKind,
    ContextStart,
    Conversation,
    ConversationChange,
    Message,
    Role,
    Run,
    StartKind,
    User,
)

# Characters of the message that a line in the conversation names.
NAME_CHARACTERS = 60


def leave_out_above(user: User, message: Message) -> None:
    """From now on nothing above this message of a person is sent for answers below it. Raises ``ActionRefused``."""
    if message.role != Role.USER:
        raise ActionRefused(gettext("What is sent must start with a message from a person."))
    if message.parent_id is None:
        raise ActionRefused(gettext("There is nothing above the first message."))
    name = Truncator(one_line(message.text)).chars(NAME_CHARACTERS)
    _choose(user, message, StartKind.DROPPED, ChangeKind.CONTEXT_CUT, name)


def include_all(user: User, conversation: Conversation) -> None:
    """Takes back what is in effect on the branch that the person sees. Nothing happens if everything is sent."""
    path = read_path(user, conversation)
    chosen = start_in_effect(path.places)
    if chosen is None or path.context is None or not path.context.first:
        return
    message = Message.objects.get(pk=chosen.pk)
    message.conversation = conversation
    _choose(user, message, StartKind.WHOLE, ChangeKind.CONTEXT_WHOLE)


def _choose(
    user: User, message: Message, kind: StartKind, change: ChangeKind, name: str = ""
) -> None:
    conversation = message.conversation
    with storage_errors(), transaction.atomic():
        # The change is no news, but pages show the turns again below which a line comes or goes.
        revision = conversation.touch_quietly()
        count_rearrangement(conversation)
        # The choice with the highest key is in effect.
        ContextStart.objects.filter(message=message).delete()
        ContextStart.objects.create(message=message, kind=kind, person=user)
        Message.objects.filter(pk__in=_turns_with_lines(conversation)).update(revision=revision)
        ConversationChange.objects.record(user, conversation, change, name=name)
    notify.publish_after_commit(notify.room_topic(conversation.public_id))


def _turns_with_lines(conversation: Conversation) -> list[int]:
    """The turns of all branches below which a choice may have a line."""
    starts = ContextStart.objects.filter(message__conversation=conversation)
    above = starts.exclude(kind=StartKind.SUMMARY).values_list("message__parent", flat=True)
    summaries = starts.filter(kind=StartKind.SUMMARY).values("message")
    below = Message.objects.filter(parent__in=summaries).values_list("pk", flat=True)
    return [key for key in (*above, *below) if key is not None]


def ask_for_summary(
    user: User,
    conversation: Conversation,
    *,
    parent: UUID | None,
    choice: ModelChoice,
    idempotency_key: UUID,
) -> Run:
    """Sends a message that asks for a summary. Once its answer is complete, what follows is sent from that message on.
    The same key sends once. Raises ``ActionRefused``."""
    above = message_actions.parent_in(user, conversation, parent, idempotency_key=idempotency_key)
    if above is None:
        raise ActionRefused(gettext("There is nothing to summarize yet."))
    with storage_errors(), transaction.atomic():
        run = message_actions.send_message(
            user,
            conversation,
            parent=above.message,
            text=request_of_summary(),
            choice=choice,
            idempotency_key=idempotency_key,
            end=above,
        )
        if not run.is_repeated:
            ContextStart.objects.create(
                message_id=run.message.parent_id, kind=StartKind.SUMMARY, person=user
            )
    return run


def request_of_summary() -> str:
    return gettext(
        "Summarize our conversation so far. Keep everything that is needed to continue from the summary alone: the goal, "
        "facts and figures, names, decisions with their reasons, the current state of any text or code, and open "
        "questions."
    )
