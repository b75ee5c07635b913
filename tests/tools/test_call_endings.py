"""Ends of calls: those that may have run, stopped ones, and results of people."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from chat import access
from chat.conversations.actions.conversation import delete, stop_run
from chat.core.errors import ActionRefused
from chat.message_queue.reading import facts_of
from chat.message_queue.states import QueueState, state_of
from chat.models import CallStatus, Conversation, Question, Run, Upstream, User
from chat.questions import actions as questions
from chat.tools import calls, claims, endings
from chat.tools.kinds import CallFailed, CallOutput, OutputFile
from tests.tools.calling import call_of, claim, follow_up_of, give_result, given_to, lost, statuses


def test_call_that_may_have_run_is_a_question(run: Run, alice: User) -> None:
    calls.approve(alice, call_of(run))

    call = lost(run)

    assert statuses(run) == [("open", "unknown")]
    assert call.error == "The connection was lost."
    assert access.questions_for(alice).count() == 1
    assert follow_up_of(run) is None


def test_it_is_run_again_once_somebody_says_so(run: Run, alice: User, bob: User) -> None:
    calls.approve(alice, call_of(run))
    lost(run)

    calls.run_again(bob, call_of(run))

    assert statuses(run) == [("running", "queued")]
    give_result(run, "Snow")
    assert given_to(run) == "Snow"
    assert call_of(run).attempt == 2


def test_somebody_gives_its_result(run: Run, alice: User, bob: User) -> None:
    calls.approve(alice, call_of(run))
    lost(run)

    assert calls.give_result(bob, call_of(run), "Sun") is not None

    assert statuses(run) == [("answered", "done")]
    assert given_to(run) == "Sun"


def test_answer_goes_on_without_it(run: Run, alice: User, bob: User) -> None:
    calls.approve(alice, call_of(run))
    lost(run)

    assert calls.go_on_without(bob, call_of(run)) is not None

    assert statuses(run) == [("expired", "refused")]
    assert "may have run" in given_to(run)


def test_call_that_waits_for_approval_is_not_run_again(run: Run, bob: User) -> None:
    with pytest.raises(ActionRefused):
        calls.run_again(bob, call_of(run))

    assert statuses(run) == [("open", "approval")]


@pytest.mark.parametrize("has_runner", [False, True])
def test_call_of_a_restored_backup_may_have_run(run: Run, alice: User, has_runner: bool) -> None:
    calls.approve(alice, call_of(run))
    if has_runner:
        claim(run)

    assert claims.settle_restored() == 1

    assert statuses(run) == [("open", "unknown")]
    assert claim(run) == []


# --- stopping --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_sent", [False, True])
def test_stop_ends_the_calls_and_the_answer_waits(run: Run, alice: User, is_sent: bool) -> None:
    calls.approve(alice, call_of(run))
    (claimed,) = claim(run)
    if is_sent:
        claims.mark_sent(claimed.pk, claimed.claim)

    assert stop_run(alice, run)

    assert statuses(run) == [("expired", "failed")]
    assert ("may have run" in call_of(run).error) == is_sent
    assert claims.still_held({claimed.pk: claimed.claim}) == set()
    assert not claims.mark_sent(claimed.pk, claimed.claim)
    assert not endings.end_call(claimed.pk, claimed.claim, CallFailed("Late"))
    assert follow_up_of(run) is None
    assert state_of(facts_of([run.message_id])[run.message_id]) == QueueState.STOPPED


def test_stopped_answer_can_be_continued(run: Run, alice: User) -> None:
    calls.approve(alice, call_of(run))
    stop_run(alice, run)

    assert questions.go_on_without(alice, run) is not None

    assert "was stopped" in given_to(run)


def test_running_call_is_not_skipped(run: Run, alice: User) -> None:
    calls.approve(alice, call_of(run))

    with pytest.raises(ActionRefused, match="already running"):
        questions.go_on_without(alice, run)
    with pytest.raises(ActionRefused, match="already running"):
        questions.give_result(alice, run.questions.get(), "Rain")


def test_deleting_the_conversation_stops_its_calls(
    run: Run, alice: User, conversation: Conversation
) -> None:
    calls.approve(alice, call_of(run))

    delete(alice, conversation)

    assert claim(run) == []
    assert call_of(run).status == CallStatus.FAILED


# --- a person's own result -------------------------------------------------------------------------


def test_person_gives_the_result_instead_of_approving(run: Run, bob: User) -> None:
    assert questions.give_result(bob, run.questions.get(), "Fog") is not None

    assert statuses(run) == [("answered", "done")]
    assert claim(run) == []


def test_server_that_is_off_keeps_the_result(run: Run, alice: User, upstream: Upstream) -> None:
    calls.approve(alice, call_of(run))
    (claimed,) = claim(run)
    Upstream.objects.filter(pk=upstream.pk).update(is_enabled=False)
    claims.mark_sent(claimed.pk, claimed.claim)

    assert endings.end_call(claimed.pk, claimed.claim, CallFailed("Not found"))

    assert statuses(run) == [("answered", "failed")]
    assert follow_up_of(run) is None
    run.refresh_from_db()
    assert "disabled" in run.notes[0]
    Upstream.objects.filter(pk=upstream.pk).update(is_enabled=True)
    assert questions.go_on_without(alice, run) is not None
    assert given_to(run) == "Not found"


def test_large_result_becomes_an_error(run: Run, alice: User, settings: Settings) -> None:
    settings.TOOL_RESULT_BYTES = 100
    calls.approve(alice, call_of(run))

    give_result(run, "x" * 101)

    assert "larger than the limit" in given_to(run)
    assert Question.objects.get(run=run).answer["is_error"]


def test_files_of_a_result_become_files_of_the_answer(run: Run, alice: User) -> None:
    calls.approve(alice, call_of(run))
    (claimed,) = claim(run)
    claims.mark_sent(claimed.pk, claimed.claim)
    files = [
        OutputFile(media_type="image/png", content=b"\x89PNG"),
        OutputFile(media_type="text/plain", content=b"notes", name="notes\u202e.txt"),
    ]

    endings.end_call(claimed.pk, claimed.claim, CallOutput(text="A map", files=files))

    stored = [(each.item, each.position, each.file.name) for each in run.files.all()]
    assert stored == [(0, 0, "tool-result-1.png"), (0, 1, "notes.txt")]
    assert given_to(run) == "A map"


def test_result_is_stored_without_what_no_database_takes(run: Run, alice: User) -> None:
    calls.approve(alice, call_of(run))

    give_result(run, "a\x00b\ud800")

    assert given_to(run) == "a\u2400b?"


def test_structured_result_is_stored_without_what_no_database_takes(run: Run, alice: User) -> None:
    calls.approve(alice, call_of(run))
    (claimed,) = claim(run)
    claims.mark_sent(claimed.pk, claimed.claim)
    output = CallOutput(text="Rain", structured={"a\x00": [float("nan"), float("-inf"), 0.5]})

    assert claims.end_call(claimed.pk, claimed.claim, output)

    answer = Question.objects.get(run=run).answer
    assert answer["structured"] == {"a\u2400": [None, None, 0.5]}
