"""Imports and exports while something breaks: nothing is lost, nothing is there twice, nothing is left."""

from __future__ import annotations

import errno
import io
import json
import os
import secrets
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.urls import reverse

from chat.core.isolation import parent
from chat.exports import zip_job
from chat.files.purge import erase_unused
from chat.imports import actions as import_actions
from chat.jobs import actions
from chat.jobs.chunks import open_file
from chat.jobs.kinds import JobStopped, Task
from chat.jobs.worker import execute
from chat.models import (
    AuditEvent,
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
from tests.support.machine import POSTGRES_USER
from tests.support.small_disk import small_disk
from tests.transfers.test_imports import conversation, exported, page, post, titles, upload
from tests.transfers.work import work_off, work_once

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


def noise(size: int) -> str:
    return " ".join(secrets.token_hex(8) for _ in range(size // 17))


def conversations_of_this_size(size: int) -> bytes:
    """Four, of which the later ones have long texts, which can't be compressed."""
    values = [conversation(number) for number in range(1, 5)]
    for value in values[1:]:
        for node in value["mapping"].values():
            if node["message"] and node["message"]["author"]["role"] == "user":
                node["message"]["content"]["parts"] = [noise(size)]
    return json.dumps(values).encode()


FULL = "Storage is full. Ask an administrator to free up space, then try again."
STILL_HERE = "What was imported until then is still here; you can undo the import."


def assert_whole_conversations(count: int) -> None:
    """Each is known to its import, and has its messages."""
    rooms = set(Conversation.objects.values_list("pk", flat=True))
    assert len(rooms) == count
    assert ImportedSource.objects.count() == count
    assert set(Message.objects.values_list("conversation", flat=True)) == rooms


def purge() -> None:
    while erase_unused() or actions.purge_some():
        pass


def test_full_disk_ends_an_import_in_words_and_the_next_one_goes_on(
    client: Client, team: Team
) -> None:
    body = conversations_of_this_size(150_000)
    checked(client, team, body)
    task = claimed()

    with full_disk(60):
        execute(task)

    ended = Job.objects.get()
    made = Conversation.objects.count()
    assert (ended.status, ended.error) == (JobStatus.FAILED, FULL)
    assert made < 4
    assert_whole_conversations(made)
    assert Import.objects.get().created == made
    shown = page(client)
    assert FULL in shown
    assert (STILL_HERE in shown) == bool(made)
    # What waited for the import makes room.
    purge()
    assert not JobChunk.objects.exists()

    checked(client, team, body, "once-more.json")
    job = work_once()

    assert (job.status, job.result["created"], job.result["skipped"]) == (
        JobStatus.DONE,
        4 - made,
        made,
    )
    assert titles() == ALL
    assert_whole_conversations(4)


def test_import_on_a_disk_that_takes_nothing_more_begins_again(
    client: Client, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even its end can be recorded."""
    checked(client, team, conversations_of_this_size(150_000))
    task = claimed()

    def refuse(*_: Any, **__: Any) -> bool:
        raise OperationalError("database or disk is full")

    with monkeypatch.context() as patch, full_disk(60):
        patch.setattr(actions, "end_job", refuse)
        with pytest.raises(OperationalError, match="full"):
            execute(task)
    assert Job.objects.get().status == JobStatus.RUNNING

    begin_again(task.job)
    job = work_once()

    assert (job.status, job.result["created"], job.result["skipped"]) == (JobStatus.DONE, 4, 0)
    assert titles() == ALL


def start_export(client: Client) -> None:
    assert client.post(reverse("export_start"), {"what": "own", "form": "json"}).status_code == 302


def titles_in(job: Job) -> list[str]:
    with open_file(job) as file, zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        return sorted(json.loads(archive.read(name))["conversation"]["title"] for name in names)


@pytest.fixture
def with_four(client: Client, team: Team) -> None:
    """Alice has four conversations, in which nothing can be compressed."""
    values = [conversation(number) for number in range(1, 5)]
    for value in values:
        for node in value["mapping"].values():
            if node["message"]:
                node["message"]["content"]["parts"] = [noise(50_000)]
    checked(client, team, json.dumps(values).encode())
    work_once()
    purge()


def full_temporary_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """In which a conversation is written before it is added to the archive."""

    class Full(io.BytesIO):
        def __init__(self, **_: Any) -> None:
            super().__init__()

        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zip_job, "SpooledTemporaryFile", Full)


@pytest.mark.parametrize("place", ["database", "temporary file"])
def test_full_disk_ends_an_export_in_words_and_leaves_nothing(
    place: str, client: Client, with_four: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_export(client)
    before = work_once()
    start_export(client)
    with monkeypatch.context() as patch, full_disk(20):
        if place == "temporary file":
            full_temporary_file(patch)
        execute(claimed())

    ended = Job.objects.latest("pk")
    assert (ended.status, ended.error, ended.result) == (JobStatus.FAILED, FULL, {})
    assert FULL in page(client)
    purge()
    assert not JobChunk.objects.exclude(job=before).exists()
    # The file of before was not deleted for one that there isn't.
    assert titles_in(before) == sorted(ALL)

    start_export(client)
    assert titles_in(work_once()) == sorted(ALL)


@contextmanager
def full_table(table: str, condition: str) -> Iterator[None]:
    """PostgreSQL's own words and code, where a row of this table would need a disk that is full."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF {condition} THEN
                    RAISE EXCEPTION 'could not extend file "base/5/16385": No space left on device'
                    USING ERRCODE = '53100', HINT = 'Check free disk space.';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER no_space BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION no_space()
            """
        )
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION no_space CASCADE")


@contextmanager
def full_tablespace(table: str, folder: Path) -> Iterator[None]:
    """The table grows on a disk of its own, which has room for a few pages more."""
    with small_disk(folder, megabytes=8) as disk:
        place = disk.folder / "tables"
        place.mkdir()
        if os.getuid() == 0:
            shutil.chown(place, POSTGRES_USER)
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
            cursor.execute(f"ALTER TABLE {table} SET TABLESPACE small")
        try:
            disk.fill(left_bytes=100_000)
            yield
            disk.free()
        finally:
            with connection.cursor() as cursor:
                cursor.execute(f"ALTER TABLE {table} SET TABLESPACE pg_default")
                cursor.execute("DROP TABLESPACE small")


@pytest.mark.slow
@pytest.mark.databases(only="postgresql")
def test_disk_of_postgresql_that_is_really_full_ends_jobs_in_words(
    client: Client, team: Team
) -> None:
    body = conversations_of_this_size(150_000)
    # Not pytest's folder, which the user of PostgreSQL may not read.
    folder = Path(tempfile.mkdtemp(prefix="tributary-disk-"))
    folder.chmod(0o755)
    checked(client, team, body)
    with full_tablespace("chat_message", folder / "one"):
        execute(claimed())
    ended = Job.objects.get()
    assert (ended.status, ended.error) == (JobStatus.FAILED, FULL)
    made = Conversation.objects.count()
    assert made < 4
    assert_whole_conversations(made)
    checked(client, team, body)
    assert (work_once().status, titles()) == (JobStatus.DONE, ALL)
    purge()

    Conversation.objects.update(system_prompt=noise(150_000))
    start_export(client)
    with full_tablespace("chat_jobchunk", folder / "two"):
        execute(claimed())
    ended = Job.objects.latest("pk")
    assert (ended.status, ended.error) == (JobStatus.FAILED, FULL)
    purge()
    assert not JobChunk.objects.exists()
    start_export(client)
    assert titles_in(work_once()) == sorted(ALL)
    shutil.rmtree(folder)


@pytest.mark.databases(only="postgresql")
def test_full_disk_of_postgresql_ends_jobs_in_words(client: Client, team: Team) -> None:
    checked(client, team)
    with full_table("chat_message", "(SELECT count(*) FROM chat_conversation) = 3"):
        execute(claimed())
    ended = Job.objects.get()
    assert (ended.status, ended.error) == (JobStatus.FAILED, FULL)
    assert_whole_conversations(2)
    checked(client, team)
    assert (work_once().status, titles()) == (JobStatus.DONE, ALL)
    purge()

    start_export(client)
    with full_table("chat_jobchunk", "true"):
        execute(claimed())
    ended = Job.objects.latest("pk")
    assert (ended.status, ended.error) == (JobStatus.FAILED, FULL)
    purge()
    assert not JobChunk.objects.exists()
    start_export(client)
    assert titles_in(work_once()) == sorted(ALL)


def test_full_disk_during_an_upload_leaves_no_job(client: Client, team: Team) -> None:
    with full_disk(20):
        response = upload(client, team, json.dumps(["x" * 900_000]).encode())
    assert response.status_code == 507
    assert FULL in response.content.decode()

    assert not Job.objects.exclude(status=JobStatus.CANCELED).exists()
    purge()
    assert not JobChunk.objects.exists()


@pytest.mark.parametrize("step", range(5))
def test_import_that_is_canceled_at_any_step_can_be_undone(
    step: int, client: Client, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(client, team, picture_archive(), "c.zip")
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
        # The reader is at work.
        monkeypatch.setattr(parent, "CHECK_SECONDS", 0)
    execute(canceling)

    assert Job.objects.get().status == JobStatus.CANCELED
    assert Conversation.objects.count() == step
    assert "Canceled" in page(client)
    if step:
        assert STILL_HERE in page(client)
        post(client, "import_undo", Import.objects.get().public_id)
        work_once()
    assert titles() == set()

    Conversation.objects.all().delete()
    purge()
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


def picture_archive() -> bytes:
    """Four conversations, in each of which the same picture is sent."""
    picture = {
        "content_type": "image_asset_pointer",
        "asset_pointer": "file-service://file-AbCd1234",
    }
    values = [conversation(number) for number in range(1, 5)]
    for value in values:
        for node in value["mapping"].values():
            if node["message"]:
                node["message"]["content"]["parts"].append(picture)
    return as_zip({"conversations.json": values, "file-AbCd1234-a.png": png()}).getvalue()


@pytest.mark.slow
@pytest.mark.databases
@pytest.mark.parametrize("people", [("alice", "alice"), ("alice", "bob")])
def test_two_imports_in_two_threads_create_each_conversation_once(
    people: tuple[str, str],
    client: Client,
    team: Team,
    signed_in: SignedIn,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both are in the middle of the same conversation, before either is committed."""
    tasks = []
    users = [request.getfixturevalue(name) for name in people]
    for number, user in enumerate(users):
        browser = signed_in(user)
        upload(browser, team, picture_archive(), f"{number}.zip")
    work_off()
    for job in Job.objects.all():
        assert post(signed_in(job.user), "import_confirm", job.public_id) == 302
        tasks.append(claimed())
    written, together = import_actions._written, threading.Barrier(2, timeout=60)

    def write_together(*args: Any) -> bool:
        together.wait()
        return written(*args)

    monkeypatch.setattr(import_actions, "_written", write_together)

    def work(task: Task) -> None:
        execute(task)
        connection.close()

    threads = [threading.Thread(target=work, args=[task]) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    ended = list(Job.objects.order_by("pk"))
    owners = len(set(people))
    assert [job.status for job in ended] == [JobStatus.DONE] * 2
    created, skipped = ([job.result[name] for job in ended] for name in ("created", "skipped"))
    assert (sum(created), sum(skipped)) == (4 * owners, 8 - 4 * owners)
    assert sorted(Import.objects.values_list("created", flat=True)) == sorted(created)
    assert_whole_conversations(4 * owners)
    for user in set(users):
        assert set(Conversation.objects.filter(owner=user).values_list("title", flat=True)) == ALL
    # The bytes of the picture are there once, and each person has files of their own.
    assert FileContent.objects.count() == 1
    makers = StoredFile.objects.values_list("conversation__owner", flat=True)
    assert set(makers) == {user.pk for user in users}


def test_conversation_of_another_import_is_not_in_the_budget(
    client: Client, team: Team, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(client, team)
    known = import_actions._Work

    def forgetful(*args: Any, **more: Any) -> Any:
        """Another import writes the first three after this one has looked."""
        work = known(*args, **more)
        monkeypatch.setattr(import_actions, "_Work", known)
        import_actions.import_file(alice, team, io.BytesIO(exported(1, 2, 3)))
        return work

    monkeypatch.setattr(import_actions, "_Work", forgetful)
    job = work_once()

    assert (job.result["created"], job.result["skipped"]) == (1, 3)
    other, own = Import.objects.order_by("created").values_list("written_bytes", flat=True)[::-1]
    assert 2 * own < other


class Stealing(Task):
    """Another runner takes the job over after this step, because this one was silent for too long."""

    then: Callable[[], None]
    after = 0
    is_stolen = False

    def advance(self, done: int, total: int) -> None:
        if done >= self.after and not self.is_stolen:
            self.is_stolen = True
            begin_again(self.job)
            execute(claimed())
            self.then()
        Task.advance(self, done, total)


@pytest.mark.parametrize("after", [0, 3])
def test_runner_that_has_lost_its_import_writes_nothing_more(
    after: int, client: Client, team: Team
) -> None:
    checked(client, team)
    task = claimed()
    stealing = Stealing(job=task.job, lease=task.lease)
    stealing.after, stealing.then = after, lambda: None

    execute(stealing)

    job = Job.objects.get()
    assert (job.status, job.attempts, job.result["created"]) == (JobStatus.DONE, 2, 4)
    assert_whole_conversations(4)
    batch = Import.objects.get()
    assert (batch.created, batch.skipped) == (4, 0)
    assert AuditEvent.objects.filter(verb="import.created").count() == 1


def test_runner_that_has_lost_its_import_brings_back_nothing_that_was_undone(
    client: Client, team: Team
) -> None:
    checked(client, team)
    task = claimed()
    stealing = Stealing(job=task.job, lease=task.lease)

    def undo() -> None:
        assert post(client, "import_undo", Import.objects.get().public_id) == 302
        work_once()

    stealing.after, stealing.then = 1, undo
    execute(stealing)

    assert titles() == set()
    assert not ImportedSource.objects.exists()
    assert Import.objects.get().undone_at is not None


def test_undoing_that_is_canceled_goes_on_later(client: Client, team: Team) -> None:
    checked(client, team)
    work_once()
    undo = [Import.objects.get().public_id]
    post(client, "import_undo", *undo)
    task = claimed()

    class Canceling(Task):
        def advance(self, done: int, total: int) -> None:
            if done == 2:
                self.stop("canceled")
            Task.advance(self, done, total)

    execute(Canceling(job=task.job, lease=task.lease))
    assert Job.objects.get().status == JobStatus.CANCELED
    assert len(titles()) == ImportedSource.objects.count() == 2
    assert STILL_HERE in page(client)

    post(client, "import_undo", *undo)
    work_once()
    assert titles() == set()
    assert AuditEvent.objects.filter(verb="import.undone").count() == 1


def test_import_that_was_canceled_while_its_runner_was_away_stays_undoable(
    client: Client, team: Team
) -> None:
    checked(client, team)
    task = claimed()

    class Killed(Task):
        def advance(self, done: int, total: int) -> None:
            if done == 2:
                raise JobStopped("lost")

    execute(Killed(job=task.job, lease=task.lease))
    post(client, "job_cancel", task.job.public_id)
    begin_again(task.job)
    assert work_off() == []

    assert Job.objects.get().status == JobStatus.CANCELED
    assert STILL_HERE in page(client)
    # Also when its job is gone.
    Import.objects.update(created_at="2020-01-01T00:00:00Z")
    Job.objects.update(expires_at="2020-01-01T00:00:00Z")
    purge()
    assert not Job.objects.exists()
    assert "2 conversations" in page(client)
    post(client, "import_undo", Import.objects.get().public_id)
    work_once()
    assert titles() == set()


@pytest.mark.parametrize("kind", ["upload", "check", "import", "undo", "export"])
def test_queued_job_is_canceled_at_once_and_leaves_nothing(
    kind: str, client: Client, team: Team, alice: User
) -> None:
    if kind == "upload":
        data = {"team": team.public_id.hex, "name": "c.json", "size": len(exported(1))}
        client.post(reverse("import_upload"), data)
    elif kind == "export":
        import_actions.import_file(alice, team, io.BytesIO(exported(1)))
        start_export(client)
    elif kind == "check":
        upload(client, team, exported(1))
    else:
        checked(client, team)
        if kind == "undo":
            work_once()
            post(client, "import_undo", Import.objects.get().public_id)
    before = titles()
    job = Job.objects.get()
    post(client, "job_cancel", job.public_id)

    assert work_off() == []
    assert Job.objects.get().status == JobStatus.CANCELED
    assert "Canceled" in page(client)
    assert titles() == before
    purge()
    assert not JobChunk.objects.exists()


@pytest.mark.parametrize(
    "step",
    [
        "writing",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("reading", 1, 2, 3, 4, "finishing")
        ),
    ],
)
def test_export_that_is_canceled_at_any_step_leaves_nothing(
    step: str | int, client: Client, with_four: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_export(client)
    task = claimed()

    def cancel() -> None:
        assert post(client, "job_cancel", task.job.public_id) == 302
        reason = actions.renew(task.job, task.lease, done=task.done, total=task.total)
        assert reason == "canceled"
        task.stop(reason)

    cancel_in(step, cancel, task, monkeypatch)
    execute(task)

    job = Job.objects.exclude(kind="import").get()
    if step == "finishing":
        # It was done before anybody could see that: then its file is whole.
        assert (job.status, titles_in(job)) == (JobStatus.DONE, sorted(ALL))
        return
    assert job.status == JobStatus.CANCELED
    purge()
    assert not JobChunk.objects.exists()
    start_export(client)
    assert titles_in(work_once()) == sorted(ALL)


def cancel_in(
    step: str | int, cancel: Callable[[], None], task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading is before the first conversation, writing in the middle of one."""
    canceled = []

    def once() -> None:
        if not canceled:
            canceled.append(True)
            cancel()

    advance = Task.advance

    def advance_and_cancel(self: Task, done: int, total: int) -> None:
        if done == step or (step == "reading" and not done):
            once()
        advance(self, done, total)

    monkeypatch.setattr(Task, "advance", advance_and_cancel)
    if step == "writing":
        check, asked = Task.check, []

        def check_and_cancel(self: Task) -> None:
            asked.append(self.done)
            # The first time is at the end of the conversation before.
            if asked.count(1) == 3:
                once()
            check(self)

        monkeypatch.setattr(Task, "check", check_and_cancel)
    if step == "finishing":
        end = actions.end_done

        def cancel_and_end(*args: Any, **more: Any) -> bool:
            once()
            return end(*args, **more)

        monkeypatch.setattr(actions, "end_done", cancel_and_end)


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
    start_export(client)
    task = claimed()
    cut_once(monkeypatch, zip_job, "_add", at=3)

    with pytest.raises(OperationalError):
        execute(task)
    connection.close()
    begin_again(task.job)
    job = work_once()

    assert (job.status, job.attempts) == (JobStatus.DONE, 2)
    assert titles_in(job) == sorted(ALL)


def test_page_of_a_job_is_there_while_its_file_is_gone(client: Client, team: Team) -> None:
    job = checked(client, team)
    JobChunk.objects.all().delete()

    ended = work_once()

    assert ended.status == JobStatus.FAILED
    assert ended.error in client.get(reverse("data")).content.decode()
    assert not Conversation.objects.exists()
    assert job.pk == ended.pk
