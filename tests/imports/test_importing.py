"""Imported conversations: private, like any other, found, continued, and undone as a whole."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import polib
import pytest
from django.db import IntegrityError
from django.http import Http404
from django.test import Client
from django.utils import timezone, translation
from lxml import html

from chat import access, events
from chat.conversations.actions.conversation import delete, rename
from chat.conversations.actions.messages import ModelChoice, retry, send_message
from chat.conversations.paths import read_path
from chat.core.errors import ActionRefused
from chat.core.isolation.child import Refused
from chat.dialects.base import AssistantTurn, UserTurn
from chat.exports.markdown_text import line_of
from chat.files.actions import NewFile
from chat.imports import actions, reader, writing
from chat.imports.actions import import_file, undo
from chat.imports.conversations import Turn
from chat.imports.frames import Order, Read
from chat.imports.report import Report
from chat.imports.source import ImportRefused, read_messages
from chat.models import (
    Attachment,
    AuditEvent,
    Conversation,
    EndedRun,
    FileContent,
    Import,
    ImportedSource,
    Membership,
    Message,
    Run,
    RunSegment,
    SearchRow,
    StoredFile,
    Team,
    Upstream,
    User,
    Visibility,
)
from chat.runs import ended_runs
from chat.runs.ended_runs import EndingFollower
from chat.runs.prompt import prepare
from chat.runs.segments import read_events
from chat.search.find import find
from chat.search.sources import KINDS, missing
from chat.search.tokens import parse
from tests.imports import examples_chatgpt, examples_claude, examples_librechat, examples_open_webui
from tests.imports.files import as_json, as_zip
from tests.imports.writers import Said, to_chatgpt, to_claude, to_librechat, to_open_webui
from tests.support.answers import png
from tests.support.files import store_file
from tests.support.rooms import end_run, get_page, text_of, url_of

TREE = [
    Said(-1, "Where do willows grow?"),
    Said(0, "By the **river**.", reasoning="They like water.", call="Oslo"),
    Said(0, "In autumn."),
    Said(1, "And birches?"),
    Said(3, "On the hill."),
]
WRITTEN: dict[str, dict[str, Any]] = {
    "chatgpt": to_chatgpt(TREE, 4),
    "claude": to_claude(TREE, 4),
    "open_webui": to_open_webui(TREE, 4),
    "librechat": to_librechat(TREE, 4),
}
EXAMPLES = {
    "chatgpt": examples_chatgpt,
    "claude": examples_claude,
    "librechat": examples_librechat,
    "open_webui": examples_open_webui,
}
TABLES = (Conversation, Message, Run, RunSegment, SearchRow, StoredFile, Import, ImportedSource)

databases = pytest.mark.databases


def imported(user: User, team: Team, *values: object, **options: Any) -> Report:
    return imported_file(user, team, as_json(list(values)), **options)


def imported_file(user: User, team: Team, file: BinaryIO, **options: Any) -> Report:
    return import_file(user, team, file, **options)


def counts() -> list[int]:
    return [table.objects.count() for table in TABLES]


def only_room() -> Conversation:
    return Conversation.objects.get(imported_from__isnull=False)


def on_page(user: User, room: Conversation) -> list[str]:
    """The visible branch: the texts of people, and of answers the roles."""
    places = read_path(user, room).places
    full = Message.objects.in_bulk([place.message.pk for place in places])
    return [full[place.message.pk].text or place.message.role for place in places]


def test_page_says_where_it_comes_from(
    alice: User, team: Team, conversation: Conversation, signed_in: Callable[[User], Client]
) -> None:
    imported(alice, team, WRITTEN["chatgpt"])

    (line,) = get_page(signed_in(alice), url_of("conversation", only_room())).find_class("origin")

    assert text_of(line).startswith("Imported from ChatGPT by Alice on ")
    assert not get_page(signed_in(alice), url_of("conversation", conversation)).find_class("origin")


@pytest.mark.databases(slow=True)
@pytest.mark.parametrize("name", WRITTEN)
def test_conversation_looks_like_any_other(
    name: str, alice: User, team: Team, signed_in: Callable[[User], Client]
) -> None:
    report = imported(alice, team, WRITTEN[name])

    room = only_room()
    assert (report.found, report.created, report.not_understood) == (1, 1, [])
    assert (room.title, room.owner, room.team, room.visibility) == (
        "Rivers",
        alice,
        team,
        Visibility.PRIVATE,
    )
    # LibreChat shows the last sibling at each fork, the others what they name.
    shown = ["Where do willows grow?", "assistant"]
    last = ["And birches?", "assistant"]
    assert on_page(alice, room) == (shown if name == "librechat" else [*shown, *last])
    answers = Message.objects.filter(conversation=room, role="assistant").order_by("pk")
    run = answers[0].runs.get()
    result = events.decode_result(run.result)
    assert [type(item).__name__ for item in result.output] == [
        "ReasoningItem",
        "ToolCallItem",
        "MessageItem",
    ]
    assert (run.status, result.ext.status, run.upstream, run.dialect) == (
        "completed",
        "completed",
        None,
        "",
    )
    details = signed_in(alice).get(url_of("run_details", run))
    assert details.status_code == 200
    log = list(read_events(run))
    assert [event.seq for event in log] == list(range(1, run.last_seq + 1))
    if name != "librechat":
        page = get_page(signed_in(alice), url_of("conversation", room))
        assert "By the river." in text_of(page)
        assert page.xpath("//strong[text()='river']")
        assert "They like water." in text_of(page)
        assert "weather" in text_of(page)
        assert "In autumn." not in text_of(page)


@databases
def test_imported_text_is_found(alice: User, bob: User, team: Team) -> None:
    imported(alice, team, WRITTEN["chatgpt"])

    assert {hit.kind for hit in find(alice, parse("willows")).hits} == {"message"}
    assert {hit.kind for hit in find(alice, parse('"by the river"')).hits} == {"answer"}
    assert {hit.kind for hit in find(alice, parse("like water")).hits} == {"reasoning"}
    assert {hit.kind for hit in find(alice, parse("rivers")).hits} == {"title"}
    assert find(bob, parse("willows")).count == 0
    assert not any(missing(kind).exists() for kind in KINDS)


@databases
def test_import_twice_brings_nothing_new(alice: User, team: Team) -> None:
    values = [WRITTEN["chatgpt"], to_chatgpt(TREE, 2, source_id="c2")]
    imported(alice, team, *values)
    before = counts()[:6]

    report = imported(alice, team, *values)

    assert (report.found, report.created, report.skipped, report.changed) == (2, 0, 2, [])
    assert counts()[:6] == before


def test_conversation_that_has_grown_is_reported_and_skipped(alice: User, team: Team) -> None:
    imported(alice, team, to_claude(TREE[:2], 1))

    report = imported(alice, team, to_claude(TREE, 4))

    assert (report.created, report.skipped) == (0, 1)
    assert [note.source_id for note in report.changed] == ["c1"]
    assert Message.objects.filter(conversation=only_room()).count() == 2


def test_without_an_id_the_content_is_the_identity(alice: User, team: Team) -> None:
    first, other = to_claude(TREE, 4, source_id=""), to_claude(TREE[:2], 1, source_id="")

    assert imported(alice, team, first, first, other).created == 2
    assert imported(alice, team, first, other).skipped == 2


def test_each_person_and_team_has_its_own(
    alice: User, bob: User, team: Team, other_team: Team
) -> None:
    Membership.objects.create(team=other_team, user=alice, role="member")

    for user, place in ((alice, team), (bob, team), (alice, other_team)):
        assert imported(user, place, WRITTEN["claude"]).created == 1


@databases
def test_dry_run_writes_nothing(alice: User, team: Team) -> None:
    before = [*counts(), AuditEvent.objects.count()]
    values = [WRITTEN["claude"], WRITTEN["claude"], {"chat_messages": 1, "uuid": "bad"}, {"x": 1}]

    report = imported(alice, team, *values, is_dry_run=True)

    assert [*counts(), AuditEvent.objects.count()] == before
    assert (report.found, report.created, report.skipped, report.unread) == (4, 1, 1, 2)
    real = imported(alice, team, *values)
    assert real.as_json() | {"import": None, "dry_run": True} == report.as_json()


@pytest.mark.in_child
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_written(name: str, alice: User, team: Team) -> None:
    examples = EXAMPLES[name]
    values = [
        {**value, key: f"c{number}"}
        for number, (_, value, *_) in enumerate(examples.EXAMPLES)
        for key in [{"claude": "uuid", "librechat": "conversationId"}.get(name, "id")]
    ]
    values += examples.UNREADABLE

    report = imported(alice, team, *values)

    assert report.found == len(values)
    assert report.found == report.created + report.skipped + report.empty + report.unread
    assert report.created == Conversation.objects.count()
    assert report.unread == len(examples.UNREADABLE)
    for room in Conversation.objects.all():
        assert on_page(alice, room)[-1] == "assistant"
        path = read_path(alice, room)
        assert all(place.message.parent_id is None or place.number for place in path.places)


def test_report_counts_unread_conversations_with_their_ids(alice: User, team: Team) -> None:
    report = imported(
        alice,
        team,
        {"uuid": "bad", "name": "Broken", "chat_messages": None},
        WRITTEN["claude"],
        examples_claude.chat(uuid="empty"),
        3,
        format_name="claude",
    )

    assert (report.found, report.created, report.empty, report.unread) == (4, 1, 1, 2)
    notes = [(note.source_id, note.title) for note in report.not_understood]
    assert notes == [("bad", "Broken"), ("#4", "")]
    batch = Import.objects.get()
    assert (batch.found, batch.created, batch.not_understood) == (4, 1, 2)
    assert batch.finished_at is not None


def test_times_and_models_are_kept(alice: User, team: Team) -> None:
    value = examples_chatgpt.chat(
        {
            "u": ("", examples_chatgpt.message("user", "Why?", time=1.6e9)),
            "a": (
                "u",
                examples_chatgpt.message(
                    "assistant", "So.", time=1.6e9 + 60, metadata={"model_slug": "gpt-4"}
                ),
            ),
        },
        "a",
        create_time=1.6e9,
        update_time=1.6e9 + 60,
    )

    imported(alice, team, value)

    room, run = only_room(), Run.objects.get()
    began = datetime.fromtimestamp(1.6e9, UTC)
    assert (room.created_at, room.updated_at) == (began, began + timedelta(minutes=1))
    assert [each.created_at for each in room.messages.order_by("pk")] == [
        began,
        began + timedelta(minutes=1),
    ]
    assert (run.model, run.queued_at, run.finished_at) == ("gpt-4", *[room.updated_at] * 2)


def test_answer_without_a_model_names_the_product(alice: User, team: Team) -> None:
    imported(alice, team, WRITTEN["claude"])

    assert {run.model for run in Run.objects.all()} == {"Claude"}


def test_future_times_are_now(alice: User, team: Team) -> None:
    imported(alice, team, examples_chatgpt.chat({"u": examples_chatgpt.ASK}, update_time=9e9))

    assert only_room().updated_at <= timezone.now()


def test_branch_that_the_file_names_is_chosen(alice: User, team: Team) -> None:
    for number, (leaf, shown) in enumerate([(2, 2), (4, 4), (1, 4)]):
        Conversation.objects.all().delete()
        imported(alice, team, to_open_webui(TREE, leaf, source_id=f"c{number}"))
        places = read_path(alice, Conversation.objects.get()).places

        # A branch goes on to its end.
        assert len(places) == (2 if shown == 2 else 4)
        assert places[1].number == (2 if shown == 2 else 1)
        assert places[1].count == 2


@pytest.mark.databases(slow=True)
def test_conversation_is_continued_with_any_server(
    alice: User, team: Team, upstream: Upstream
) -> None:
    imported(alice, team, WRITTEN["chatgpt"])
    room = only_room()
    end = read_path(alice, room).tail

    run = send_message(
        alice,
        room,
        parent=end,
        text="Thanks",
        choice=ModelChoice(upstream=upstream, model="demo/model"),
        idempotency_key=uuid.uuid4(),
    )

    turns = prepare(run.pk).prompt.turns
    assert [turn.text for turn in turns if isinstance(turn, UserTurn)] == [
        "Where do willows grow?",
        "And birches?",
        "Thanks",
    ]
    first = next(turn for turn in turns if isinstance(turn, AssistantTurn))
    assert not first.is_native
    call = first.result.output[1]
    assert isinstance(call, events.ToolCallItem)
    assert (call.tool, call.arguments, call.output) == (
        "weather",
        {"place": "Oslo"},
        "Rain in Oslo",
    )
    end_run(run)
    assert on_page(alice, room)[-2:] == ["Thanks", "assistant"]


def test_message_without_an_answer_can_be_continued(
    alice: User, team: Team, upstream: Upstream, signed_in: Callable[[User], Client]
) -> None:
    imported(alice, team, to_claude(TREE[:1], 0))
    room = only_room()
    answer = read_path(alice, room).tail
    assert answer is not None

    assert answer.runs.get().status == "stopped"
    page = get_page(signed_in(alice), url_of("conversation", room))
    assert "Stopped" in text_of(page)
    choice = ModelChoice(upstream=upstream, model="demo/model")
    assert retry(alice, answer, choice=choice, idempotency_key=uuid.uuid4()).is_queued


def test_failed_answer_says_why(
    alice: User, team: Team, signed_in: Callable[[User], Client]
) -> None:
    value = examples_open_webui.answer("", error={"content": "Model not found"})

    imported(alice, team, value)

    assert Run.objects.get().status == "failed"
    page = get_page(signed_in(alice), url_of("conversation", only_room()))
    assert "Model not found" in text_of(page)


@pytest.mark.databases(slow=True)
@pytest.mark.in_child
@pytest.mark.usefixtures("file_place")
def test_pictures_are_kept(alice: User, team: Team, signed_in: Callable[[User], Client]) -> None:
    value = next(value for title, value, *_ in examples_chatgpt.EXAMPLES if "pictures" in title)
    file = as_zip(
        {
            "conversations.json": [value],
            "file-AbCd1234-boat.png": png(4, 3),
            "file_00000000a1b2.dat": png(5, 6),
            "file-Gone9999.pdf": b"%PDF-1.7",
        }
    )

    report = imported_file(alice, team, file)

    attachment = Attachment.objects.get()
    run = Run.objects.get()
    assert bytes(StoredFile.objects.get(pk=attachment.file_id).body) == png(4, 3)
    assert attachment.file.name == "boat.png"
    assert bytes(run.files.get().file.body) == png(5, 6)
    assert attachment.message.text == "What is it?\n\n📎 notes.pdf"
    assert [note.reason for note in report.left_out] == [
        "“notes.pdf” isn’t a PNG, JPEG, WebP or GIF image."
    ]
    page = get_page(signed_in(alice), url_of("conversation", only_room()))
    assert len(page.xpath("//article//img")) == 2


def test_picture_that_is_too_large_is_not_extracted(alice: User, team: Team, settings: Any) -> None:
    settings.PICTURE_BYTES = 50
    value = next(value for title, value, *_ in examples_chatgpt.EXAMPLES if "pictures" in title)
    file = as_zip({"conversations.json": [value], "file-AbCd1234-boat.png": png(4, 3)})

    (_, read) = read_messages(file)
    report = imported_file(alice, team, file)

    assert isinstance(read, Read)
    assert read.contents == {}
    assert any("boat.png" in note.reason for note in report.left_out)
    assert Message.objects.filter(text__contains="📎 boat.png").exists()


@pytest.mark.usefixtures("file_place")
def test_picture_of_many_messages_is_sent_once(alice: User, team: Team) -> None:
    nodes = {
        f"m{number}": (
            f"m{number - 1}" if number else "",
            examples_chatgpt.message(
                "assistant" if number % 2 else "user", "Look.", examples_chatgpt.POINTER
            ),
        )
        for number in range(6)
    }
    file = as_zip(
        {"conversations.json": [examples_chatgpt.chat(nodes)], "file-AbCd1234-boat.png": png(4, 3)}
    )

    (_, read) = read_messages(file)

    assert isinstance(read, Read)
    assert list(read.contents.values()) == [png(4, 3)]
    assert imported_file(alice, team, file).created == 1
    assert Attachment.objects.count() == 3
    assert FileContent.objects.get().read() == png(4, 3)


def test_import_stops_at_its_budget(alice: User, team: Team, settings: Any) -> None:
    values = [to_claude(TREE, 4, source_id=f"c{number}") for number in range(4)]
    imported(alice, team, values[0])
    one = Import.objects.get().written_bytes
    assert one > 1000
    settings.IMPORT_WRITE_BYTES = one * 5 // 2

    with pytest.raises(ImportRefused, match="would store more than"):
        imported(alice, team, *values[1:])

    batch = Import.objects.latest("pk")
    assert (batch.created, batch.written_bytes) == (2, 2 * one)
    assert Conversation.objects.count() == 3
    assert undo(alice, batch).deleted == 2


def test_import_counts_what_the_person_has_stored(
    alice: User, team: Team, conversation: Conversation, settings: Any
) -> None:
    value = next(value for title, value, *_ in examples_chatgpt.EXAMPLES if "pictures" in title)
    file = as_zip({"conversations.json": [value], "file-AbCd1234-boat.png": png(4, 3)})
    settings.STORED_BYTES_PER_PERSON = 1000
    store_file(b"x" * 1000, conversation=conversation, created_by=alice)

    with pytest.raises(ActionRefused, match="no room"):
        imported_file(alice, team, file)
    assert not Attachment.objects.exists()


def test_pictures_of_answers_are_not_all_in_memory() -> None:
    turns = [Turn(source_id=str(number), role="assistant", parts=()) for number in range(5)]
    picture = NewFile(name="a.png", media_type="image/png", body=bytes(writing.BATCH_BYTES // 2))
    pictures = {str(number): [picture] for number in range(1, 5)}

    batches = [[turn.source_id for turn in some] for some in writing._batches(turns, pictures)]

    assert batches == [["0", "1", "2"], ["3", "4"]]


def test_names_in_the_file_reach_no_disk_and_no_page_unescaped(
    alice: User, team: Team, signed_in: Callable[[User], Client]
) -> None:
    attack = "<script>hit()</script>"
    value = {
        "id": attack,
        "title": f"{attack}\u202e\x00",
        "chat": {
            "models": [attack],
            "history": {
                "messages": {
                    "u": {
                        "role": "user",
                        "content": attack,
                        "files": [{"name": f"../../{attack}"}],
                    },
                    "a": {
                        "role": "assistant",
                        "parentId": "u",
                        "content": f"{attack} [x](javascript:hit())",
                        "output": [
                            {"type": "reasoning", "content": attack},
                            {
                                "type": "function_call",
                                "name": attack,
                                "arguments": f'{{"{attack}": 1}}',
                            },
                            {"type": "function_call_output", "output": attack},
                        ],
                    },
                }
            },
        },
    }

    report = imported(alice, team, value)

    assert report.created == 1
    source = signed_in(alice).get(url_of("conversation", only_room())).content.decode()
    assert attack not in source
    assert not html.fromstring(source).xpath("//a[starts-with(@href, 'javascript')]")


@databases
def test_undo_deletes_what_was_not_continued(alice: User, team: Team, upstream: Upstream) -> None:
    values = [to_claude(TREE, 4, source_id=f"c{number}") for number in range(4)]
    report = imported(alice, team, *values)
    rooms = list(Conversation.objects.order_by("pk"))
    rename(rooms[1], "Mine")
    delete(alice, rooms[2])
    send_message(
        alice,
        rooms[3],
        parent=read_path(alice, rooms[3]).tail,
        text="Thanks",
        choice=ModelChoice(upstream=upstream, model="demo/model"),
        idempotency_key=uuid.uuid4(),
    )
    batch = access.get_import(alice, uuid.UUID(report.import_id))

    undone = undo(alice, batch)

    assert (undone.deleted, list(undone.kept)) == (2, [rooms[3]])
    assert list(access.visible_conversations(alice)) == [rooms[3]]
    batch.refresh_from_db()
    assert batch.undone_at is not None
    # What is gone can be imported again; what stays is not doubled.
    again = imported(alice, team, *values)
    assert (again.created, again.skipped) == (3, 1)
    assert undo(alice, batch).deleted == 0


def test_deleted_conversation_is_not_imported_again(alice: User, team: Team) -> None:
    imported(alice, team, WRITTEN["claude"])
    delete(alice, only_room())

    assert imported(alice, team, WRITTEN["claude"]).skipped == 1
    Conversation.objects.all().delete()
    assert imported(alice, team, WRITTEN["claude"]).skipped == 1


def test_nobody_else_reads_or_undoes_it(
    alice: User, bob: User, administrator: User, team: Team, signed_in: Callable[[User], Client]
) -> None:
    report = imported(alice, team, WRITTEN["claude"])
    room = only_room()

    for user in (bob, administrator):
        assert signed_in(user).get(url_of("conversation", room)).status_code == 404
        with pytest.raises(Http404):
            access.get_import(user, uuid.UUID(report.import_id))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("viewer", "read-only"), ("charlie", "not on a team"), ("dana", "read-only")],
)
def test_who_may_not_write_may_not_import(
    name: str, reason: str, request: pytest.FixtureRequest, team: Team
) -> None:
    with pytest.raises(ActionRefused, match=reason):
        imported(request.getfixturevalue(name), team, WRITTEN["claude"])
    assert not Import.objects.exists()


def test_damaged_file_writes_nothing(alice: User, team: Team) -> None:
    """Not even what stands before the damage."""
    body = as_json([WRITTEN["claude"], WRITTEN["claude"]]).read()
    files = {
        "cut": io.BytesIO(body[:-10]),
        "second of two": as_zip(
            {"conversations-000.json": [WRITTEN["chatgpt"]], "conversations-001.json": body[:-10]}
        ),
        "unknown": as_json([{"a": 1}]),
        "two products": as_zip({"a.json": [WRITTEN["claude"]], "b.json": [WRITTEN["chatgpt"]]}),
    }
    before = counts()

    for file in files.values():
        with pytest.raises(ImportRefused):
            imported_file(alice, team, file)
    assert counts() == before


def test_broken_file_beside_single_exports_is_named(alice: User, team: Team) -> None:
    members = {
        "a.json": WRITTEN["librechat"],
        "b.json": b'{"conversationId": "c2", "messages": [',
        "c.json": b"<html>",
        "d.json": to_librechat(TREE, 4, source_id="c4"),
    }

    report = imported_file(alice, team, as_zip(members))

    assert (report.found, report.created, report.unread) == (4, 2, 2)
    assert [note.source_id for note in report.not_understood] == ["b.json", "c.json"]
    assert "incomplete" in report.not_understood[0].reason
    with pytest.raises(ImportRefused, match="incomplete"):
        imported_file(alice, team, as_zip({"b.json": members["b.json"]}))


def test_part_that_the_export_names_and_lacks_is_reported(alice: User, team: Team) -> None:
    listed = {"files": [{"name": "conversations-000.json"}, {"name": "conversations-001.json"}]}
    file = as_zip({"conversations-000.json": [WRITTEN["chatgpt"]], "export_manifest.json": listed})

    report = imported_file(alice, team, file)

    assert report.created == 1
    assert [note.source_id for note in report.left_out] == ["conversations-001.json"]


def test_deeply_nested_conversation_is_read(alice: User, team: Team) -> None:
    line = [Said(place - 1, f"Turn {place}.") for place in range(800)]
    value = to_librechat(line, 799, is_nested=True)
    body = b"[%b]" % nested_json(value)

    assert imported_file(alice, team, io.BytesIO(body)).created == 1
    assert Message.objects.filter(conversation=only_room()).count() == 800


def nested_json(value: dict[str, Any]) -> bytes:
    """JSON of a chain of messages, which the library writes by recursion."""
    head, tail = [], []
    message = value["messagesTree"][0]
    while True:
        children = message.pop("children", [])
        if not children:
            return (
                json.dumps({**value, "messagesTree": ["@"]})
                .encode()
                .replace(b'"@"', ("".join(head) + json.dumps(message) + "".join(tail)).encode())
            )
        head.append(json.dumps(message)[:-1] + ', "children": [')
        tail.append("]}")
        message = children[0]


def test_joiners_in_a_title_are_part_of_words(alice: User, team: Team) -> None:
    title = "👩\u200d💻 می\u200cخواهم"
    imported(alice, team, {**WRITTEN["claude"], "name": f"{title}\u202e"})

    assert only_room().title == title
    assert line_of(f"{title}\u202e*") == f"{title}\\[U+202E\\]\\*"


def test_too_many_conversations_in_several_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_CONVERSATIONS", 2)
    file = as_zip({f"conversations-00{number}.json": [WRITTEN["chatgpt"]] for number in range(3)})

    with pytest.raises(Refused, match="3 conversations; at most 2"):
        list(reader.read_export(file, msgspec.json.encode(Order())))


def test_files_of_a_split_export_are_one_import(alice: User, team: Team) -> None:
    done: list[tuple[int, int]] = []
    file = as_zip(
        {
            "user.json": {"id": "x"},
            "conversations-000.json": [to_chatgpt(TREE, 4, source_id="c1")],
            "conversations-001.json": [to_chatgpt(TREE, 4, source_id="c2")],
        }
    )

    report = imported_file(alice, team, file, progress=lambda *each: done.append(each))

    assert report.created == 2
    assert done == [(1, 2), (2, 2)]
    assert Import.objects.count() == 1


@pytest.mark.in_child
def test_reader_speaks_the_language_of_the_installation(tmp_path: Path, settings: Any) -> None:
    folder = tmp_path / "pt_BR" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    catalog = polib.POFile()
    catalog.metadata = {"Content-Type": "text/plain; charset=utf-8"}
    sentence = "The file is incomplete or damaged. Download the export again."
    catalog.append(polib.POEntry(msgid=sentence, msgstr="O arquivo está incompleto."))
    catalog.save_as_mofile(str(folder / "django.mo"))
    settings.LOCALE_PATHS = [tmp_path]

    with translation.override("pt-br"), pytest.raises(ImportRefused, match="O arquivo está"):
        list(read_messages(io.BytesIO(b"[1")))


def test_canceled_import_keeps_what_it_has_created(alice: User, team: Team) -> None:
    class Canceled(Exception):
        pass

    def cancel(done: int, total: int) -> None:
        if done == 2:
            raise Canceled

    values = [to_claude(TREE, 4, source_id=f"c{number}") for number in range(3)]
    with pytest.raises(Canceled):
        imported(alice, team, *values, progress=cancel)

    batch = Import.objects.get()
    assert (batch.found, batch.created, Conversation.objects.count()) == (2, 2, 2)
    assert imported(alice, team, *values).created == 1
    assert undo(alice, batch).deleted == 2


def test_what_another_import_has_just_brought_is_skipped(alice: User, team: Team) -> None:
    imported(alice, team, WRITTEN["claude"])
    before = counts()[:6]
    work = actions._Work(alice, team, actions.FORMATS["claude"], is_dry_run=False)
    # It was not there yet when this import began.
    work.known.clear()

    (_, message) = read_messages(as_json(WRITTEN["claude"]))
    assert isinstance(message, Read)
    work.add_message(message)

    assert (work.report.created, work.report.skipped) == (0, 1)
    assert counts()[:6] == before


def test_other_errors_of_the_database_are_raised(
    alice: User, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise IntegrityError

    monkeypatch.setattr(actions, "_write", fail)

    with pytest.raises(IntegrityError):
        imported(alice, team, WRITTEN["claude"])
    assert not ImportedSource.objects.exists()


def test_imported_answers_are_told_to_no_follower(
    alice: User, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = EndingFollower(name="usage", follow=lambda runs: None)
    monkeypatch.setattr(ended_runs, "_followers", (follower,))

    imported(alice, team, WRITTEN["claude"])

    assert Run.objects.exists()
    assert not EndedRun.objects.exists()
