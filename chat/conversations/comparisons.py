"""Comparisons of a conversation: which answers belong together, and which of them people go on with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid5

from django.db.models import Exists
from django.utils.translation import gettext

from chat.models import ComparedAnswer, Comparison, Conversation, Message, User


def choose_first() -> str:
    """The refusal of a message below a comparison."""
    return gettext("Choose the answer to continue with first.")


def is_undecided(answer: Any) -> Exists:
    """An expression: whether this message is one of the answers of which nobody has chosen one."""
    open_ones = ComparedAnswer.objects.filter(comparison__chosen__isnull=True)
    return Exists(open_ones.filter(answer=answer))


def read_comparisons(conversation: Conversation) -> dict[int, Comparison]:
    """The comparisons by the keys of their answers, in their order. All answers of one have the same object."""
    context = conversation.context
    if context is not None and not context.has_comparison:
        return {}
    rows = ComparedAnswer.objects.filter(comparison__conversation=conversation.pk)
    known: dict[int, Comparison] = {}
    return {
        row.answer_id: known.setdefault(row.comparison_id, row.comparison)
        for row in rows.select_related("comparison").order_by("comparison", "position")
    }


def preferred_in(comparisons: Mapping[int, Comparison]) -> dict[int, int]:
    """The chosen answers, by the keys of all answers of their comparisons."""
    return {key: each.chosen_id for key, each in comparisons.items() if each.chosen_id is not None}


def store_comparison(user: User, question: Message, answers: Sequence[Message]) -> None:
    """Stores that these answers stand side by side. Call it in the transaction that creates them."""
    comparison = Comparison.objects.create(
        question=question, conversation=question.conversation, created_by=user
    )
    ComparedAnswer.objects.bulk_create(
        ComparedAnswer(answer=answer, comparison=comparison, position=position)
        for position, answer in enumerate(answers)
    )


def key_of(idempotency_key: UUID, position: int) -> UUID:
    """The key of the run in another column: the same for the same message, so that it counts once."""
    return uuid5(idempotency_key, f"compared-{position}")
