"""Chooses the answer to go on with, and stops answers that stand side by side."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from chat.conversations.actions.conversation import stop_run
from chat.core import notify
from chat.core.errors import ActionRefused, storage_errors
from chat.feedback.actions import store_choice
from chat.models import (
    BranchChoice,
    ComparedAnswer,
    Comparison,
    Conversation,
    Message,
    Run,
    User,
)
from chat.runs.tool_calls import is_stoppable_run

# Callers have loaded the records through `chat.access`, with the right to write.


def choose(user: User, compared: ComparedAnswer) -> None:
    """Has the conversation go on with this answer, for everybody, and stops the others. The model of the answer is the
    next one that the composer offers. Raises ``ActionRefused`` if another one was chosen before."""
    answer, conversation = compared.answer, compared.answer.conversation
    with storage_errors(), transaction.atomic():
        # The row stays locked: of two people who choose at once, the second one is told of the first. A choice is no
        # news: nothing was written.
        conversation.touch_quietly()
        comparison = Comparison.objects.select_related("chosen_by").get(pk=compared.comparison_id)
        others = _others(comparison, answer)
        if comparison.chosen_id is None:
            _store(user, comparison, answer)
            store_choice(user, answer, others)
        elif comparison.chosen_id != answer.pk:
            raise ActionRefused(_chosen_before(comparison))
    _stop(user, conversation, [each.pk for each in others])


def _others(comparison: Comparison, answer: Message) -> list[Message]:
    rows = Message.objects.filter(compared__comparison=comparison).exclude(pk=answer.pk)
    others = list(rows.order_by("compared__position"))
    for each in others:
        each.conversation = answer.conversation
    return others


def _store(user: User, comparison: Comparison, answer: Message) -> None:
    rows = Comparison.objects.filter(pk=comparison.pk)
    rows.update(chosen=answer, chosen_by=user, chosen_at=timezone.now())
    # A person who came by a link to one of the answers goes on with the others.
    BranchChoice.objects.filter(parent=comparison.question_id).delete()
    run = Run.objects.filter(message=answer, upstream__isnull=False).order_by("-position").first()
    if run is not None:
        rooms = Conversation.objects.filter(pk=answer.conversation_id)
        rooms.update(upstream=run.upstream_id, model=run.model)
    notify.publish_after_commit(notify.room_topic(answer.conversation.public_id))


def _chosen_before(comparison: Comparison) -> str:
    text = gettext("%(person)s has already chosen another answer.")
    return text % {"person": comparison.chosen_by or gettext("Deleted user")}


def stop(user: User, comparison: Comparison) -> bool:
    """Stops all answers that are still written. Returns whether there was one."""
    answers = ComparedAnswer.objects.filter(comparison=comparison).values_list("answer", flat=True)
    with storage_errors():
        return _stop(user, comparison.conversation, list(answers))


def _stop(user: User, conversation: Conversation, answers: list[int]) -> bool:
    """The stops have transactions of their own: the end of a run locks the run before the conversation."""
    stopped = [
        stop_run(user, _in(conversation, run))
        for run in Run.objects.filter(is_stoppable_run(), message__in=answers)
    ]
    return any(stopped)


def _in(conversation: Conversation, run: Run) -> Run:
    run.conversation = conversation
    return run
