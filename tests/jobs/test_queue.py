"""The queue of jobs: who gets a job, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections, transaction
from django.utils import timezone

from chat.core.errors import ActionRefused
from chat.jobs import actions
from chat.jobs.chunks import CHUNK_BYTES, ChunkWriter, TooLarge, open_file
from chat.jobs.kinds import JobStopped
from chat.models import Job, JobChunk, JobKind, JobStatus, User

databases = pytest.mark.databases
Make = Callable[..., Job]


@pytest.fixture
def make(alice: User) -> Make:
    def make(kind: JobKind = JobKind.EXPORT, **values: Any) -> Job:
        values = {"user": alice, "scope": "own", "form": "json", **values}
        values.setdefault("expires_at", timezone.now() + timedelta(days=1))
        return Job.objects.create(kind=kind, **values)

    return make


def silence(job: Job) -> None:
    """Its runner was lost a long time ago."""
    Job.objects.filter(pk=job.pk).update(heartbeat_at=timezone.now() - timedelta(hours=1))


def status_of(job: Job) -> str:
    return Job.objects.get(pk=job.pk).status


@databases
def test_oldest_job_is_claimed_first_and_once(transactional_db: None, make: Make) -> None:
    first, second = make(), make()

    claimed = [actions.claim(uuid4()) for _ in range(3)]

    assert claimed == [first, second, None]


@databases
def test_two_workers_do_not_take_the_same(transactional_db: None, make: Make) -> None:
    made = {make().pk for _ in range(12)}

    def claim_all() -> list[int]:
        try:
            found = []
            while job := actions.claim(uuid4()):
                found.append(job.pk)
            return found
        finally:
            connections.close_all()

    with ThreadPoolExecutor(3) as pool:
        taken = [
            key for each in [pool.submit(claim_all) for _ in range(3)] for key in each.result()
        ]

    # A worker that was too late for one goes on with the next round.
    assert len(taken) == len(set(taken))
    assert set(taken) | {job.pk for job in iter(lambda: actions.claim(uuid4()), None)} == made


@databases
def test_lease_that_is_not_renewed_passes_to_another(transactional_db: None, make: Make) -> None:
    job = make()
    lost, found = uuid4(), uuid4()
    actions.claim(lost)
    assert actions.claim(found) is None
    silence(job)

    assert actions.claim(found) == job

    assert actions.renew(job, lost, done=1, total=2) == "lost"
    assert not actions.end_done(job, lost, done=2, total=2, result={"by": "the lost one"})
    assert actions.renew(job, found, done=1, total=2) is None
    assert actions.end_done(job, found, done=2, total=2, result={})
    assert (status_of(job), Job.objects.get().result) == (JobStatus.DONE, {})


def test_job_that_ends_processes_is_given_up(db: None, make: Make) -> None:
    job = make()
    for _ in range(actions.MOST_ATTEMPTS):
        assert actions.claim(uuid4()) == job
        silence(job)

    assert actions.claim(uuid4()) is None

    assert status_of(job) == JobStatus.FAILED
    assert "several times" in Job.objects.get().error


def test_job_that_is_given_back_counts_no_attempt(db: None, make: Make) -> None:
    job = make()
    for _ in range(actions.MOST_ATTEMPTS + 2):
        lease = uuid4()
        assert actions.claim(lease) == job
        actions.give_back(job, lease)

    assert status_of(job) == JobStatus.QUEUED


@pytest.mark.parametrize(
    ("status", "canceled"),
    [
        (JobStatus.UPLOADING, JobStatus.CANCELED),
        (JobStatus.QUEUED, JobStatus.CANCELED),
        (JobStatus.RUNNING, JobStatus.RUNNING),
        (JobStatus.DONE, JobStatus.DONE),
        (JobStatus.FAILED, JobStatus.FAILED),
    ],
)
def test_cancel_ends_what_waits(db: None, make: Make, status: str, canceled: str) -> None:
    lease = uuid4()
    job = make(status=status, lease=lease)

    actions.cancel(job)

    assert status_of(job) == canceled
    reason = actions.renew(job, lease, done=0, total=0)
    assert reason == ("canceled" if status == JobStatus.RUNNING else "lost")


def test_canceled_job_of_a_lost_runner_is_not_begun_again(db: None, make: Make) -> None:
    job = make()
    actions.claim(uuid4())
    actions.cancel(job)
    silence(job)

    assert actions.claim(uuid4()) is None
    assert status_of(job) == JobStatus.CANCELED


def test_job_of_a_deactivated_person_never_runs(db: None, make: Make, alice: User) -> None:
    job = make()
    User.objects.filter(pk=alice.pk).update(is_active=False)

    assert actions.claim(uuid4()) is None
    assert status_of(job) == JobStatus.CANCELED


@databases
def test_person_has_few_jobs_at_once(transactional_db: None, alice: User, bob: User) -> None:
    def create(user: User) -> Job:
        with transaction.atomic():
            return actions.create(user, JobKind.EXPORT, days=1)

    jobs = [create(alice) for _ in range(actions.MOST_ACTIVE)]
    with pytest.raises(ActionRefused, match="in progress"):
        create(alice)
    create(bob)

    actions.cancel(jobs[0])

    create(alice)


# --- files ----------------------------------------------------------------------------------------


@databases
def test_file_is_read_as_it_was_written(transactional_db: None, make: Make) -> None:
    lease = uuid4()
    job = make(status=JobStatus.RUNNING, lease=lease)
    content = bytes(range(256)) * (10 * 1024 + 1)
    JobChunk.objects.create(job=job, number=7, body=b"of an earlier attempt")
    writer = ChunkWriter(job, lease, most_bytes=len(content))
    for start in range(0, len(content), 300_000):
        writer.write(content[start : start + 300_000])
    writer.close()
    job.refresh_from_db()

    with open_file(job) as file:
        assert file.read() == content
        assert file.seek(-3, 2) == len(content) - 3
        assert file.read(10) == content[-3:]
        file.seek(CHUNK_BYTES - 2)
        assert file.read(4) == content[CHUNK_BYTES - 2 : CHUNK_BYTES + 2]
        file.seek(len(content) + 5)
        assert file.read() == b""
    assert JobChunk.objects.filter(job=job).count() == 3


def test_file_has_a_largest_size(db: None, make: Make) -> None:
    lease = uuid4()
    writer = ChunkWriter(make(status=JobStatus.RUNNING, lease=lease), lease, most_bytes=5)
    writer.write(b"123456")

    with pytest.raises(TooLarge):
        writer.close()


def test_runner_that_lost_a_job_writes_nothing_more(db: None, make: Make) -> None:
    lease = uuid4()
    job = make(status=JobStatus.RUNNING, lease=lease)
    writer = ChunkWriter(job, lease, most_bytes=CHUNK_BYTES)
    Job.objects.update(lease=uuid4())
    writer.write(b"late")

    with pytest.raises(JobStopped):
        writer.close()
    assert not JobChunk.objects.exists()


@databases
def test_purge_deletes_what_nobody_needs(transactional_db: None, make: Make) -> None:
    past = timezone.now() - timedelta(minutes=1)
    kept = {
        "exported": make(status=JobStatus.DONE),
        "checked": make(JobKind.CHECK, status=JobStatus.DONE),
        "uploading": make(JobKind.CHECK, status=JobStatus.UPLOADING),
        "queued": make(JobKind.IMPORT, status=JobStatus.QUEUED),
        "running though expired": make(status=JobStatus.RUNNING, expires_at=past),
    }
    without_file = [
        make(JobKind.IMPORT, status=JobStatus.DONE),
        make(JobKind.CHECK, status=JobStatus.FAILED),
        make(status=JobStatus.CANCELED),
    ]
    gone = [
        make(status=JobStatus.DONE, expires_at=past),
        make(JobKind.CHECK, status=JobStatus.UPLOADING, expires_at=past),
    ]
    for job in (*kept.values(), *without_file, *gone):
        JobChunk.objects.bulk_create(
            JobChunk(job=job, number=number, body=b"x") for number in range(40)
        )

    while actions.purge_some():
        pass

    assert set(Job.objects.all()) == {*kept.values(), *without_file}
    with_chunks = set(JobChunk.objects.values_list("job", flat=True))
    assert with_chunks == {job.pk for job in kept.values()}
