"""Messages that are sent while an answer runs wait for its end, and are sent once and in order."""

from __future__ import annotations

import uuid

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chat.files.purge import erase_unused
from chat.message_queue import tasks
from chat.models import (
    Attachment,
    Conversation,
    FileContent,
    Membership,
    QueuedMessage,
    Run,
    RunStatus,
    StoredFile,
    Team,
    TeamRole,
    Upstream,
    User,
)
from chat.presets.actions import Content, create_preset
from tests.message_queue.conftest import Queue, SendDue, queued
from tests.message_queue.test_states import S
from tests.support.answers import png
from tests.support.rooms import HTMX, Patches, Room, end_run, get_page, url_of

pytestmark = pytest.mark.databases(slow=True)


# --- into the queue -------------------------------------------------------------------------


def test_message_below_a_live_answer_is_queued(as_bob: Client, queue: Queue, bob: User) -> None:
    response = queue.post(as_bob, "Next", **{"lmstudio-temperature": "0.5"})

    row = queued("Next")
    assert response.status_code == 200
    assert response.headers["HX-Trigger"] == "room:accepted"
    assert "BobNext" in Patches(response).text("#queue")
    assert S.ANSWER.sentence in Patches(response).text("#queue")
    assert (row.author, row.after, row.model) == (bob, queue.run.message, "demo/model")
    assert row.parameters == {"temperature": 0.5}
    assert queue.said == ["First"]


@pytest.mark.parametrize("keeps", [False, True])
def test_queued_message_carries_the_choice_of_the_composer(
    as_bob: Client, queue: Queue, send_due: SendDue, team: Team, bob: User, keeps: bool
) -> None:
    content = Content(upstream=queue.room.upstream, model="demo/model")
    before, chosen = (
        create_preset(bob, team, name=name, content=content).preset.versions.get()
        for name in ("Before", "Chosen")
    )
    Conversation.objects.filter(pk=queue.room.conversation.pk).update(preset_version=before)
    fields: dict[str, object] = {"lmstudio-temperature": "0.5", "system_prompt": "Be brief."}
    if not keeps:
        fields["preset"] = chosen.key

    queue.post(as_bob, "Next", choice=f"{queue.room.upstream.public_id.hex}:other/model", **fields)
    queue.end()
    send_due()

    run = Run.objects.latest("pk")
    assert (run.model, run.system_prompt) == ("other/model", "Be brief.")
    assert run.parameters["temperature"] == 0.5
    room = Conversation.objects.get(pk=queue.room.conversation.pk)
    assert (room.model, room.system_prompt) == ("other/model", "Be brief.")
    # A page that names no preset leaves the conversation's as it is.
    assert room.preset_version == (before if keeps else chosen)


def test_queued_message_outlives_its_preset(
    as_bob: Client, queue: Queue, send_due: SendDue, team: Team, bob: User
) -> None:
    content = Content(upstream=queue.room.upstream, model="demo/model")
    preset = create_preset(bob, team, name="Chosen", content=content).preset
    queue.post(as_bob, "Next", preset=preset.versions.get().key, system_prompt="Be brief.")

    preset.delete()
    queue.end()
    send_due()

    assert Run.objects.latest("pk").system_prompt == "Be brief."
    assert Conversation.objects.get(pk=queue.room.conversation.pk).preset_version is None


def test_message_that_was_overtaken_is_queued(as_bob: Client, room: Room) -> None:
    answer = room.turn("First")
    queue = Queue(room, room.ask("Second", answer))

    response = queue.post(as_bob, "Mine", below=answer)

    assert response.status_code == 200
    assert queued("Mine").after == queue.run.message


def test_message_behind_a_queue_joins_it(as_alice: Client, as_bob: Client, queue: Queue) -> None:
    queue.post(as_bob, "Bob's")
    queue.end()

    # No runner has sent Bob's so far: it goes first.
    response = queue.post(as_alice, "Alice's")

    assert response.status_code == 200
    assert (queue.said, queue.waiting) == (["First", "Bob's"], ["Alice's"])


def test_message_written_while_the_queue_is_on_hold_is_sent(
    as_alice: Client, as_bob: Client, queue: Queue, send_due: SendDue
) -> None:
    queue.post(as_bob, "Bob's")
    queue.end(RunStatus.FAILED)

    queue.post(as_alice, "Alice's")
    assert (queue.said, queue.waiting) == (["First", "Alice's"], ["Bob's"])
    end_run(Run.objects.latest("pk"))
    send_due()

    assert queue.said == ["First", "Alice's", "Bob's"]


def test_send_needs_no_runner(as_alice: Client, as_bob: Client, queue: Queue) -> None:
    queue.post(as_bob, "Bob's")
    queue.end(RunStatus.FAILED)

    queue.act(as_alice, "send", "Bob's")

    assert queue.said == ["First", "Bob's"]


@pytest.mark.databases
def test_same_message_is_queued_once(as_bob: Client, queue: Queue, send_due: SendDue) -> None:
    key = uuid.uuid4()

    statuses = [queue.post(as_bob, "Next", key=key).status_code for _ in range(2)]
    other = queue.post(as_bob, "Other words", key=key)
    queue.end()
    send_due()
    # The response was lost; the row is gone, and its answer runs.
    again = queue.post(as_bob, "Next", key=key)

    assert statuses == [200, 200]
    assert (other.status_code, again.status_code) == (409, 200)
    assert "was already sent" in Patches(other).text("#composer-note")
    assert queue.said == ["First", "Next"]
    assert queue.waiting == []


def test_empty_message_and_a_full_queue_are_refused(
    as_bob: Client, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.message_queue.actions.MOST_QUEUED", 1)
    queue.post(as_bob, "One")

    empty, full = queue.post(as_bob, " "), queue.post(as_bob, "Two")

    assert (empty.status_code, full.status_code) == (409, 409)
    assert "Only 1 message can be queued" in Patches(full).text("#composer-note")
    assert queue.waiting == ["One"]


def test_without_scripts_the_page_shows_the_queue(as_bob: Client, queue: Queue) -> None:
    response = queue.post(as_bob, "Next", headers={})

    page = get_page(as_bob, response.url)
    (line,) = page.xpath("//*[@id='queue']//li")
    assert "Next" in line.text_content()
    assert page.xpath("//button[@id='queue-message']")


# --- out of the queue ---------------------------------------------------------------------------


@pytest.mark.databases
def test_messages_are_sent_one_after_the_other(
    as_alice: Client, as_bob: Client, queue: Queue, send_due: SendDue, bob: User
) -> None:
    queue.post(as_bob, "Second")
    key = queued("Second").idempotency_key
    queue.post(as_alice, "Third")

    send_due()
    assert queue.said == ["First"]
    queue.end()
    send_due()
    second = Run.objects.latest("pk")
    assert (queue.said, queue.waiting) == (["First", "Second"], ["Third"])
    assert (second.requested_by, second.idempotency_key) == (bob, key)
    assert second.status == RunStatus.QUEUED
    end_run(second)
    send_due()

    assert (queue.said, queue.waiting) == (["First", "Second", "Third"], [])


ENDINGS = {
    RunStatus.COMPLETED: (["First", "Next"], ""),
    RunStatus.INCOMPLETE: (["First", "Next"], ""),
    RunStatus.WAITING: (["First"], S.PAUSE.sentence),
    RunStatus.FAILED: (["First"], S.FAILED.sentence),
    RunStatus.CUT: (["First"], S.CUT.sentence),
    RunStatus.INTERRUPTED: (["First"], S.INTERRUPTED.sentence),
    RunStatus.STOPPED: (["First"], S.STOPPED.sentence),
}


def test_only_an_answer_that_has_ended_well_sends(
    as_bob: Client, queue: Queue, send_due: SendDue, subtests: pytest.Subtests
) -> None:
    for status, (said, sentence) in ENDINGS.items():
        with subtests.test(msg=str(status)):
            Conversation.objects.exclude(pk=queue.room.conversation.pk).delete()
            queue.room.conversation.messages.all().delete()
            queue.run = queue.room.ask("First")
            queue.post(as_bob, "Next")
            queue.end(status)
            send_due()

            assert queue.said == said
            assert sentence in queue.room.source(as_bob)


def test_send_continues_after_a_failure(
    as_alice: Client, as_bob: Client, queue: Queue, send_due: SendDue
) -> None:
    for text in ("Second", "Third"):
        queue.post(as_bob, text)
    queue.end(RunStatus.FAILED)
    send_due()

    response = queue.act(as_alice, "send", "Second")
    send_due()

    assert response.status_code == 200
    assert (queue.said, queue.waiting) == (["First", "Second"], ["Third"])
    assert queued("Third").after == Run.objects.latest("pk").message


@pytest.mark.databases
def test_send_now_stops_and_comes_first(
    as_alice: Client, as_bob: Client, queue: Queue, send_due: SendDue, alice: User
) -> None:
    Run.objects.update(status=RunStatus.RUNNING)
    for text in ("Second", "Third"):
        queue.post(as_bob, text)

    queue.act(as_alice, "send", "Third")
    send_due()
    stopped = Run.objects.get()
    assert (stopped.stop_requested_by, queue.said) == (alice, ["First"])
    queue.end(RunStatus.STOPPED)
    send_due()

    assert (queue.said, queue.waiting) == (["First", "Third"], ["Second"])


def test_send_now_of_a_queued_run_needs_no_runner(
    as_bob: Client, queue: Queue, send_due: SendDue
) -> None:
    queue.post(as_bob, "Next")

    queue.act(as_bob, "send", "Next")
    send_due()

    assert queue.said == ["First", "Next"]


def test_queue_follows_another_attempt(as_bob: Client, queue: Queue, send_due: SendDue) -> None:
    queue.post(as_bob, "Next")
    queue.end(RunStatus.FAILED)
    as_bob.post(url_of("message_retry", queue.run.message), queue.room.form())
    again = Run.objects.latest("pk")

    send_due()
    assert queued("Next").after == again.message
    end_run(again)
    send_due()

    assert Run.objects.latest("pk").message.parent.parent == again.message


def test_queue_follows_what_a_program_sends(
    as_bob: Client, queue: Queue, send_due: SendDue
) -> None:
    queue.post(as_bob, "Next")
    queue.end()
    other = queue.room.ask("By a program", queue.run.message)

    send_due()
    assert queued("Next").after == other.message
    end_run(other)
    send_due()

    assert queue.said == ["First", "By a program", "Next"]


@pytest.mark.databases
def test_stop_at_the_last_moment_holds_the_queue(
    as_bob: Client, queue: Queue, send_due: SendDue
) -> None:
    queue.post(as_bob, "Next")
    queue.end()
    Run.objects.update(stop_requested_at=timezone.now())

    send_due()

    assert (queue.said, queue.waiting) == (["First"], ["Next"])


# --- refusals ------------------------------------------------------------------------------------


def _lose_right(bob: User) -> None:
    Membership.objects.filter(user=bob).update(role=TeamRole.VIEWER)


def _leave(bob: User) -> None:
    Membership.objects.filter(user=bob).delete()


def _disable_server(bob: User) -> None:
    Upstream.objects.update(is_enabled=False)


def _disable_model(bob: User) -> None:
    models = [{"id": "demo/model", "label": "Demo", "detail": {}, "is_off": True}]
    Upstream.objects.update(model_list=models)


REFUSALS = {
    _lose_right: "no longer has write access",
    _leave: "no longer has write access",
    _disable_server: "server is no longer available",
    _disable_model: "model is no longer available",
}


@pytest.mark.parametrize("happens", REFUSALS, ids=lambda each: each.__name__)
def test_what_is_refused_stays_with_the_reason(
    as_alice: Client,
    as_bob: Client,
    queue: Queue,
    send_due: SendDue,
    bob: User,
    happens: object,
) -> None:
    queue.post(as_bob, "Bob's")
    queue.post(as_alice, "Alice's")
    queue.end()
    happens(bob)  # type: ignore[operator]

    send_due()

    page = queue.room.source(as_alice)
    assert REFUSALS[happens] in page  # type: ignore[index]
    assert S.REFUSED.sentence in page
    assert (queue.said, queue.waiting) == (["First"], ["Bob's", "Alice's"])


def test_refused_message_is_sent_again_after_an_edit(
    as_bob: Client, queue: Queue, send_due: SendDue, settings: object
) -> None:
    queue.post(as_bob, "Next")
    queue.end()
    settings.RUNS_PER_PERSON = 0  # type: ignore[attr-defined]
    send_due()
    assert "in progress or queued" in queued("Next").refusal

    settings.RUNS_PER_PERSON = 10  # type: ignore[attr-defined]
    queue.act(as_bob, "edit", "Next", text="Next, better")
    send_due()

    assert queue.said == ["First", "Next, better"]


def test_nothing_is_sent_into_the_trash(as_bob: Client, queue: Queue, send_due: SendDue) -> None:
    queue.post(as_bob, "Next")
    queue.end()
    Conversation.objects.update(deleted_at=timezone.now())
    send_due()
    assert (queue.said, queued("Next").refusal) == (["First"], "")

    Conversation.objects.update(deleted_at=None)
    send_due()

    assert queue.said == ["First", "Next"]


def test_queue_goes_with_its_author_and_its_conversation(
    as_alice: Client, as_bob: Client, queue: Queue, bob: User
) -> None:
    queue.post(as_bob, "Bob's")
    queue.post(as_alice, "Alice's")

    bob.delete()
    assert queue.waiting == ["Alice's"]
    queue.room.conversation.delete()

    assert queue.waiting == []


# --- edit and remove ---------------------------------------------------------------------------------


@pytest.mark.databases
def test_author_edits_and_others_do_not(as_alice: Client, as_bob: Client, queue: Queue) -> None:
    queue.post(as_bob, "Next")
    url = url_of("queued_message_edit", queued("Next"))

    form = as_bob.get(url, headers=HTMX).content.decode()
    edited = as_bob.post(url, {"text": "Next, better"}, headers=HTMX)
    others = as_alice.post(url, {"text": "Mine"}, headers=HTMX)

    assert "Next</textarea>" in form
    assert "Next, better" in Patches(edited).text("#queue")
    assert others.status_code == 403
    assert queue.waiting == ["Next, better"]
    assert as_bob.post(url, {"text": ""}, headers=HTMX).status_code == 422


@pytest.mark.databases
def test_author_and_owner_remove(
    as_alice: Client, as_bob: Client, queue: Queue, subtests: pytest.Subtests
) -> None:
    for author, remover, status in (
        (as_bob, as_bob, 200),
        (as_bob, as_alice, 200),
        (as_alice, as_bob, 403),
    ):
        with subtests.test(status=status):
            queue.post(author, "Next")
            offered = "Remove queued message" in queue.room.source(remover)

            response = queue.act(remover, "remove", "Next")

            assert response.status_code == status
            assert offered == (status == 200)
            QueuedMessage.objects.all().delete()


@pytest.mark.databases
def test_message_that_was_sent_meanwhile_is_not_found(
    as_bob: Client, queue: Queue, send_due: SendDue
) -> None:
    queue.post(as_bob, "Next")
    urls = [url_of(f"queued_message_{verb}", queued("Next")) for verb in ("edit", "remove", "send")]
    queue.end()
    send_due()

    statuses = {as_bob.post(url, {"text": "Late"}, headers=HTMX).status_code for url in urls}

    assert statuses == {404}
    assert queue.said == ["First", "Next"]


# --- files -------------------------------------------------------------------------------------------


def picture() -> SimpleUploadedFile:
    return SimpleUploadedFile("spring.png", png(), content_type="image/png")


def test_attached_pictures_are_sent_with_it(
    as_bob: Client, queue: Queue, send_due: SendDue
) -> None:
    queue.post(as_bob, "Look", uploads=[picture()])
    assert "1 file" in queue.room.source(as_bob)
    assert Attachment.objects.count() == 0

    queue.end()
    send_due()

    attached = Attachment.objects.get(message__text="Look")
    assert attached.file == StoredFile.objects.get()


def test_removed_message_leaves_no_file(as_bob: Client, queue: Queue) -> None:
    queue.post(as_bob, "Look", uploads=[picture()])

    queue.act(as_bob, "remove", "Look")
    erase_unused()

    assert (StoredFile.objects.count(), FileContent.objects.count()) == (0, 0)


# --- cost --------------------------------------------------------------------------------------------


class Calls:
    """The calls that would make statements."""

    def __init__(self) -> None:
        self.made: list[object] = []

    async def call(self, work: object) -> tuple[()]:
        self.made.append(work)
        return ()


async def test_answer_that_another_process_ends_is_followed_by_a_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # That one was killed, or is of an earlier version.
    monkeypatch.setattr(tasks, "_has_queued", True)
    calls = Calls()

    await tasks.SEND_LATE.make(None, calls)()  # type: ignore[arg-type]

    assert calls.made == [tasks.look]


async def test_end_of_an_answer_without_a_queue_costs_no_statement() -> None:
    calls = Calls()
    after_end, late = (
        task.make(None, calls)  # type: ignore[arg-type]
        for task in (tasks.SEND_AFTER_ANSWER, tasks.SEND_LATE)
    )

    for _ in range(3):
        await after_end()
    assert calls.made == []
    await late()
    await late()

    assert calls.made == [tasks.look]


def test_process_knows_whether_anything_is_queued(as_bob: Client, queue: Queue) -> None:
    with CaptureQueriesContext(connection) as looked:
        tasks.look()
    assert (len(looked), tasks._has_queued) == (1, False)

    queue.post(as_bob, "Next")
    tasks.look()

    assert tasks._has_queued
