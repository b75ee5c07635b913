"""Which answers a title is requested for, and where their conversation may be sent."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from chat.conversations.actions import conversation as actions
from chat.models import (
    Run,
    Runner,
    RunStatus,
    SearchRow,
    TitleReason,
    TitleRequest,
    TitleSetting,
    TitleStatus,
    Upstream,
)
from chat.participants import actions as participants
from chat.runs import queue
from chat.titles.queueing import look
from chat.titles.requests import LEASE, claim_due, store_result
from tests.runs.helpers import retry, send_below
from tests.support.rooms import end_run
from tests.titles.conftest import Choose, MakeAnswer, complete, request_of, result_with

pytestmark = [pytest.mark.databases(slow=True), pytest.mark.usefixtures("transactional_db")]


@pytest.fixture
def other(upstream: Upstream) -> Upstream:
    return Upstream.objects.create(
        name="Other", dialect="lmstudio", base_url="http://127.0.0.1:9/api/v1"
    )


# --- which answers ------------------------------------------------------------------------------


def test_nothing_is_queued_without_a_model(answered: MakeAnswer) -> None:
    answered()

    assert not TitleRequest.objects.exists()


def test_first_answer_queues_a_request(choose: Choose, answered: MakeAnswer) -> None:
    choose()

    run = answered()

    assert request_of(run).status == TitleStatus.QUEUED
    assert look()


@pytest.mark.parametrize("change", ["later answer", "renamed", "stopped", "server disabled"])
def test_other_answers_queue_none(choose: Choose, answered: MakeAnswer, change: str) -> None:
    first = answered()
    choose()
    if change == "later answer":
        complete(send_below(first, "And then?"))
    elif change == "renamed":
        actions.rename(first.conversation, "Mine")
        complete(retry(first))
    elif change == "stopped":
        end_run(retry(first))
    else:
        Upstream.objects.update(is_enabled=False)
        look()
        complete(retry(first))

    assert not TitleRequest.objects.exists()


# --- where it may be sent -----------------------------------------------------------------------


def rename(run: Run) -> None:
    actions.rename(run.conversation, "Mine")


def make_private(run: Run) -> None:
    assert run.requested_by is not None
    participants.set_visibility(run.requested_by, run.conversation, "private")


def delete(run: Run) -> None:
    actions.delete(run.requested_by, run.conversation)


def wait_too_long(run: Run) -> None:
    TitleRequest.objects.update(queued_at=timezone.now() - timedelta(hours=2))


def turn_off(run: Run) -> None:
    TitleSetting.objects.update(upstream=None)


def disable_server(run: Run) -> None:
    Upstream.objects.update(is_enabled=False)


def disable_model(run: Run) -> None:
    Upstream.objects.update(model_list=[{"id": "title/model", "is_off": True}])


def nothing(run: Run) -> None:
    """Nothing happens between the answer and the claim."""


TEAM = {"visibility": "team"}
TEMPORARY = {"expires_in": timedelta(days=1)}
# Of the conversation, whether the model is on the server of its answer, what happened meanwhile, and why
# it isn't sent then.
SENT_OR_NOT: list[tuple[dict[str, object], bool, Callable[[Run], None], str]] = [
    ({}, True, nothing, ""),
    ({}, False, nothing, TitleReason.PRIVATE),
    (TEAM, True, nothing, ""),
    (TEAM, False, nothing, ""),
    (TEMPORARY, True, nothing, ""),
    (TEMPORARY, False, nothing, TitleReason.PRIVATE),
    ({**TEAM, **TEMPORARY}, True, nothing, ""),
    ({**TEAM, **TEMPORARY}, False, nothing, TitleReason.PRIVATE),
    (TEAM, False, make_private, TitleReason.PRIVATE),
    (TEAM, True, make_private, ""),
    (TEAM, True, rename, TitleReason.RENAMED),
    (TEAM, True, delete, TitleReason.DELETED),
    (TEAM, True, wait_too_long, TitleReason.BUSY),
    (TEAM, True, turn_off, TitleReason.OFF),
    (TEAM, True, disable_server, TitleReason.OFF),
    (TEAM, True, disable_model, TitleReason.OFF),
]


def test_conversation_is_sent_where_it_may_be(
    choose: Choose,
    answered: MakeAnswer,
    upstream: Upstream,
    other: Upstream,
    subtests: pytest.Subtests,
) -> None:
    for options, is_same, happens, reason in SENT_OR_NOT:
        with subtests.test(f"{options} {is_same} {happens.__name__}"):
            TitleRequest.objects.all().delete()
            Upstream.objects.update(is_enabled=True, model_list=[])
            choose(upstream if is_same else other)
            run = answered(**options)
            happens(run)

            jobs = claim_due(2)

            request = request_of(run)
            assert request.reason == reason
            assert len(jobs) == (not reason)
            expected = TitleStatus.SKIPPED if reason else TitleStatus.RUNNING
            assert request.status == expected


# --- behind every answer ------------------------------------------------------------------------


@pytest.mark.databases
def test_request_waits_behind_answers(
    choose: Choose, answered: MakeAnswer, upstream: Upstream
) -> None:
    choose()
    run = answered()
    queued = send_below(run, "And then?")

    assert claim_due(2) == []

    Run.objects.filter(pk=queued.pk).update(status=RunStatus.RUNNING)
    Upstream.objects.update(concurrency_limit=1)
    assert claim_due(2) == []

    Upstream.objects.update(concurrency_limit=2, is_draining=True)
    assert claim_due(2) == []

    Upstream.objects.update(is_draining=False)
    assert len(claim_due(2)) == 1


@pytest.mark.databases
def test_running_request_takes_a_place_of_its_server(
    choose: Choose, answered: MakeAnswer, upstream: Upstream
) -> None:
    choose()
    first, second = answered(), answered()
    Upstream.objects.update(concurrency_limit=1)
    (job,) = claim_due(2)
    waiting = send_below(first, "And then?")
    runner = uuid.uuid4()

    assert queue.claim(runner, limit=5).runs == []

    store_result(job, result_with("Bread"))
    Runner.objects.create(uuid=runner, host="here", pid=1)
    assert [run.pk for run in queue.claim(runner, limit=5).runs] == [waiting.pk]
    assert request_of(second).status == TitleStatus.QUEUED


@pytest.mark.databases
def test_one_runner_claims_it(choose: Choose, answered: MakeAnswer) -> None:
    choose()
    answered()
    barrier = threading.Barrier(3)

    def claim() -> int:
        try:
            barrier.wait()
            return len(claim_due(2))
        finally:
            connection.close()

    with ThreadPoolExecutor(3) as pool:
        counts = [each.result() for each in [pool.submit(claim) for _ in range(3)]]

    assert sum(counts) == 1


@pytest.mark.databases
def test_lost_request_is_never_sent_retry(choose: Choose, answered: MakeAnswer) -> None:
    choose()
    run = answered()
    (job,) = claim_due(2)
    assert claim_due(2) == []

    TitleRequest.objects.update(claimed_at=F("claimed_at") - LEASE)

    assert claim_due(2) == []
    request = request_of(run)
    assert (request.status, request.reason) == (TitleStatus.SKIPPED, TitleReason.LOST)
    # The runner was only slow.
    store_result(job, result_with("Bread"))
    run.conversation.refresh_from_db()
    assert run.conversation.title == "How do I bake bread?"
    assert not look()


# --- the title ----------------------------------------------------------------------------------


@pytest.mark.databases
def test_title_replaces_the_automatic_one_quietly(choose: Choose, answered: MakeAnswer) -> None:
    choose()
    run = answered()
    room = run.conversation
    room.refresh_from_db()
    before = room.updated_at, room.revision
    (job,) = claim_due(2)

    store_result(job, result_with("Bread at home"))

    room.refresh_from_db()
    assert room.title == "Bread at home"
    assert room.updated_at == before[0]
    assert room.revision > before[1]
    assert not room.has_automatic_title
    request = request_of(run)
    assert (request.status, request.title) == (TitleStatus.DONE, "Bread at home")
    assert SearchRow.objects.filter(kind="title", conversation=room).count() == 1


@pytest.mark.parametrize(("happens", "title"), [(rename, "Mine"), (delete, "How do I bake bread?")])
def test_title_comes_too_late(
    choose: Choose, answered: MakeAnswer, happens: Callable[[Run], None], title: str
) -> None:
    choose()
    run = answered()
    (job,) = claim_due(2)
    happens(run)

    store_result(job, result_with("Bread at home"))

    run.conversation.refresh_from_db()
    assert run.conversation.title == title
    assert (request_of(run).status, request_of(run).reason) == ("skipped", "renamed")


def test_answer_without_words_leaves_the_title(choose: Choose, answered: MakeAnswer) -> None:
    choose()
    run = answered()
    (job,) = claim_due(2)

    store_result(job, result_with("…"))

    run.conversation.refresh_from_db()
    assert run.conversation.title == "How do I bake bread?"
    assert (request_of(run).status, request_of(run).reason) == ("failed", "empty")


def test_retried_first_answer_asks_again_after_a_failure(
    choose: Choose, answered: MakeAnswer
) -> None:
    choose()
    run = answered()
    (job,) = claim_due(2)
    store_result(job, result_with("…"))

    second = retry(run)
    complete(second)

    assert request_of(second).status == TitleStatus.QUEUED


def test_deleted_server_turns_titles_off(choose: Choose, other: Upstream) -> None:
    choose(other)
    other.delete()

    look()

    assert TitleSetting.objects.get().upstream is None
