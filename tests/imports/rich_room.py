"""A conversation with everything that an export has: branches, two people, pictures, questions with
answers, results of tools, artifacts and a mockup."""

from __future__ import annotations

import uuid

from django.db import transaction

from chat import events
from chat.conversations.actions.messages import ModelChoice, choose_branch, send_message
from chat.files.actions import new_file
from chat.models import Message, MockupFile, NewContent, Question, Run, StoredFile, User
from chat.questions import actions
from chat.runs.outcomes import write_ending
from chat.runs.resume import opening
from tests.exports.scenes import played
from tests.support.answers import png
from tests.support.browser.scenes import SCENES, Scene
from tests.support.rooms import Room, end_run, end_run_with, message_log

RESULT = "Three invoices are open."


def scene(model: str, text: str) -> Scene:
    return next(each for each in SCENES if (each.model, each.text) == (model, text))


def fill(room: Room, bob: User) -> None:
    first = room.turn("First version")
    room.turn("Second version")
    played(room, scene("demo-mockup", "Build it, then update it."))
    go_on(room)
    choose_branch(room.conversation.owner, first.parent)
    asked = _with_picture(room, bob, first)
    played(room, scene("demo-artifacts", "Write it down."), asked)
    called = _call(room, asked)
    actions.give_result(room.conversation.owner, called, RESULT)
    go_on(room)
    played(room, scene("demo-question", "Help me."), called.run.message)
    actions.refuse(bob, Question.objects.get(kind="ask"), "I’d rather not")
    go_on(room)


def _with_picture(room: Room, person: User, below: Message) -> Message:
    run = send_message(
        person,
        room.conversation,
        parent=below,
        text="Look at **this**.",
        choice=ModelChoice(
            upstream=room.upstream,
            model="demo/model",
            parameters={"temperature": 0.5},
            system_prompt="Be brief.",
        ),
        idempotency_key=uuid.uuid4(),
        attachments=[new_file("a picture.png", png())],
    )
    end_run(run)
    return run.message


def _call(room: Room, below: Message) -> Question:
    """A run that waits for the result of a tool."""
    run = room.ask("Which invoices are open?", below)
    call = {"item": 0, "tool": "find_invoices", "call_id": "call-1"}
    item = events.ToolCallItem(
        tool="find_invoices", arguments={"q": "open"}, call_id="call-1", status="pending"
    )
    end = events.Result(
        model_instance_id="demo/model",
        output=[item],
        stats=events.Stats(),
        ext=events.Extension(status="waiting", stop=events.Stop(reason="tool_use")),
    )
    log: list[events.Event] = [
        events.ChatStart(model_instance_id="demo/model"),
        events.MetaUpdate(values={"response_id": "theirs", "model": "x"}),
        events.ToolCallArguments(arguments={"q": "open"}, **call),
        events.ChatEnd(result=end),
    ]
    with transaction.atomic():
        write_ending(run, log, after=0)
    return Question.objects.get(run=run)


def go_on(room: Room) -> None:
    """What runners do after an answer: they continue one that has its input or was paused, and download
    the files of mockups."""
    for run in Run.objects.filter(status="queued"):
        given = opening(run)
        end_run_with(run, [*given, *_shifted(message_log("Thanks."), len(given))])
    for file in MockupFile.objects.filter(status="wanted"):
        body = f"<p>{file.path}</p>".encode()
        file.file = StoredFile.objects.store(
            room.conversation.pk,
            name=file.path,
            media_type=file.content_type,
            content=NewContent(body=body),
        )
        file.status = "stored"
        file.save()
    room.conversation.refresh_from_db()


def _shifted(log: list[events.Event], by: int) -> list[events.Event]:
    for event in log:
        if isinstance(event, events.ItemEvent):
            event.item += by
    return log[1:]
