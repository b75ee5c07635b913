"""Forks: the copy shows what the original shows, belongs to its owner alone, and leads back."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat import events
from chat.core.errors import ActionRefused, AnswerLive
from chat.exports.json_form import write_json
from chat.exports.reading import read_source
from chat.files.actions import new_file
from chat.forks import actions
from chat.forks.actions import fork
from chat.models import (
    Attachment,
    Conversation,
    FileContent,
    Fork,
    Message,
    Run,
    RunPersonalInstructions,
    StoredFile,
    User,
    Visibility,
)
from chat.models.tree import path_to
from chat.search.sources import KINDS, missing
from tests.imports.rich_room import fill
from tests.support.answers import png
from tests.support.rooms import Room, end_run_with, get_page, message_log, text_of, url_of
from tests.support.selection import sample

SignIn = Callable[[User], Client]
# What differs between any two records.
PASSING = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32,33}|data-check=\"[^\"]*\""
)


def shown_turns(client: Client, conversation: Conversation) -> list[list[str]]:
    """The author or model, the time, and the texts of each turn on the page, without ids."""
    page = get_page(client, url_of("conversation", conversation))
    return [
        [
            PASSING.sub("", html.tostring(part, encoding="unicode", with_tail=False))
            for name in ("turn-head", "turn-body", "runs")
            for part in turn.find_class(name)
        ]
        for turn in page.find_class("turn")
    ]


def forked(user: User, room: Room, at: Message | None = None) -> Conversation:
    return fork(user, room.conversation, at=at, idempotency_key=uuid.uuid4())


@pytest.mark.databases
def test_every_path_is_copied_as_it_is_shown(
    room: Room, bob: User, signed_in: SignIn, subtests: pytest.Subtests
) -> None:
    fill(room, bob)
    client = signed_in(bob)
    messages = {each.pk: each for each in Message.objects.all()}
    contents = FileContent.objects.count()
    # Some files of the example were stored without.
    not_indexed = [missing(kind).count() for kind in KINDS]
    answers = [each for each in messages.values() if each.role == "assistant"]
    for answer in [answers[-1], *sample(answers[:-1], 2)]:
        with subtests.test(msg=f"message {answer.pk}"):
            path = path_to(answer, messages)
            client.get(reverse("message_find", args=[answer.public_id]))
            original = shown_turns(client, room.conversation)

            copy = forked(bob, room, answer)

            assert shown_turns(client, copy) == original[: len(path)]
            export = json.loads(b"".join(write_json(read_source(bob, copy))))
            assert len(export["turns"]) == len(path)
            assert (copy.owner, copy.visibility) == (bob, Visibility.PRIVATE)
            assert [missing(kind).count() for kind in KINDS] == not_indexed
    assert FileContent.objects.count() == contents


def test_run_details_of_a_copy_say_that_it_has_no_recording(
    room: Room, bob: User, signed_in: SignIn
) -> None:
    room.turn("First")
    run = Run.objects.get(conversation=forked(bob, room))
    client = signed_in(bob)

    texts = {
        tab: text_of(get_page(client, f"{url_of('run_details', run)}?tab={tab}"))
        for tab in ("timeline", "events", "usage", "request", "recording")
    }

    assert "No recording" in texts["recording"]
    assert "4 events" in texts["events"] or "5 events" in texts["events"]


def test_copy_belongs_to_its_owner_alone_and_both_go_on_apart(
    room: Room, alice: User, bob: User, signed_in: SignIn
) -> None:
    room.turn("First")
    copy = forked(bob, room)
    url = url_of("conversation", copy)

    assert signed_in(alice).get(url).status_code == 404
    theirs = Room(copy, room.upstream)
    assert theirs.send(signed_in(bob), theirs.form(parent=copy.messages.last())).status_code == 200

    assert (room.conversation.messages.count(), copy.messages.count()) == (2, 4)


def test_line_links_to_the_original_while_it_is_readable(
    room: Room, alice: User, bob: User, signed_in: SignIn
) -> None:
    room.turn("First")
    copy = forked(bob, room)
    client = signed_in(bob)

    def origin() -> html.HtmlElement:
        (line,) = get_page(client, url_of("conversation", copy)).find_class("origin")
        return line

    assert text_of(origin()).startswith(f"Forked from {room.conversation.title} ·")
    assert [each.get("href") for each in origin().iter("a")] == [room.url]
    Conversation.objects.filter(pk=room.conversation.pk).update(visibility=Visibility.PRIVATE)
    assert text_of(origin()).startswith("Forked from a conversation you don’t have access to")
    assert room.conversation.title not in text_of(origin())
    room.conversation.delete()
    assert get_page(client, url_of("conversation", copy)).find_class("origin") == []


def test_same_form_makes_one_conversation(room: Room, bob: User, signed_in: SignIn) -> None:
    room.turn("First")
    client, data = signed_in(bob), {"key": str(uuid.uuid4())}

    answers = [client.post(url_of("conversation_fork", room.conversation), data) for _ in range(2)]

    assert answers[0]["Location"] == answers[1]["Location"]
    assert Fork.objects.count() == 1


def test_live_answer_is_left_out_or_refused(room: Room, bob: User) -> None:
    first = room.turn("First")
    live = room.ask("Second", first).message

    copy = forked(bob, room)

    assert [each.text for each in copy.messages.filter(role="user")] == ["First"]
    with pytest.raises(AnswerLive):
        forked(bob, room, live)


def test_answer_that_continues_meanwhile_is_not_copied(
    room: Room, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner would take its copy for a request."""
    answer = room.turn("First")
    Run.objects.filter(message=answer).update(status="queued")
    monkeypatch.setattr(actions, "has_ended", lambda messages: True)

    with pytest.raises(AnswerLive):
        forked(bob, room)

    assert (Run.objects.count(), Fork.objects.count()) == (1, 0)


def test_nothing_to_copy_is_refused(room: Room, bob: User) -> None:
    room.ask("First")

    with pytest.raises(ActionRefused):
        forked(bob, room)


def test_message_of_a_person_gets_an_answer_that_can_be_tried_again(
    room: Room, bob: User, signed_in: SignIn
) -> None:
    question = room.turn("First").parent
    copy = forked(bob, room, question)
    client = signed_in(bob)

    (retry,) = get_page(client, url_of("conversation", copy)).xpath(
        "//form[contains(@action, '/retry/')]/@action"
    )

    data = {"key": str(uuid.uuid4()), "choice": room.form()["choice"]}
    assert client.post(retry, data).status_code == 302
    assert Run.objects.filter(conversation=copy, status="queued").exists()


SECRET = "Never say beaver."


@pytest.fixture
def with_settings(room: Room) -> Room:
    """Asked for with settings that its server repeats."""
    run = room.ask("First")
    Run.objects.filter(pk=run.pk).update(
        system_prompt=SECRET, parameters={"stop": SECRET}, tools=[{"name": SECRET}], notes=[SECRET]
    )
    log = message_log("So.")
    echo = {"instructions": SECRET}
    log.insert(1, events.VendorRaw(dialect="lmstudio", event="echo", data=echo, text=SECRET))
    log.insert(2, events.MetaUpdate(values={"upstream_result": echo, "debug": echo}))
    end_run_with(run, log)
    Conversation.objects.filter(pk=room.conversation.pk).update(
        system_prompt=SECRET, parameters={"stop": SECRET}, visibility="team", shared_role="reader"
    )
    room.conversation.refresh_from_db()
    return room


@pytest.mark.databases
def test_copy_has_the_settings_only_of_who_may_see_them(
    with_settings: Room, alice: User, bob: User
) -> None:
    def stored(user: User) -> str:
        copy = forked(user, with_settings)
        run = Run.objects.get(conversation=copy)
        bodies = b"".join(bytes(body) for body in run.segments.values_list("body", flat=True))
        return f"{vars(copy)} {vars(run)} {bodies!r}"

    assert stored(alice).count(SECRET) >= 8
    assert SECRET not in stored(bob)


def test_attached_files_count_for_the_owner_of_the_copy(
    room: Room, alice: User, bob: User, settings: object
) -> None:
    message = room.turn("First").parent
    file = new_file("a.png", png())
    stored = StoredFile.objects.store(
        room.conversation.pk, name="a.png", media_type="image/png", content=file, by=alice
    )
    Attachment.objects.create(message=message, file=stored)
    settings.STORED_BYTES_PER_PERSON = 1

    with pytest.raises(ActionRefused):
        forked(bob, room)
    settings.STORED_BYTES_PER_PERSON = 10**9
    forked(bob, room)

    assert list(StoredFile.objects.order_by("pk").values_list("created_by__name", "content")) == [
        ("Alice", file.sha256),
        ("Bob", file.sha256),
    ]


def test_deleting_the_original_leaves_the_copy(room: Room, bob: User, signed_in: SignIn) -> None:
    fill(room, bob)
    copy = forked(bob, room)
    before = shown_turns(signed_in(bob), copy)
    room.conversation.refresh_from_db()

    room.conversation.delete()

    assert shown_turns(signed_in(bob), copy) == before


def test_copy_has_the_personal_instructions_of_its_owner_only(
    with_settings: Room, alice: User, bob: User
) -> None:
    run = Run.objects.get(conversation=with_settings.conversation)
    RunPersonalInstructions.objects.create(run=run, user=alice, text="I keep bees.")

    texts = {
        user.name: list(
            RunPersonalInstructions.objects.filter(
                run__conversation=forked(user, with_settings)
            ).values_list("text", flat=True)
        )
        for user in (alice, bob)
    }

    assert texts == {"Alice": ["I keep bees."], "Bob": []}
