"""Pauses of an answer, after which it continues by itself."""

from __future__ import annotations

import pytest
from django.utils import timezone

from chat.conversations.actions import conversation as actions_conversation
from chat.models import Conversation, Run, User
from chat.questions import actions as questions
from chat.runs import outcomes
from tests.questions.replying import case
from tests.runs.waiting import ended, result_of, runs_of


def test_pause_continues_by_itself_eight_times(run: Run, alice: User) -> None:
    paused = result_of(status="incomplete", reason="pause")
    for position in range(9):
        ended(runs_of(run.message)[position], paused)

    runs = runs_of(run.message)
    assert [one.position for one in runs] == list(range(9))
    assert {one.requested_by for one in runs} == {alice}
    assert {one.status for one in runs} == {"incomplete"}
    assert [one.notes for one in runs[:-1]] == [[]] * 8
    assert runs[-1].notes == [outcomes.TOO_MANY_PAUSES]
    assert questions.go_on_without(alice, runs[-1]).position == 9


def test_pause_continues_only_where_it_may(run: Run, subtests: pytest.Subtests) -> None:
    def stop() -> None:
        Run.objects.filter(pk=run.pk).update(stop_requested_at=timezone.now())

    def remove_server() -> None:
        Run.objects.filter(pk=run.pk).update(upstream=None)

    def delete_conversation() -> None:
        Conversation.objects.filter(pk=run.conversation_id).update(deleted_at=timezone.now())

    for change in (stop, remove_server, delete_conversation):
        with case(subtests, change.__name__):
            change()

            ended(Run.objects.get(pk=run.pk), result_of(status="incomplete", reason="pause"))

            assert len(runs_of(run.message)) == 1


def test_stop_just_after_a_pause_stops_the_next_run(run: Run, alice: User) -> None:
    seen = Run.objects.get(pk=run.pk)
    ended(run, result_of(status="incomplete", reason="pause"))

    assert actions_conversation.stop_run(alice, seen)

    assert [one.status for one in runs_of(run.message)] == ["incomplete", "stopped"]
    assert not actions_conversation.stop_run(alice, seen)
