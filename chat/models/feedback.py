"""Feedback of people on answers: ratings, and the choice between compared answers."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.conversation import Message

# Characters. A note is a remark beside an answer; a longer one is a comment.
NOTE_LIMIT = 2_000


class FeedbackKind(models.TextChoices):
    """A rating is a thumb up or down. A choice has one row for each of the compared answers: of the chosen one with the
    value 1, of the others with -1."""

    RATING = "rating", gettext_lazy("Rating")
    CHOICE = "choice", gettext_lazy("Choice")


class FeedbackReason(models.TextChoices):
    CORRECT = "correct", gettext_lazy("Correct")
    FOLLOWED = "followed", gettext_lazy("Followed instructions")
    CLEAR = "clear", gettext_lazy("Clear and well written")
    NOT_CORRECT = "not_correct", gettext_lazy("Not correct")
    NOT_FOLLOWED = "not_followed", gettext_lazy("Didn’t follow instructions")
    TOO_LONG = "too_long", gettext_lazy("Too long")
    TOO_SHORT = "too_short", gettext_lazy("Too short")
    OUT_OF_DATE = "out_of_date", gettext_lazy("Out of date")
    UNSAFE = "unsafe", gettext_lazy("Unsafe or inappropriate")
    OTHER = "other", gettext_lazy("Other")


# The reasons that people can give for each value, in the order of the form.
REASONS: dict[int, tuple[FeedbackReason, ...]] = {
    1: (
        FeedbackReason.CORRECT,
        FeedbackReason.FOLLOWED,
        FeedbackReason.CLEAR,
        FeedbackReason.OTHER,
    ),
    -1: (
        FeedbackReason.NOT_CORRECT,
        FeedbackReason.NOT_FOLLOWED,
        FeedbackReason.TOO_LONG,
        FeedbackReason.TOO_SHORT,
        FeedbackReason.OUT_OF_DATE,
        FeedbackReason.UNSAFE,
        FeedbackReason.OTHER,
    ),
}


class Feedback(models.Model):
    """The judgment of one person about one answer. Everybody who reads the conversation may give it and sees it.

    It goes with the answer and with the account. `Message.feedback_revision` tells pages when it changed.
    """

    answer = models.ForeignKey(
        # The constraint's index does this, too.
        Message,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="feedback",
    )
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="feedback"
    )
    kind = models.CharField(
        max_length=10, choices=FeedbackKind.choices, default=FeedbackKind.RATING
    )
    # 1 or -1.
    value = models.SmallIntegerField()
    # Codes of `REASONS`, of a rating.
    reasons = models.JSONField(default=list, blank=True)
    note = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    # The time of the judgment as it stands.
    updated_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["answer", "person", "kind"], name="feedback_unique"),
            models.CheckConstraint(condition=Q(value__in=(1, -1)), name="feedback_value"),
        ]
        # The figures of a period.
        indexes = [models.Index(fields=["updated_at"], name="feedback_recent")]

    def __str__(self) -> str:
        return f"{self.kind} {self.value:+d} of {self.answer_id}"

    @property
    def is_good(self) -> bool:
        return self.value > 0

    @property
    def reason_labels(self) -> list[str]:
        known = dict(FeedbackReason.choices)
        return [str(known[code]) for code in self.reasons if code in known]
