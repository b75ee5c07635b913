"""The lane of documents: who asks for a text, who reads it, and what becomes of one that nobody can read."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from chat import access
from chat.core.errors import FilesUnavailable
from chat.core.isolation import parent
from chat.core.isolation.parent import ChildKilled
from chat.core.notify import QUEUED, ChangeNotifier, change_notifier, room_topic
from chat.documents import reading
from chat.documents.actions import document_of, documents_of, expect, request_reading
from chat.documents.purge import delete_unused, queue_forgotten
from chat.documents.readers import refusals
from chat.events import JsonObject
from chat.jobs import actions as jobs
from chat.jobs import kinds
from chat.jobs.kinds import READING, Task
from chat.jobs.worker import execute
from chat.models import (
    Attachment,
    Conversation,
    Document,
    DocumentPage,
    FileContent,
    Job,
    JobKind,
    JobStatus,
    Message,
    Role,
    SearchKind,
    StoredFile,
    UnsentFile,
    User,
)
from chat.search.find import found
from chat.search.sources import file_text, index
from chat.search.tokens import parse
from tests.documents.work import read_queued
from tests.runs.helpers import threads, until
from tests.support.files import store_file
from tests.support.run_fixtures import StartRunner

BODY = b"The Elbe rises in the hills."


def upload(user: User, body: bytes = BODY, **values: Any) -> StoredFile:
    values = {"name": "elbe.txt", "media_type": "text/plain", "created_by": user, **values}
    with transaction.atomic():
        file = store_file(body, **values)
        request_reading(user, file)
    return file


def document(file: StoredFile) -> Document:
    found_document = document_of(file)
    assert found_document is not None
    return found_document


def texts(file: StoredFile) -> list[str]:
    pages = DocumentPage.objects.filter(document=document(file))
    return list(pages.order_by("number").values_list("text", flat=True))


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics that are published."""
    published: list[str] = []
    monkeypatch.setattr(change_notifier, "publish", published.append)
    return published


# --- asking ---------------------------------------------------------------------------------------


@pytest.mark.databases
def test_same_bytes_are_read_once(transactional_db: None, alice: User, bob: User) -> None:
    files = [upload(alice), upload(bob), upload(alice, name="b.md", media_type="text/markdown")]
    page = upload(alice, name="elbe.html", media_type="text/html")

    assert read_queued() == 2

    assert {texts(each)[0] for each in (*files, page)} == {BODY.decode()}
    assert len(documents_of(files)) == 3
    assert Document.objects.count() == 2

    upload(bob)
    assert read_queued() == 0


def test_only_documents_are_read(db: None, alice: User) -> None:
    for media_type in ("image/png", "audio/wav", "application/octet-stream"):
        assert request_reading(alice, store_file(BODY, media_type=media_type)) is None

    assert not Job.objects.exists()


def test_reading_is_no_job_of_a_person(transactional_db: None, alice: User) -> None:
    for number in range(5):
        upload(alice, b"%d" % number)

    assert not access.jobs_of(alice).exists()
    with transaction.atomic():
        jobs.create(alice, JobKind.EXPORT, days=1)
    assert [job.kind for job in access.jobs_of(alice)] == [JobKind.EXPORT]


def test_what_was_refused_is_read_again_when_asked(transactional_db: None, alice: User) -> None:
    file = upload(alice, b"\0\1\2")
    read_queued()
    assert document(file).refusal == refusals.NOT_TEXT

    again = upload(alice, b"\0\1\2")

    assert document(again).read_at is None
    assert read_queued() == 1
    assert document(file).refusal == refusals.NOT_TEXT


# --- storing --------------------------------------------------------------------------------------


def test_document_is_stored_with_its_pages(transactional_db: None, alice: User) -> None:
    file = upload(alice)
    read_queued()

    stored = document(file)
    assert (stored.is_readable, stored.pages_count, stored.characters) == (True, 1, len(BODY))
    assert texts(file) == [BODY.decode()]
    # Ended, and gone with the next purge.
    assert Job.objects.get().status == JobStatus.DONE
    while jobs.purge_some():
        pass
    assert not Job.objects.exists()
    assert document(file).is_readable


@pytest.mark.databases
def test_runner_that_lost_the_job_stores_nothing(transactional_db: None, alice: User) -> None:
    file = upload(alice)
    first, second = uuid.uuid4(), uuid.uuid4()
    lost = jobs.claim(first, READING)
    assert lost is not None
    Job.objects.update(heartbeat_at=timezone.now() - timedelta(hours=1))
    taken = jobs.claim(second, READING)
    assert taken is not None

    execute(Task(job=lost, lease=first))
    assert document(file).read_at is None
    execute(Task(job=taken, lease=second))

    assert texts(file) == [BODY.decode()]


def test_job_that_ends_processes_ends_with_a_sentence(transactional_db: None, alice: User) -> None:
    file = upload(alice)
    for _ in range(jobs.MOST_ATTEMPTS):
        assert jobs.claim(uuid.uuid4(), READING) is not None
        Job.objects.update(heartbeat_at=timezone.now() - timedelta(hours=1))

    assert jobs.claim(uuid.uuid4(), READING) is None

    assert document(file).refusal == "The server stopped several times while this was in progress."


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ChildKilled("time", reading.limits()), refusals.TOO_SLOW),
        (ChildKilled("crash", reading.limits()), refusals.UNREADABLE),
        (FilesUnavailable("The file storage is unavailable."), "The file storage is unavailable."),
        (RuntimeError("secret"), "Something went wrong on the server."),
    ],
)
def test_failure_is_told_in_a_sentence(
    transactional_db: None,
    alice: User,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    words: str,
) -> None:
    def fail(*_: object, **__: object) -> Iterator[bytes]:
        raise error
        yield b""

    monkeypatch.setattr(reading, "read_in_child", fail)
    file = upload(alice)

    read_queued()

    assert document(file).refusal.startswith(words)
    assert "secret" not in document(file).refusal


@pytest.mark.parametrize("frame", [b"", b"[]", b'{"text": 1}', b"\xff"])
def test_only_pages_are_taken_from_a_reader(
    transactional_db: None, alice: User, monkeypatch: pytest.MonkeyPatch, frame: bytes
) -> None:
    monkeypatch.setattr(reading, "read_in_child", lambda *_, **__: (each for each in [frame]))
    file = upload(alice)

    read_queued()

    assert document(file).refusal == refusals.UNREADABLE
    assert texts(file) == []


def test_file_that_was_removed_meanwhile_is_told(transactional_db: None, alice: User) -> None:
    file = upload(alice)
    StoredFile.objects.all().delete()
    FileContent.objects.all().delete()

    read_queued()

    assert document(file).refusal == refusals.REMOVED


def test_person_who_was_deactivated_has_asked_for_others_too(
    transactional_db: None, alice: User
) -> None:
    file = upload(alice)
    User.objects.update(is_active=False)

    read_queued()

    assert document(file).is_readable


def test_nothing_of_a_file_reaches_a_command(
    transactional_db: None, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its name, nor what is in it, nor where it is: the process is always started in the same way."""
    started: list[tuple[object, ...]] = []
    start = parent.subprocess.Popen

    def popen(command: list[str], **options: Any) -> Any:
        started.append((command, options["env"], options["cwd"], options.get("shell")))
        return start(command, **options)

    monkeypatch.setattr(parent.subprocess, "Popen", popen)
    name = "../../x;$(touch x)`touch y`\n<script>.txt"
    files = [upload(alice, name=name), upload(alice, b"$(touch x); `touch y`", name="-rf")]

    read_queued()

    assert [document(file).is_readable for file in files] == [True, True]
    assert started[0] == started[1]
    assert started[0][1:] == ({}, "/", None)


# --- telling --------------------------------------------------------------------------------------


@pytest.mark.databases
def test_rooms_are_told_when_a_document_is_read(
    transactional_db: None, conversation: Conversation, alice: User, topics: list[str]
) -> None:
    sent = upload(alice, conversation=conversation)
    turn = Message.objects.create(conversation=conversation, role=Role.USER, text="Look")
    Attachment.objects.create(message=turn, file=sent)
    place = uuid.uuid4()
    for where in (str(place), "new"):
        UnsentFile.objects.create(user=alice, file=upload(alice), place=where)
    before = Conversation.objects.get(pk=conversation.pk)
    topics.clear()

    read_queued()

    assert {QUEUED, room_topic(conversation.public_id), room_topic(place)} <= set(topics)
    after = Conversation.objects.get(pk=conversation.pk)
    turn.refresh_from_db()
    assert after.revision == turn.revision == before.revision + 1
    # It is no news.
    assert after.updated_at == before.updated_at


def test_text_of_a_document_is_found(conversation: Conversation, alice: User) -> None:
    body = b"From: ana@example.com\n\n" + BODY
    named = {"name": "fluss.eml", "media_type": "message/rfc822"}
    file = upload(alice, body, conversation=conversation, **named)
    turn = Message.objects.create(conversation=conversation, role=Role.USER, text="Look")
    Attachment.objects.create(message=turn, file=file)
    with transaction.atomic():
        index(SearchKind.FILE, file)

    assert not found(alice, parse("rises"), are_few=True)

    read_queued()

    assert file_text(file) == f"fluss.eml\n{body.decode()}"
    [hit] = found(alice, parse("rises"), are_few=True)
    assert (hit.kind, hit.source) == (SearchKind.FILE, file.pk)


# --- lanes ----------------------------------------------------------------------------------------


async def test_export_of_an_hour_delays_no_document(
    transactional_db: None, alice: User, start_runner: StartRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def export(task: Task) -> JsonObject:
        has_begun.set()
        may_end.wait(60)
        return {}

    monkeypatch.setitem(kinds._works, JobKind.EXPORT, export)
    expires_at = timezone.now() + timedelta(days=1)
    await threads.call(Job.objects.create, kind=JobKind.EXPORT, user=alice, expires_at=expires_at)
    notifier = ChangeNotifier()
    await start_runner(notifier=notifier)
    await until(has_begun.is_set)

    file = await threads.call(upload, alice)
    notifier.dispatch(READING.topic)
    await until(lambda: document(file).is_readable)

    running = await threads.call(Job.objects.get, kind=JobKind.EXPORT)
    assert running.status == JobStatus.RUNNING
    may_end.set()


async def test_two_documents_are_read_at_once(
    transactional_db: None, alice: User, start_runner: StartRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    working, most, lock = 0, 0, threading.Lock()
    both = threading.Barrier(2)

    def read(task: Task) -> JsonObject:
        nonlocal working, most
        with lock:
            working += 1
            most = max(most, working)
        both.wait(60)
        with lock:
            working -= 1
        return reading.read_document(task)

    monkeypatch.setitem(kinds._works, JobKind.READ, read)
    files = [await threads.call(upload, alice, b"%d" % number) for number in range(4)]
    await start_runner()

    await until(lambda: all(document(file).is_readable for file in files))

    assert most == 2


# --- what is not needed any more ------------------------------------------------------------------


@pytest.mark.databases
def test_document_goes_with_the_last_file(transactional_db: None, alice: User) -> None:
    files = [upload(alice), upload(alice, name="b.txt")]
    read_queued()

    files[0].delete()
    assert not delete_unused()
    assert document(files[1]).is_readable
    files[1].delete()
    delete_unused()

    assert not Document.objects.exists()
    assert not DocumentPage.objects.exists()


@pytest.mark.databases
def test_forgotten_document_is_queued_again(transactional_db: None, alice: User) -> None:
    known, nobodys = upload(alice), upload(alice, b"Of nobody", created_by=None)
    Job.objects.all().delete()

    queue_forgotten()
    queue_forgotten()

    assert read_queued() == 1
    assert document(known).is_readable
    assert document(nobodys).refusal == refusals.REMOVED


@pytest.mark.databases
def test_many_documents_of_an_import_delay_no_other(
    transactional_db: None, alice: User, bob: User, conversation: Conversation
) -> None:
    # Their author has no account here.
    brought = [
        store_file(b"%d" % number, conversation=conversation, media_type="text/plain")
        for number in range(25)
    ]
    with transaction.atomic():
        expect([*brought, *brought])
    assert not Job.objects.exists()

    queue_forgotten()
    queue_forgotten()
    file = upload(bob)

    assert [job.user for job in Job.objects.order_by("pk")] == [*[alice] * 10, bob]
    rounds = 0
    while read_queued():
        queue_forgotten()
        rounds += 1
    assert rounds == 3
    assert all(each.is_readable for each in documents_of([*brought, file]).values())
