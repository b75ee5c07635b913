"""Stores, changes and withdraws the feedback of people on answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.conf import settings
from django.db import transaction
from django.db.models import OuterRef
from django.utils import timezone
from django.utils.translation import gettext

from chat.core import notify
from chat.core.errors import ActionRefused, InvalidForm, storage_errors
from chat.core.rate_limits import is_within_limit
from chat.core.text import clean
from chat.models import AuditEvent, Conversation, Feedback, FeedbackKind, Message, Role, User
from chat.models.feedback import NOTE_LIMIT, REASONS
from chat.runs.tool_calls import is_live

# Callers have loaded the answer through `chat.access`. Everybody who reads the conversation may rate.


def rate(
    user: User, answer: Message, value: int, reasons: Iterable[str] = (), note: str = ""
) -> Feedback:
    """Stores the rating of this person, or replaces it. ``value`` is 1 or -1; ``reasons`` are codes of `REASONS` for it.
    Raises ``ActionRefused``."""
    given = _checked(value, reasons, note)
    _check_rate(user)
    with storage_errors(), transaction.atomic():
        # The row of the conversation stays locked, so that a person's two tabs come one after the other.
        _note_change(answer.conversation, [answer])
        _check_answer(answer)
        return _store(user, answer, FeedbackKind.RATING, **given)


def withdraw(user: User, answer: Message) -> None:
    """Deletes the rating of this person, if there is one. Raises ``ActionRefused``."""
    _check_rate(user)
    rows = Feedback.objects.filter(answer=answer, person=user, kind=FeedbackKind.RATING)
    with storage_errors(), transaction.atomic():
        _note_change(answer.conversation, [answer])
        rows.delete()


def remove_note(user: User, rating: Feedback) -> None:
    """Removes the note of a rating, which itself stays: a manager decides what stands in the conversation, and not how
    others judge."""
    conversation = rating.answer.conversation
    with storage_errors(), transaction.atomic():
        _note_change(conversation, [rating.answer])
        if not Feedback.objects.filter(pk=rating.pk).exclude(note="").update(note=""):
            return
        if rating.person_id != user.pk:
            AuditEvent.objects.record(
                user,
                "feedback.note_removed",
                subject=rating.person,
                target=f"conversation {conversation.public_id}",
            )


def store_choice(user: User, chosen: Message, others: Sequence[Message]) -> None:
    """Stores that this person has chosen an answer among the compared ones, in place of an earlier choice among them.
    Call it in the transaction of the choice; the answers are siblings, loaded with their conversation."""
    answers = [chosen, *(each for each in others if each.pk != chosen.pk)]
    with transaction.atomic():
        _note_change(chosen.conversation, answers)
        for each in answers:
            _store(user, each, FeedbackKind.CHOICE, value=1 if each.pk == chosen.pk else -1)


def _store(user: User, answer: Message, kind: FeedbackKind, **given: object) -> Feedback:
    row, _ = Feedback.objects.update_or_create(
        answer=answer, person=user, kind=kind, defaults={**given, "updated_at": timezone.now()}
    )
    return row


def _checked(value: int, reasons: Iterable[str], note: str) -> dict[str, object]:
    if value not in REASONS:
        raise InvalidForm(gettext("Choose whether the answer was good or bad."))
    chosen = set(reasons)
    note = clean(note).strip()
    if len(note) > NOTE_LIMIT:
        text = gettext("A note can have at most %(count)d characters.")
        raise InvalidForm(text % {"count": NOTE_LIMIT})
    # Reasons are stored in the order of the form, without those of the other value.
    known = [code.value for code in REASONS[value] if code.value in chosen]
    return {"value": value, "reasons": known, "note": note}


def _check_rate(user: User) -> None:
    if not is_within_limit("feedback", user.pk, settings.FEEDBACK_PER_MINUTE):
        raise ActionRefused(
            gettext("Too many ratings in a short time. Try again in a minute."),
        )


def _check_answer(answer: Message) -> None:
    if answer.role != Role.ASSISTANT:
        raise ActionRefused(gettext("Only answers can be rated."))
    rows = Message.objects.filter(pk=answer.pk)
    if not rows.exists():
        raise ActionRefused(gettext("This answer was deleted."))
    if rows.filter(is_live(OuterRef("pk"))).exists():
        raise ActionRefused(gettext("This answer isn’t finished yet. Rate it when it is."))


def _note_change(conversation: Conversation, answers: Sequence[Message]) -> None:
    """Open pages show the actions of these answers again. Feedback is no news: times, unread marks and lists stay."""
    try:
        revision = conversation.touch_quietly()
    except Conversation.DoesNotExist:
        raise ActionRefused(gettext("This conversation was deleted.")) from None
    Message.objects.filter(pk__in=[each.pk for each in answers]).update(feedback_revision=revision)
    notify.publish_after_commit(notify.room_topic(conversation.public_id))
