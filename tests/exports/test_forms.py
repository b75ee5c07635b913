"""Exported conversations: every scene of the demo, hostile texts, branches, and what is left out."""

from __future__ import annotations

import base64
import gc
import json
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import islice

import pytest
from django.db import transaction
from django.utils import translation

from chat import events
from chat.exports import format as form
from chat.exports.forms import FORMS
from chat.exports.markdown_text import contained, fenced
from chat.exports.reading import read_source
from chat.models import (
    Attachment,
    BranchChoice,
    Conversation,
    Message,
    NewContent,
    Question,
    Role,
    Run,
    RunSegment,
    StoredFile,
    Team,
    User,
)
from chat.questions import actions as question_actions
from chat.runs.outcomes import write_ending
from chat.runs.resume import opening
from chat.runs.segments import read_entries
from tests.exports.check import (
    SCHEMA,
    html_of,
    json_of,
    markdown_of,
    problems_in_html,
    problems_in_markdown,
)
from tests.exports.scenes import played
from tests.hostile.grammar import PIECES, texts
from tests.rendering.hostile_texts import HOSTILE, everywhere
from tests.support.answers import Answer, png
from tests.support.browser.scenes import SCENES
from tests.support.rooms import Room, end_run_with, message_log
from tests.support.selection import sample
from tests.support.stored import rolled_back

pytestmark = pytest.mark.databases(slow=True)


def test_schema_is_that_of_the_code() -> None:
    assert json.loads(SCHEMA.read_text()) == form.schema()


@pytest.mark.parametrize("dialect", sorted({scene.dialect for scene in SCENES}))
def test_every_scene_is_exported_in_all_forms(
    room: Room, alice: User, subtests: pytest.Subtests, dialect: str
) -> None:
    for scene in sample([each for each in SCENES if each.dialect == dialect], 2):
        with subtests.test(msg=scene.name), rolled_back():
            run = played(room, scene)

            (_, answer) = json_of(alice, room.conversation).turns
            assert len(answer.runs[0].events) == run.last_seq
            assert [each["type"] for each in answer.runs[0].events][-1] == "chat.end"
            assert answer.runs[0].status == run.status
            assert problems_in_html(html_of(alice, room.conversation)) == []
            assert problems_in_markdown(markdown_of(alice, room.conversation)) == []


def test_events_are_as_stored(room: Room, alice: User) -> None:
    room.turn("Hello")
    run = room.runs[0]

    (_, answer) = json_of(alice, room.conversation).turns
    stored = [json.loads(entry.body) for entry in read_entries(run.pk)]
    assert answer.runs[0].events[:-1] == stored[:-1]
    assert answer.runs[0].result == answer.runs[0].events[-1]["result"]


@pytest.mark.parametrize("name", FORMS)
def test_same_conversation_gives_the_same_bytes(
    room: Room, alice: User, bob: User, name: str
) -> None:
    room.turn("One", room.turn("Two"))

    files = {
        b"".join(FORMS[name].write(read_source(person, room.conversation)))
        for person in (alice, bob, alice)
    }

    assert len(files) == 1


def test_branches_are_in_json_and_in_markdown_of_all(room: Room, alice: User) -> None:
    first = room.turn("First version")
    room.turn("Second version")
    room.turn("Follow-up to the first", first)

    exported = json_of(alice, room.conversation)
    assert [turn.text for turn in exported.turns if turn.role == "user"] == [
        "First version",
        "Second version",
        "Follow-up to the first",
    ]
    parents = {turn.id: turn.parent for turn in exported.turns}
    assert list(parents.values()).count(None) == 2
    visible = markdown_of(alice, room.conversation)
    # The branch that was continued last.
    assert "Follow-up to the first" in visible
    assert "Second version" not in visible
    everything = markdown_of(alice, room.conversation, with_all_branches=True)
    assert "Second version" in everything
    assert "Version 2 of 2 · Another first message" in everything


def test_visible_branch_is_that_of_the_reader(room: Room, alice: User, bob: User) -> None:
    older = room.turn("First version")
    room.turn("Second version")
    BranchChoice.objects.create(
        user=bob, conversation=room.conversation, parent=None, chosen=older.parent
    )

    assert "First version" in markdown_of(bob, room.conversation)
    assert "First version" in html_of(bob, room.conversation)
    assert json_of(bob, room.conversation).conversation.visible_turn == older.public_id
    assert "Second version" in html_of(alice, room.conversation)


def test_files_are_there_once_by_their_hash(room: Room, alice: User) -> None:
    body = png()
    digest = sha256(body).hexdigest()
    answer = room.turn("Look")
    files = [
        StoredFile.objects.store(
            room.conversation.pk,
            name=name,
            media_type="image/png",
            content=NewContent(body=body),
            by=alice,
        )
        for name in ("a.png", "b.png")
    ]
    for position, file in enumerate(files):
        Attachment.objects.create(message=answer.parent, file=file, position=position)

    exported = json_of(alice, room.conversation)
    assert [file.name for file in exported.files] == ["a.png", "b.png"]
    assert exported.contents == {digest: base64.b64encode(body).decode()}
    assert exported.turns[0].attachments == [file.public_id for file in files]
    page = html_of(alice, room.conversation)
    assert page.count("data:image/png;base64,") == 2
    assert "a.png" in markdown_of(alice, room.conversation)


# --- what is left out ---------------------------------------------------------------------------


SECRET = "private-a1b2c3"


def waiting_call(room: Room) -> Question:
    run = room.ask("Use a tool")
    call = {"item": 0, "tool": "find", "call_id": "call-1"}
    stop = events.Stop(reason="tool_use")
    log = [
        events.ChatStart(model_instance_id="demo/model"),
        events.ToolCallArguments(arguments={"q": "x"}, **call),
    ]
    output = [
        events.ToolCallItem(tool="find", arguments={"q": "x"}, call_id="call-1", status="pending")
    ]
    end = events.ChatEnd(
        result=events.Result(
            model_instance_id="demo/model",
            output=output,
            stats=events.Stats(),
            ext=events.Extension(status="waiting", stop=stop),
        )
    )
    with transaction.atomic():
        write_ending(run, [*log, end], after=0)
    return Question.objects.get(run=run)


def all_forms(reader: User, conversation: Conversation) -> Iterator[str]:
    for each in FORMS.values():
        yield b"".join(each.write(read_source(reader, conversation))).decode()


def test_result_of_a_tool_is_private_until_the_model_gets_it(room: Room, alice: User) -> None:
    question = waiting_call(room)
    Question.objects.filter(pk=question.pk).update(
        status="answered", answered_by=alice, answer={"output": SECRET, "is_error": False}
    )

    assert [text for text in all_forms(alice, room.conversation) if SECRET in text] == []
    (asked,) = json_of(alice, room.conversation).turns[1].runs[0].questions
    assert asked.answer == {"is_error": False}
    assert asked.answered_by == form.Person(name=alice.name, email=alice.email)


def test_result_that_the_model_got_is_in_all_forms(room: Room, alice: User) -> None:
    question = waiting_call(room)
    question_actions.give_result(alice, question, SECRET)
    follow_up = Run.objects.get(position=1)
    end_run_with(follow_up, opening(follow_up))

    assert [text for text in all_forms(alice, room.conversation) if SECRET not in text] == []


def test_data_for_the_next_request_and_keys_stay_here(
    room: Room, alice: User, answer: Answer
) -> None:
    room.upstream.set_key(SECRET)
    room.upstream.save()
    run = answer(
        events.ReplayData(kind="signature", data=SECRET, item=0),
        events.ReplayData(kind="native", data={"x": SECRET}),
        events.MetaUpdate(values={"response_id": SECRET}),
        events.MessageDelta(item=0, content="Text"),
    )
    assert SECRET in run.result

    assert [text for text in all_forms(alice, room.conversation) if SECRET in text] == []
    assert room.upstream.base_url not in "".join(all_forms(alice, room.conversation))


# --- hostile texts ------------------------------------------------------------------------------

ANY_TEXTS = [*HOSTILE, *PIECES, *texts(150, seed=20_261_126)]


def test_hostile_texts_in_markdown_are_harmless() -> None:
    found = [(text, problems_in_markdown(contained(text))) for text in ANY_TEXTS]

    assert [(text, problems) for text, problems in found if problems] == []


def test_hostile_texts_in_markdown_stay_in_their_turn() -> None:
    document = "\n\n".join(f"## Turn\n\n{contained(text)}" for text in ANY_TEXTS)

    assert problems_in_markdown(document) == []
    unclosed = f"{contained('~~~' + chr(10) + '# open')}\n\n## Next"
    assert unclosed.endswith("~~~\n\n## Next")


def test_fence_is_longer_than_those_in_its_text(subtests: pytest.Subtests) -> None:
    for ticks, fence in [("", "```"), ("``", "```"), ("```", "````"), ("`````", "``````")]:
        with subtests.test(ticks=ticks):
            lines = fenced(f"before\n{ticks}\nafter").split("\n")

            assert lines == [fence, "before", ticks, "after", fence]


def test_texts_without_markup_stay_as_they_are() -> None:
    text = "Some *words*, `<b>` and [a link](https://example.org)\n\n```html\n<b>\n```\n\n1 < 2"

    assert contained(text) == text


def test_hostile_fields_are_harmless_in_all_forms(
    room: Room, alice: User, team: Team, answer: Answer, subtests: pytest.Subtests
) -> None:
    for text in sample(HOSTILE, 4):
        with subtests.test(msg=text), rolled_back():
            run = answer(*everywhere(text))
            Message.objects.filter(pk=run.message.parent_id).update(text=text)
            Conversation.objects.update(title=text[:200], system_prompt=text)
            User.objects.filter(pk=alice.pk).update(name=text[:80])
            Team.objects.update(name=text[:80])
            conversation = Conversation.objects.get()

            json_of(alice, conversation)
            assert problems_in_html(html_of(alice, conversation)) == []
            assert problems_in_markdown(markdown_of(alice, conversation)) == []


# --- size ---------------------------------------------------------------------------------------

ANSWER = "Words of a long conversation. " * 400


def fill(room: Room, turn_count: int) -> None:
    messages: list[Message] = []
    for number in range(turn_count):
        messages.append(
            Message(
                pk=100_000 + number,
                conversation=room.conversation,
                parent=messages[-1] if messages else None,
                role=Role.ASSISTANT if number % 2 else Role.USER,
                text="" if number % 2 else "Go on.",
            )
        )
    Message.objects.bulk_create(messages)
    runs = Run.objects.bulk_create(
        Run(
            conversation=room.conversation,
            message=message,
            model="demo/model",
            idempotency_key=uuid.uuid4(),
            status="running",
        )
        for message in messages[1::2]
    )
    log = message_log(ANSWER)
    for seq, event in enumerate(log, start=1):
        event.seq = seq
    body = events.join_bodies(events.encode(event) for event in log)
    RunSegment.objects.bulk_create(
        RunSegment(run=run, first_seq=1, last_seq=len(log), body=body) for run in runs
    )


@pytest.mark.parametrize("turn_count", [100, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FORMS)
def test_memory_does_not_grow_with_the_turns(
    room: Room, alice: User, name: str, turn_count: int
) -> None:
    fill(room, turn_count)
    parts = FORMS[name].write(read_source(alice, room.conversation))
    tracemalloc.start()
    size = sum(map(len, islice(parts, turn_count // 4)))
    held = memory()
    size += sum(map(len, islice(parts, turn_count // 2)))
    more = memory() - held
    tracemalloc.stop()

    assert size > turn_count // 4 * len(ANSWER)
    # With all turns in memory it would be two thirds of the size.
    assert more < size / 4


def memory() -> int:
    # Records that were read together know each other.
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_export_in_another_language_is_the_same_file_in_json(room: Room, alice: User) -> None:
    room.turn("Hello")
    write: Callable[..., Iterator[bytes]] = FORMS["json"].write
    english = b"".join(write(read_source(alice, room.conversation)))

    with translation.override("de"):
        assert b"".join(write(read_source(alice, room.conversation))) == english
