"""Questions that somebody is answering, and what went away meanwhile."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from chat.conversations.actions import conversation as actions_conversation
from chat.core.errors import ActionRefused
from chat.models import Question, Run, Upstream, User
from chat.questions import actions as questions
from tests.questions.replying import case
from tests.runs.waiting import question_of, runs_of


def test_claim_blocks_others_until_it_expires(
    run: Run, question: Question, alice: User, bob: User, settings: Settings
) -> None:
    questions.claim(bob, question)

    for attempt in (
        lambda: questions.claim(alice, question),
        lambda: questions.give_result(alice, question, "Rain"),
        lambda: questions.go_on_without(alice, question.run),
    ):
        with pytest.raises(ActionRefused, match="Bob is answering"):
            attempt()
    assert question_of(run).status == "claimed"

    over = timezone.now() - timedelta(seconds=settings.CLAIM_SECONDS + 1)
    Question.objects.filter(pk=question.pk).update(claimed_at=over)
    questions.claim(alice, question)
    assert question_of(run).claimed_by == alice


def test_claim_is_released_only_by_its_owner(
    run: Run, question: Question, alice: User, bob: User
) -> None:
    questions.claim(bob, question)

    questions.release(alice, question)
    assert question_of(run).claimed_by == bob

    questions.release(bob, question)
    assert question_of(run).status == "open"
    assert questions.give_result(alice, question, "Rain") is not None


def test_answered_question_cannot_be_claimed(
    run: Run, question: Question, alice: User, bob: User
) -> None:
    questions.give_result(alice, question, "Rain")

    with pytest.raises(ActionRefused, match="Alice has already responded"):
        questions.claim(bob, question)
    questions.release(alice, question)

    assert question_of(run).status == "answered"


# --- what went away meanwhile --------------------------------------------------------------


def test_deleted_conversation_refuses_answers(run: Run, question: Question, alice: User) -> None:
    actions_conversation.delete(alice, run.conversation)

    with pytest.raises(ActionRefused, match="deleted"):
        questions.give_result(alice, question, "Rain")

    assert question_of(run).status == "open"
    assert len(runs_of(run.message)) == 1


def test_question_stays_open_while_its_server_is_away(
    run: Run, question: Question, alice: User, subtests: pytest.Subtests
) -> None:
    def removed_before() -> Question:
        Upstream.objects.all().delete()
        return question_of(run)

    def removed_meanwhile() -> Question:
        Upstream.objects.all().delete()
        return question

    def switched_off() -> Question:
        Upstream.objects.update(is_enabled=False)
        return question_of(run)

    for change, reason in (
        (removed_before, "removed"),
        (removed_meanwhile, "removed"),
        (switched_off, "is disabled"),
    ):
        with case(subtests, change.__name__):
            with pytest.raises(ActionRefused, match=reason):
                questions.give_result(alice, change(), "Rain")

            assert question_of(run).status == "open"


def test_answer_counts_against_the_person_s_limit(
    run: Run, question: Question, bob: User, settings: Settings
) -> None:
    settings.RUNS_PER_PERSON = 0

    with pytest.raises(ActionRefused):
        questions.give_result(bob, question, "Rain")

    assert question_of(run).status == "open"
