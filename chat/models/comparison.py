"""Comparisons: answers of several models to one message."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from chat.models.conversation import Conversation, Message

# Models that answer one message side by side: four columns are as many as a wide screen has room for.
MOST_COMPARED = 4


class Comparison(models.Model):
    """A message that several models answer, until people go on with one of the answers.

    The answers are siblings, like attempts. Attempts that were made later are not part of the comparison.
    """

    question = models.OneToOneField(
        Message, on_delete=models.CASCADE, primary_key=True, related_name="comparison"
    )
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="comparisons"
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    # The answer that the conversation goes on with.
    chosen = models.ForeignKey(Message, null=True, on_delete=models.SET_NULL, related_name="+")
    chosen_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    chosen_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"comparison {self.question_id}"


class ComparedAnswer(models.Model):
    """One of the answers of a comparison, in the order in which the models were chosen."""

    answer = models.OneToOneField(
        Message, on_delete=models.CASCADE, primary_key=True, related_name="compared"
    )
    # Without an index of its own, because the unique one begins with it.
    comparison = models.ForeignKey(
        Comparison, on_delete=models.CASCADE, related_name="answers", db_index=False
    )
    position = models.PositiveSmallIntegerField()

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(
                fields=["comparison", "position"], name="compared_answer_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.comparison_id}: {self.answer_id}"
