"""Runs that wait until a document is read: visibly, without a place of their server, and to a good end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone

from chat.conversations.actions.conversation import stop_run
from chat.models import AwaitedDocument, Job, Message, Run, User
from chat.runs import queue
from chat.runs.file_parts import DocumentUnread
from chat.runs.queue import read_queue
from chat.runs.reaper import reap
from tests.runs.helpers import row_of, text_of, threads, until, until_ended
from tests.runs.test_attached_files import question_of
from tests.runs.waiting import saying
from tests.support.documents import attach_file, read, refuse, unread
from tests.support.rooms import get_page, url_of
from tests.support.run_fixtures import Claim, Execute, MakeRun, StartRunner
from tests.support.upstream.fake import FakeUpstream

pytestmark = pytest.mark.databases(slow=True)

HOSTILE = "<img src=x>\u202e\n{{ 7 }}.pdf"


@pytest.fixture(autouse=True)
def nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runners have no periodic tasks: documents are read when a test says so."""
    monkeypatch.setattr("chat.runs.runner._periodic_tasks", {})


def attach_unread(run: Run, name: str = "report.pdf", body: bytes = b"%PDF-1") -> Message:
    message = question_of(run)
    unread(attach_file(message, name, body).file)
    return message


def file_of(run: Run) -> object:
    return question_of(run).attachments.get().file


@pytest.fixture
def begin_waiting(queue_run: Execute, start_runner: StartRunner) -> Execute:
    """A run with an unread document, which a runner has begun to wait for."""

    async def begin(name: str = "report.pdf") -> Run:
        run = await queue_run(saying("It says so."), dialect="openai_chat")
        await threads.call(attach_unread, run, name)
        await start_runner()
        await until(AwaitedDocument.objects.exists)
        return run

    return begin


@pytest.mark.databases
async def test_run_is_sent_when_the_text_is_there(
    fake: FakeUpstream, begin_waiting: Execute
) -> None:
    run = await begin_waiting()

    waiting = await row_of(run)
    places = (await threads.call(read_queue)).places
    assert (waiting.status, waiting.runner_id, waiting.request_sent_at) == ("queued", None, None)
    assert places == {run.public_id: "Reading report.pdf"}
    assert fake.posts == 0

    await threads.call(lambda: read(file_of(run), "The text."))
    ended = await until_ended(run)

    assert text_of(ended) == "It says so."
    assert "The text." in str(fake.requests[-1].body["messages"])
    assert fake.posts == 1


async def test_refused_document_ends_the_run_with_its_reason(
    fake: FakeUpstream, begin_waiting: Execute
) -> None:
    run = await begin_waiting(HOSTILE)

    await threads.call(lambda: refuse(file_of(run), "The file is encrypted."))
    ended = await until_ended(run)

    assert ended.status == "failed"
    assert ended.error_message.startswith("“<img src=x> {{ 7 }}.pdf” can’t be read: The file is")
    assert fake.posts == 0


async def test_waiting_run_can_be_stopped(begin_waiting: Execute, alice: User) -> None:
    run = await begin_waiting()

    await threads.call(stop_run, alice, run)
    ended = await until_ended(run)

    assert (ended.status, ended.stop_requested_by_id) == ("stopped", alice.pk)


@pytest.mark.databases
def test_waiting_run_takes_no_place_of_its_server(claim: Claim, make_run: MakeRun) -> None:
    waiting = claim()
    assert waiting.runner_id is not None
    document = unread(attach_file(question_of(waiting)).file)
    queue.await_document(waiting.runner_id, waiting.pk, DocumentUnread(document.pk, "a.pdf"))
    other = make_run(concurrency_limit=1)

    claimed = queue.claim(waiting.runner_id, limit=10)
    places = read_queue()

    assert [run.pk for run in claimed.runs] == [other.pk]
    assert places.places == {waiting.public_id: "Reading a.pdf"}
    assert places.numbers == {}


def test_run_that_was_stopped_while_it_began_to_wait_ends(claim: Claim) -> None:
    run = claim()
    assert run.runner_id is not None
    document = unread(attach_file(question_of(run)).file)
    Run.objects.filter(pk=run.pk).update(stop_requested_at=timezone.now())

    queue.await_document(run.runner_id, run.pk, DocumentUnread(document.pk, "a.pdf"))

    run.refresh_from_db()
    assert run.status == "stopped"
    assert run.finished_at is not None


def test_run_of_another_runner_is_left_alone(claim: Claim) -> None:
    run = claim()
    document = unread(attach_file(question_of(run)).file)

    queue.await_document(claim().runner_id, run.pk, DocumentUnread(document.pk, "a.pdf"))

    run.refresh_from_db()
    assert run.status == "running"
    assert not AwaitedDocument.objects.exists()


@pytest.mark.databases
def test_lost_runner_leaves_a_waiting_run_queued(claim: Claim) -> None:
    run = claim()
    attach_unread(run)

    reap(everything_else_is_dead=True)

    run.refresh_from_db()
    assert run.status == "queued"


async def test_document_that_nobody_reads_is_asked_for(
    queue_run: Execute, start_runner: StartRunner
) -> None:
    run = await queue_run(saying("Yes."), dialect="openai_chat")
    await threads.call(lambda: attach_file(question_of(run)))

    await start_runner()
    await until(AwaitedDocument.objects.exists)

    jobs = await threads.call(lambda: list(Job.objects.values_list("kind", "document__kind")))
    assert jobs == [("read", "pdf")]


def test_name_of_the_file_is_text_on_the_page(
    claim: Claim, signed_in: Callable[[User], Client], alice: User
) -> None:
    run = claim()
    assert run.runner_id is not None
    document = unread(attach_file(question_of(run)).file)
    queue.await_document(run.runner_id, run.pk, DocumentUnread(document.pk, HOSTILE))

    page = get_page(signed_in(alice), url_of("conversation", run.conversation))

    (place,) = page.get_element_by_id("strip").find_class("place")
    assert place.text_content() == "Reading <img src=x> {{ 7 }}.pdf"
