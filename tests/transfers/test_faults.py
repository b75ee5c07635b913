"""Imports and exports while something breaks: nothing is lost, nothing is there twice, nothing is left."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.urls import reverse

from chat.exports import zip_job
from chat.files.purge import erase_unused
from chat.imports import actions as import_actions
from chat.jobs import actions
from chat.jobs.chunks import open_file
from chat.jobs.kinds import Task
from chat.jobs.worker import execute
from chat.models import (
    Conversation,
    FileContent,
    Import,
    ImportedSource,
    Job,
    JobChunk,
    JobStatus,
    Message,
    Run,
    StoredFile,
    Team,
    User,
)
from tests.imports.files import as_zip
from tests.support.answers import png
from tests.transfers.test_imports import conversation, exported, page, post, titles, upload
from tests.transfers.work import work_once

SignedIn = Callable[[User], Client]
ALL = {f"Number {number}" for number in range(1, 5)}


@pytest.fixture
def client(transactional_db: None, alice: User, signed_in: SignedIn) -> Client:
    return signed_in(alice)


def checked(client: Client, team: Team, body: bytes | None = None, name: str = "c.json") -> Job:
    """An import that was started, and that no runner has yet."""
    upload(client, team, exported(1, 2, 3, 4) if body is None else body, name)
    job = work_once()
    assert post(client, "import_confirm", job.public_id) == 302
    return job


def claimed() -> Task:
    job = actions.claim(lease := uuid4())
    assert job is not None
    return Task(job=job, lease=lease)


def begin_again(job: Job) -> None:
    """Its lease is over."""
    Job.objects.filter(pk=job.pk).update(heartbeat_at="2000-01-01T00:00:00Z")


@contextmanager
def full_disk(pages: int) -> Iterator[None]:
    """SQLite's own limit: it says what it says when the disk is full. Other tests may have left free
    pages in the file."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM")
        cursor.execute("PRAGMA page_count")
        (count,) = cursor.fetchone()
        cursor.execute(f"PRAGMA max_page_count = {count + pages}")
        try:
            yield
        finally:
            cursor.execute("PRAGMA max_page_count = 1073741823")


def conversations_of_this_size(size: int) -> bytes:
    """Four, of which the later ones have long texts."""
    values = [conversation(number) for number in range(1, 5)]
    for value in values[1:]:
        for node in value["mapping"].values():
            if node["message"] and node["message"]["author"]["role"] == "user":
                node["message"]["content"]["parts"] = ["word " * (size // 5)]
    return json.dumps(values).encode()


def test_full_disk_ends_the_attempt_and_the_next_one_goes_on(client: Client, team: Team) -> None:
    checked(client, team, conversations_of_this_size(400_000))
    task = claimed()

    with full_disk(60), pytest.raises(OperationalError, match="full"):
        execute(task)

    # Whole conversations, and their import knows them.
    made = Conversation.objects.count()
    assert made < 4
    assert ImportedSource.objects.count() == made
    assert set(Message.objects.values_list("conversation", flat=True)) == set(
        Conversation.objects.values_list("pk", flat=True)
    )
    assert Job.objects.get().status == JobStatus.RUNNING

    begin_again(task.job)
    job = work_once()

    assert (job.status, job.result["created"], job.result["skipped"]) == (JobStatus.DONE, 4, 0)
    assert titles() == ALL
    assert Import.objects.get().created == 4


def test_full_disk_during_an_upload_leaves_no_job(client: Client, team: Team) -> None:
    with full_disk(20):
        response = upload(client, team, json.dumps(["x" * 900_000]).encode())
    assert response.status_code == 503

    assert not Job.objects.exclude(status=JobStatus.CANCELED).exists()
    while actions.purge_some():
        pass
    assert not JobChunk.objects.exists()


@pytest.mark.parametrize("step", range(5))
def test_import_that_is_canceled_at_any_step_can_be_undone(
    step: int, client: Client, team: Team
) -> None:
    picture = {
        "content_type": "image_asset_pointer",
        "asset_pointer": "file-service://file-AbCd1234",
    }
    values = [conversation(number) for number in range(1, 5)]
    for value in values:
        for node in value["mapping"].values():
            if node["message"]:
                node["message"]["content"]["parts"].append(picture)
    body = as_zip({"conversations.json": values, "file-AbCd1234-a.png": png()}).getvalue()
    checked(client, team, body, "c.zip")
    task = claimed()

    class Canceling(Task):
        def advance(self, done: int, total: int) -> None:
            if done == step:
                assert post(client, "job_cancel", self.job.public_id) == 302
                reason = actions.renew(self.job, self.lease, done=done, total=total)
                assert reason is not None
                self.stop(reason)
            Task.advance(self, done, total)

    canceling = Canceling(job=task.job, lease=task.lease)
    if step == 0:
        # Before the first conversation: the reader is still at work.
        canceling.advance = lambda *_: Canceling.advance(canceling, 0, 4)  # type: ignore[method-assign]
    execute(canceling)

    assert Job.objects.get().status == JobStatus.CANCELED
    assert Conversation.objects.count() == max(1, step)
    assert "What was imported until then is still here" in page(client)
    post(client, "import_undo", Import.objects.get().public_id)
    work_once()
    assert titles() == set()

    Conversation.objects.all().delete()
    while erase_unused() or actions.purge_some():
        pass
    left = (Run, StoredFile, FileContent, ImportedSource, JobChunk)
    assert [model.__name__ for model in left if model.objects.exists()] == []


def test_two_imports_of_one_file_at_once_create_it_once(
    client: Client, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one begins and ends in the middle of the first."""
    first, second = checked(client, team), None
    upload(client, team, exported(1, 2, 3, 4), "once-more.json")
    other = Job.objects.latest("pk")
    written = import_actions._written
    is_first = True

    def write_and_be_overtaken(*args: Any) -> bool:
        nonlocal is_first, second
        result = written(*args)
        if is_first:
            is_first = False
            execute(claimed())
            assert post(client, "import_confirm", other.public_id) == 302
            execute(claimed())
            second = Job.objects.get(pk=other.pk)
        return result

    monkeypatch.setattr(import_actions, "_written", write_and_be_overtaken)
    execute(claimed())

    ended = Job.objects.get(pk=first.pk)
    assert second is not None
    assert (ended.status, second.status) == (JobStatus.DONE, JobStatus.DONE)
    assert [ended.result["created"], second.result["created"]] == [1, 3]
    assert Conversation.objects.count() == ImportedSource.objects.count() == 4
    assert titles() == ALL


def cut_connection() -> None:
    """As a restart of PostgreSQL does it, in the middle of a transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def cut_once(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, *, at: int) -> None:
    """The connection is lost at the end of this call of a function."""
    original, count = getattr(module, name), 0

    def lose_connection(*args: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        result = original(*args, **more)
        if count == at:
            cut_connection()
        return result

    monkeypatch.setattr(module, name, lose_connection)


@pytest.mark.databases(only="postgresql")
def test_import_goes_on_after_the_database_was_restarted(
    client: Client, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(client, team)
    task = claimed()
    cut_once(monkeypatch, import_actions, "_write", at=3)

    with pytest.raises(OperationalError):
        execute(task)
    connection.close()

    assert Conversation.objects.count() == ImportedSource.objects.count() == 2
    assert Job.objects.get().status == JobStatus.RUNNING

    begin_again(task.job)
    job = work_once()

    assert (job.status, job.result["created"], job.result["skipped"]) == (JobStatus.DONE, 4, 0)
    assert titles() == ALL


@pytest.mark.databases(only="postgresql")
def test_export_begins_again_after_the_database_was_restarted(
    client: Client, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(client, team)
    work_once()
    assert client.post(reverse("export_start"), {"what": "own", "form": "json"}).status_code == 302
    task = claimed()
    cut_once(monkeypatch, zip_job, "_add", at=3)

    with pytest.raises(OperationalError):
        execute(task)
    connection.close()
    begin_again(task.job)
    job = work_once()

    assert (job.status, job.attempts) == (JobStatus.DONE, 2)
    with open_file(job) as file, zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        assert len([name for name in archive.namelist() if name.endswith(".json")]) == 4


def test_page_of_a_job_is_there_while_its_file_is_gone(client: Client, team: Team) -> None:
    job = checked(client, team)
    JobChunk.objects.all().delete()

    ended = work_once()

    assert ended.status == JobStatus.FAILED
    assert ended.error in client.get(reverse("data")).content.decode()
    assert not Conversation.objects.exists()
    assert job.pk == ended.pk
