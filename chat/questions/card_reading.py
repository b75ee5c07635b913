"""Reads the cards of what runs wait for, with a bounded number of queries."""

from __future__ import annotations

from collections.abc import Iterable

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import QuerySet

from chat import access
from chat.models import Question, Run, RunStatus, ToolInput
from chat.models.imports import name_answerers
from chat.questions.input_cards import input_cards
from chat.questions.question_cards import QuestionCard
from chat.questions.tool_call_cards import ToolCallCard
from chat.runs.tool_calls import with_account

# The relations that the card of a call reads beside its question.
WITH_CALL = (
    *("tool_call__tool__request", "tool_call__tool__server"),
    *("tool_call__approved_by", "tool_call__executor"),
)


def card_of(question: Question) -> QuestionCard:
    try:
        has_call = question.tool_call is not None
    except ObjectDoesNotExist:
        has_call = False
    return ToolCallCard(question=question) if has_call else QuestionCard(question=question)


def cards_of(questions: Iterable[Question]) -> list[QuestionCard]:
    """The cards of questions that `with_calls` has read, with what their tools have asked: one query for all."""
    cards = [card_of(question) for question in questions]
    _read_inputs(card for card in cards if isinstance(card, ToolCallCard))
    return cards


def with_calls(questions: QuerySet[Question]) -> QuerySet[Question]:
    """The questions with what `card_of` needs."""
    return with_account(questions.select_related(*WITH_CALL))


def cards_by_run(runs: Iterable[Run]) -> dict[int, tuple[QuestionCard, ...]]:
    """The questions of these runs by run, in their order. One query, one for what tools have asked, and none if
    no run ended with questions."""
    keys = [run.pk for run in runs if run.status == RunStatus.WAITING]
    if not keys:
        return {}
    rows = Question.objects.filter(run__in=keys)
    rows = with_calls(rows.select_related("claimed_by", "answered_by", "conversation", "run"))
    rows = access.with_audience(rows).defer("run__result")
    questions = list(rows.order_by("run", "position", "pk"))
    cards = cards_of(questions)
    # No call of an imported conversation was run here.
    name_answerers(card.question for card in cards if card.tool_call is None)
    asked: dict[int, list[QuestionCard]] = {}
    for card in cards:
        asked.setdefault(card.question.run_id, []).append(card)
    return {run: tuple(questions) for run, questions in asked.items()}


def _read_inputs(cards: Iterable[ToolCallCard]) -> None:
    """One query, and none if no tool has asked for anything."""
    by_call = {card.tool_call.pk: card for card in cards if card.tool_call.rounds}
    if not by_call:
        return
    rows: dict[int, list[ToolInput]] = {}
    for row in ToolInput.objects.filter(call__in=by_call).select_related("answered_by"):
        rows.setdefault(row.call_id, []).append(row)
    for call, card in by_call.items():
        card.inputs = input_cards(rows.get(call, []))
