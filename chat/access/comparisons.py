"""Comparisons: who sees the answers of several models side by side, who chooses among them."""

from __future__ import annotations

from uuid import UUID

from chat.access.conversations import get_message
from chat.access.not_here import existing
from chat.models import ComparedAnswer, Comparison, User


def get_comparison(user: User, public_id: UUID, *, for_write: bool = False) -> Comparison:
    """The comparison that this answer belongs to. Raises as ``get_conversation`` does."""
    answer = get_message(user, public_id, for_write=for_write)
    rows = Comparison.objects.filter(answers__answer=answer)
    comparison = existing(rows.select_related("chosen", "chosen_by").first())
    comparison.conversation = answer.conversation
    return comparison


def get_compared_answer(user: User, public_id: UUID) -> ComparedAnswer:
    """An answer of a comparison, for people who may choose it: all who write in the conversation. Raises as
    ``get_conversation`` does."""
    answer = get_message(user, public_id, for_write=True)
    compared = existing(
        ComparedAnswer.objects.filter(answer=answer).select_related("comparison").first()
    )
    compared.answer = answer
    compared.comparison.conversation = answer.conversation
    return compared
