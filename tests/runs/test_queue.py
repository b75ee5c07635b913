"""Which queued run is claimed next, and what keeps one waiting."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, connections, transaction
from django.utils import timezone

from chat import events as canonical
from chat.conversations.actions.conversation import stop_run
from chat.models import (
    Conversation,
    Membership,
    Project,
    ProjectMember,
    Run,
    Runner,
    RunSegment,
    Upstream,
    User,
)
from chat.runs import queue
from chat.runs.queue import read_queue
from chat.servers.actions.servers import Load, loads, set_draining
from tests.runs.helpers import runs_read
from tests.support.run_fixtures import MakeRun

pytestmark = [pytest.mark.databases, pytest.mark.usefixtures("transactional_db")]


@pytest.fixture
def me() -> uuid.UUID:
    return Runner.objects.create(host="here", pid=1).uuid


def test_claim_respects_the_server_s_limit(make_run: MakeRun, me: uuid.UUID) -> None:
    runs = [make_run(concurrency_limit=2) for _ in range(3)]

    first = queue.claim(me, limit=10)
    second = queue.claim(me, limit=10)

    assert first.runs == [runs[0], runs[1]]
    assert second.runs == []


def test_people_take_turns(make_run: MakeRun, me: uuid.UUID, alice: User, bob: User) -> None:
    greedy = [make_run(by=alice, concurrency_limit=1) for _ in range(3)]
    patient = make_run(by=bob)

    order = []
    for _ in range(4):
        (claimed,) = queue.claim(me, limit=1).runs
        order.append(claimed.pk)
        Run.objects.filter(pk=claimed.pk).update(status="completed")

    assert order[0] == greedy[0].pk
    assert patient.pk in order[:2]


def test_positions_count_from_one(make_run: MakeRun) -> None:
    first, second = make_run(), make_run()

    assert read_queue().places == {
        first.public_id: "Queued (position 1)",
        second.public_id: "Queued (position 2)",
    }


def test_drained_server_gets_no_runs(make_run: MakeRun, me: uuid.UUID, upstream: Upstream) -> None:
    run = make_run(is_draining=True)

    drained = queue.claim(me, limit=10)
    Upstream.objects.update(is_draining=False)
    resumed = queue.claim(me, limit=10)

    assert drained.runs == []
    assert resumed.runs == [run]


def test_drained_server_blocks_only_its_own_queue(
    make_run: MakeRun, me: uuid.UUID, upstream: Upstream
) -> None:
    make_run(is_draining=True)
    other = Upstream.objects.create(name="Other", dialect="lmstudio", base_url="http://127.0.0.1:8")
    at_other = make_run()
    Run.objects.filter(pk=at_other.pk).update(upstream=other)

    assert queue.claim(me, limit=10).runs == [at_other]


def test_position_says_that_the_server_is_drained(make_run: MakeRun, upstream: Upstream) -> None:
    run = make_run(is_draining=True)

    line = read_queue()

    assert line.places == {run.public_id: "Queued (position 1). The server is paused."}
    assert line.draining == {upstream.public_id}


def test_draining_a_server_leaves_running_runs_alone(
    make_run: MakeRun, me: uuid.UUID, administrator: User, upstream: Upstream
) -> None:
    begun, waits = make_run(concurrency_limit=1), make_run()
    queue.claim(me, limit=10)

    set_draining(administrator, upstream, is_draining=True)

    assert loads([upstream])[upstream.pk] == Load(running=1, waiting=1)
    assert queue.claim(me, limit=10).runs == []
    begun.refresh_from_db()
    assert begun.status == "running"
    assert stop_run(administrator, waits)
    waits.refresh_from_db()
    assert canonical.decode_result(waits.result).ext.stop.by == administrator.name
    assert loads([upstream])[upstream.pk] == Load(running=1, waiting=0)


def test_run_is_claimed_once(make_run: MakeRun, me: uuid.UUID) -> None:
    make_run()
    other = Runner.objects.create(host="there", pid=2).uuid

    claims = queue.claim(me, limit=1).runs + queue.claim(other, limit=1).runs

    assert len(claims) == 1


def test_run_of_a_removed_server_is_claimed(make_run: MakeRun, me: uuid.UUID) -> None:
    run = make_run()
    Upstream.objects.all().delete()

    assert queue.claim(me, limit=1).runs == [run]


def switch_off(person: User) -> None:
    User.objects.filter(pk=person.pk).update(is_active=False)


def take_out_of_the_team(person: User) -> None:
    Membership.objects.filter(user=person).delete()


def let_only_read(person: User) -> None:
    Membership.objects.filter(user=person).update(role="viewer")


def remove_account(person: User) -> None:
    Run.objects.filter(requested_by=person).update(requested_by=None)


def make_private(person: User) -> None:
    """As the owner can, in whose conversation the person has sent a message."""
    room = Conversation.objects.filter(runs__requested_by=person).latest("pk")
    room.owner = room.team.memberships.get(role="owner").user
    room.visibility = "private"
    room.save()


def move_into_a_project(person: User) -> None:
    """Of selected people, of whom the person is one who may only read."""
    make_private(person)
    room = Conversation.objects.filter(runs__requested_by=person).latest("pk")
    project = Project.objects.create(team=room.team, name="Board", access="members")
    ProjectMember.objects.create(project=project, user=person, role="reader")
    room.project, room.visibility = project, "project"
    room.save()


def restore(person: User, membership: Membership) -> None:
    User.objects.filter(pk=person.pk).update(is_active=True)
    Membership.objects.filter(user=person).delete()
    membership.save(force_insert=True)


def test_runs_of_people_who_left_are_stopped(
    make_run: MakeRun, me: uuid.UUID, alice: User, bob: User, subtests: pytest.Subtests
) -> None:
    membership = Membership.objects.get(user=bob)
    for leave in (
        make_private,
        move_into_a_project,
        switch_off,
        take_out_of_the_team,
        let_only_read,
        remove_account,
    ):
        with subtests.test(msg=leave.__name__):
            bobs, alices = make_run(by=bob, concurrency_limit=10), make_run(by=alice)
            leave(bob)

            claimed = queue.claim(me, limit=10).runs

            bobs.refresh_from_db()
            assert claimed == [alices]
            assert bobs.status == "stopped"
            assert bobs.request_sent_at is None
            assert bobs.notes == [queue.LEFT]
            assert bobs.last_seq > 0
        restore(bob, membership)


@pytest.mark.parametrize("end", ["deleted_at", "expires_at"])
def test_run_of_an_ended_conversation_is_stopped(
    make_run: MakeRun, me: uuid.UUID, end: str
) -> None:
    kept, ended = make_run(), make_run()
    # As when somebody sends at the moment in which it is deleted, or in which its time is over.
    # SQLite's clock has milliseconds only.
    moment = timezone.now() - timedelta(milliseconds=1)
    Conversation.objects.filter(pk=ended.conversation_id).update(**{end: moment})

    assert queue.claim(me, limit=10).runs == [kept]
    ended.refresh_from_db()
    assert ended.status == "stopped"


def test_run_that_cannot_be_ended_blocks_nobody(
    make_run: MakeRun, me: uuid.UUID, alice: User, bob: User, caplog: pytest.LogCaptureFixture
) -> None:
    bobs, alices = make_run(by=bob), make_run(by=alice)
    RunSegment.objects.create(run=bobs, first_seq=1, last_seq=1, body=b"[torn")
    take_out_of_the_team(bob)

    assert queue.claim(me, limit=10).runs == [alices]
    assert "run.unended" in caplog.text
    bobs.refresh_from_db()
    assert bobs.status == "queued"


def test_hundreds_of_one_person_hide_nobody(
    make_run: MakeRun, me: uuid.UUID, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.runs.queue.CANDIDATES", 3)
    hundreds = [make_run(by=alice, concurrency_limit=2) for _ in range(5)]
    late = make_run(by=bob)

    claimed = queue.claim(me, limit=10).runs

    assert claimed == [hundreds[0], late]


def test_empty_queue_costs_one_statement(me: uuid.UUID, django_assert_num_queries: Any) -> None:
    queue.claim(me, limit=10)

    with django_assert_num_queries(1):
        assert queue.claim(me, limit=10).runs == []


def test_claiming_several_takes_few_statements(
    make_run: MakeRun, me: uuid.UUID, django_assert_max_num_queries: Any
) -> None:
    runs = [make_run(concurrency_limit=10) for _ in range(5)]

    # The queue, who is at work, whose turn it is, the servers, the claims (on SQLite two statements
    # for each), and the transaction's beginning and end.
    with django_assert_max_num_queries(14 if settings.IS_SQLITE else 7):
        claimed = queue.claim(me, limit=4)

    assert claimed.runs == runs[:4]
    assert claimed.has_left
    assert queue.claim(me, limit=4) == queue.Claimed(runs=[runs[4]])


def test_concurrent_claims_take_each_run_once(
    make_run: MakeRun, me: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [make_run(concurrency_limit=3) for _ in range(6)]
    other = Runner.objects.create(host="there", pid=2).uuid
    both = threading.Barrier(2)
    ready = queue._queued_with_rights(queue.CANDIDATES)

    class Together:
        def all(self) -> list[Run]:
            found = ready.all()
            both.wait(60)
            return found

    def claim(runner: uuid.UUID) -> list[Run]:
        try:
            return queue.claim(runner, limit=2).runs
        finally:
            connections.close_all()

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(queue, "_queued_with_rights", lambda count: Together())
        claims = [pool.submit(claim, runner) for runner in (me, other)]
        claimed = [run for each in claims for run in each.result(timeout=60)]
    claimed += queue.claim(me, limit=10).runs

    assert sorted(claimed, key=lambda run: run.pk) == runs[:3]


@pytest.mark.databases(only="postgresql")
def test_claim_does_not_read_ended_runs(make_run: MakeRun, me: uuid.UUID) -> None:
    queued = [make_run() for _ in range(2)]
    Run.objects.bulk_create(
        Run(
            conversation=queued[0].conversation,
            message=queued[0].message,
            position=position,
            upstream=queued[0].upstream,
            model="test/model",
            idempotency_key=uuid.uuid4(),
            status="completed",
        )
        for position in range(1, 2001)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE chat_run; DISCARD PLANS")

    with transaction.atomic():
        before = runs_read()
        assert queue.claim(me, limit=10).runs == queued
        read = runs_read() - before

    assert read < 100
