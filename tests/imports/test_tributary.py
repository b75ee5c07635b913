"""Our own export: exported, imported and exported again it is the same, and hostile files do nothing."""

from __future__ import annotations

import base64
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import reduce
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db.models import DateTimeField
from django.test import Client
from django.utils import timezone
from lxml import html

from chat import events
from chat.conversations.actions.messages import ModelChoice, send_message
from chat.conversations.paths import read_path
from chat.dialects.base import AssistantTurn
from chat.exports.html_form import write_html
from chat.exports.json_form import write_json
from chat.exports.reading import read_source
from chat.imports.actions import undo
from chat.imports.formats.tributary import NOT_IN_EXPORT
from chat.models import (
    Artifact,
    ArtifactVersion,
    Attachment,
    Attempt,
    Conversation,
    Import,
    ImportedSource,
    Message,
    MockupFile,
    Project,
    ProjectAccess,
    Question,
    Run,
    SearchRow,
    StoredFile,
    Team,
    Upstream,
    User,
    Visibility,
)
from chat.projects.actions import create_project
from chat.runs.prompt import prepare
from chat.runs.public_events import response_id_of
from chat.runs.segments import read_events
from chat.search.sources import KINDS, missing
from tests.exports.check import html_of, problems_in_html
from tests.exports.scenes import played
from tests.imports.examples_tributary import REFUSED, Value, answers_in
from tests.imports.files import as_json, as_zip
from tests.imports.rich_room import RESULT, fill, go_on
from tests.imports.test_importing import imported_file
from tests.support.browser.scenes import SCENES
from tests.support.rooms import Room, get_page, url_of
from tests.support.selection import EXHAUSTIVE, sample
from tests.support.stored import everything_stored, rolled_back

SignIn = Callable[[User], Client]
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Values of a page that differ each time: keys of forms, tokens, revisions, checksums of HTML that has ids in it, and
# models that its reader has used.
_PASSING = re.compile(
    r' (?:name="csrfmiddlewaretoken" value|name="key" value|data-\w*key|data-sent|data-revision|data-check|data-mark|data-recent)="[^"]*"'
)
_REPLAY = re.compile(
    r" It sent <span[^.]* of encrypted text, which is returned to the server[^.]*\."
)


def exported(reader: User, room: Conversation) -> bytes:
    return b"".join(write_json(read_source(reader, room)))


def without_ids(text: str, file: bytes) -> str:
    """The text with the ids of this exported file numbered in its order, however they are written."""
    ids = dict.fromkeys(_ID.findall(file.decode()))
    numbers = {
        name: f"<{number}>"
        for number, each in enumerate(ids)
        for name in (each, each.replace("-", ""))
    }
    return re.sub("|".join(numbers), lambda found: numbers[found[0]], text)


def restored(user: User, team: Team, body: bytes) -> Conversation:
    report = imported_file(user, team, as_json(json.loads(body)))
    assert (report.created, report.not_understood, report.left_out) == (1, [], [])
    return Conversation.objects.get(imported_from__isnull=False)


def page_of(client: Client, room: Conversation, file: bytes) -> list[str]:
    """The page without what differs between any two conversations."""
    main = get_page(client, url_of("conversation", room)).xpath("//main")[0]
    for origin in main.find_class("origin"):
        origin.drop_tree()
    return lines_of(_PASSING.sub("", html.tostring(main, encoding="unicode")), file)


def document_of(reader: User, room: Conversation, file: bytes) -> list[str]:
    """All that the answers on the page contain, with their folds."""
    body = b"".join(write_html(read_source(reader, room), is_page=True))
    return lines_of(body.decode(), file)


def lines_of(text: str, file: bytes) -> list[str]:
    """Of an imported server a page says that it was imported. Encrypted reasoning is in no export."""
    text = _REPLAY.sub("", without_ids(text, file).replace("on Demo (imported)", "on Demo"))
    return text.replace("><", ">\n<").split("\n")


# Not more at once than a test may take.
GROUPS = [
    (dialect, number)
    for dialect, count in Counter(scene.dialect for scene in SCENES).items()
    for number in range(0, count, 4)
]


@pytest.mark.databases(slow=True)
@pytest.mark.parametrize(("dialect", "first"), sample(GROUPS, 4))
def test_every_scene_is_the_same_after_a_round_trip(
    room: Room,
    team: Team,
    alice: User,
    signed_in: SignIn,
    subtests: pytest.Subtests,
    dialect: str,
    first: int,
) -> None:
    room.conversation.visibility = Visibility.PRIVATE
    room.conversation.save()
    client = signed_in(alice)
    scenes = [scene for scene in SCENES if scene.dialect == dialect][first : first + 4]
    on_page = scenes if EXHAUSTIVE else scenes[:1]
    for scene in scenes:
        with subtests.test(msg=scene.name), rolled_back():
            played(room, scene)
            go_on(room)
            before = exported(alice, room.conversation)
            document = document_of(alice, room.conversation, before)
            page = page_of(client, room.conversation, before) if scene in on_page else []
            Conversation.objects.all().delete()

            copy = restored(alice, team, before)

            after = exported(alice, copy)
            assert without_ids(after.decode(), after) == without_ids(before.decode(), before)
            assert document_of(alice, copy, after) == document
            assert (page_of(client, copy, after) if page else []) == page
            assert not any(missing(kind).exists() for kind in KINDS)


@pytest.fixture
def rich(room: Room, bob: User) -> Room:
    fill(room, bob)
    return room


@pytest.fixture
def file(rich: Room, alice: User) -> Value:
    """Its export. It is gone from here."""
    value: Value = json.loads(exported(alice, rich.conversation))
    Conversation.objects.all().delete()
    return value


def as_imported(value: Any, key: str = "") -> Any:
    """The traces of other people that are left: the names of authors, and of people who answered a question. Notes of
    the log have them marked, because they are sentences."""
    if key == "label" and isinstance(value, str):
        return value.replace("Bob declined", "Bob (imported) declined")
    if isinstance(value, list):
        return [as_imported(each, key) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("email") == "bob@example.org":
        return {**value, "email": None} if key in ("author", "answered_by") else None
    return {name: as_imported(each, name) for name, each in value.items()}


def shared_lines(lines: list[str]) -> list[str]:
    """Bob has no account that is meant, so he has neither a picture nor an id, and his name is marked."""
    avatar = re.compile(r'<span class="avatar avatar-\d avatar-small" aria-hidden="true">[B?]')
    author = re.compile(r' data-author="[^"]*"')
    plain = (author.sub("", line.replace("Bob (imported)", "Bob")) for line in lines)
    return [avatar.sub("B", line) for line in plain]


@pytest.mark.databases
@pytest.mark.in_child
def test_conversation_with_everything_is_restored(
    rich: Room, alice: User, team: Team, signed_in: SignIn
) -> None:
    rich.conversation.visibility = Visibility.PRIVATE
    rich.conversation.save()
    before = exported(alice, rich.conversation)
    document = document_of(alice, rich.conversation, before)
    page = page_of(signed_in(alice), rich.conversation, before)
    Conversation.objects.all().delete()

    copy = restored(alice, team, before)

    after = exported(alice, copy)
    expected = as_imported(json.loads(without_ids(before.decode(), before)))
    assert json.loads(without_ids(after.decode(), after)) == expected
    assert shared_lines(document_of(alice, copy, after)) == shared_lines(document)
    shown = page_of(signed_in(alice), copy, after)
    assert any("Bob (imported)" in line for line in shown)
    assert shared_lines(shown) == shared_lines(page)
    assert not any(missing(kind).exists() for kind in KINDS)
    called = Question.objects.get(kind="tool")
    assert called.answer["output"] == RESULT
    Conversation.objects.all().delete()
    ImportedSource.objects.all().delete()
    again = exported(alice, restored(alice, team, after))
    assert without_ids(again.decode(), again) == without_ids(after.decode(), after)


def test_note_about_a_reply_names_nobody_of_this_installation(
    file: Value, alice: User, team: Team
) -> None:
    notes = [
        event
        for run in answers_in(file)
        for event in run["events"]
        if event["type"] == "activity.step" and event["family"] == "question"
    ]
    (note,) = notes
    note |= {"label": "Approved by Charlie", "ref": "unknown"}

    imported_file(alice, team, as_json(file))

    assert "Approved by Charlie (imported)" in everything_stored()
    assert '"Approved by Charlie"' not in everything_stored()


# --- where it belongs -------------------------------------------------------------------------------


def test_project_of_the_same_name_and_the_archive_are_kept(
    file: Value, alice: User, bob: User, team: Team, other_team: Team
) -> None:
    file["conversation"] |= {"project": "Bridge", "archived_at": "2026-01-02T03:04:05Z"}
    file["conversation"]["visibility"] = "project"
    create_project(bob, team, name="Bridge", access=ProjectAccess.MEMBERS)
    Project.objects.create(team=other_team, name="Bridge")

    with rolled_back():
        imported_file(alice, team, as_json(file))
        room = Conversation.objects.get()
        assert (room.project, room.visibility) == (None, Visibility.PRIVATE)
        assert str(room.archived_at) == "2026-01-02 03:04:05+00:00"
    checked = imported_file(alice, team, as_json(file), is_dry_run=True)
    assert "no project Bridge that you can write in" in checked.left_out[0].reason

    project = create_project(alice, team, name="Bridge")
    report = imported_file(alice, team, as_json(file))

    room = Conversation.objects.get()
    assert report.left_out == []
    # Nobody gets access by an import.
    assert (room.project, room.visibility) == (project, Visibility.PRIVATE)


# --- files of anybody -------------------------------------------------------------------------------


def test_hostile_files_are_refused_and_nothing_is_written(
    file: Value, alice: User, team: Team, subtests: pytest.Subtests
) -> None:
    # Each starts a process that reads the file.
    for name, (change, reason) in sample(list(REFUSED.items()), 6):
        value = json.loads(json.dumps(file))
        change(value)
        with subtests.test(msg=name):
            report = imported_file(alice, team, as_json(value))

            assert (report.created, report.unread) == (0, 1)
            assert reason in report.not_understood[0].reason
    assert not Conversation.objects.exists()
    assert not StoredFile.objects.exists()


WRONG = [None, -1, "\ud800\x00", [[]], {"": {}}, 1e308, True]


def test_members_of_another_type_are_refused_or_harmless(
    file: Value, alice: User, team: Team, signed_in: SignIn
) -> None:
    client = signed_in(alice)
    # The first of each kind of place.
    places = {
        tuple(re.sub(r"^\d+$", "", str(key)) for key in path): path for path in members_of(file)
    }
    # Every fourth, because there are five hundred: each import takes a quarter of a second.
    for number, path in enumerate(sample(list(places.values())[::4], 8)):
        value = json.loads(json.dumps(file))
        *above, last = path
        place = reduce(lambda inner, key: inner[key], above, value)
        place[last] = WRONG[number % len(WRONG)]
        with rolled_back():
            report = imported_file(alice, team, as_json(value), format_name="tributary")
            if report.created:
                room = Conversation.objects.get()
                assert client.get(url_of("conversation", room)).status_code == 200, path
                assert exported(alice, room)


def members_of(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield (*path, key)
        yield from members_of(value[key], *path, key)


def test_what_is_still_going_on_has_ended(file: Value, alice: User, team: Team) -> None:
    for run in answers_in(file):
        run.update(status="running", result=None)
        del run["events"][-1:]
    answers_in(file)[0].update(status="queued", events=[])
    for question in (each for run in answers_in(file) for each in run["questions"]):
        question["status"] = "claimed"
    for each in file["mockups"][0]["versions"][0]["files"]:
        each.update(status="wanted", file=None)

    imported_file(alice, team, as_json(file))

    assert {run.status for run in Run.objects.all()} == {"interrupted"}
    for run in Run.objects.all():
        log = list(read_events(run))
        assert [event.seq for event in log] == list(range(1, run.last_seq + 1))
        assert isinstance(log[-1], events.ChatEnd)
    assert set(Question.objects.values_list("status", "claimed_by")) == {("open", None)}
    assert not MockupFile.objects.filter(status="wanted").exists()


def test_nothing_of_the_file_reaches_a_server_or_a_person(
    file: Value, alice: User, bob: User, charlie: User, team: Team, upstream: Upstream
) -> None:
    secret = "from-the-file-1"
    file["turns"][0]["author"] = {"name": "Charlie", "email": charlie.email}
    file["conversation"]["owner"] = {"name": "Bob", "email": bob.email}
    file["conversation"]["visibility"] = "team"
    run = answers_in(file)[0]
    run["requested_by"] = {"name": "Bob", "email": bob.email}
    run["result"] = run["events"][-1]["result"]
    run["result"]["response_id"] = secret
    run["result"]["ext"]["native"] = {"x": secret}
    replay = {"type": "replay.data", "seq": 1, "kind": "native", "data": secret}
    meta = {"type": "meta.update", "seq": 2, "values": {"response_id": secret}}
    run["events"][:0] = [replay, meta]
    for seq, event in enumerate(run["events"], start=1):
        event["seq"] = seq

    imported_file(alice, team, as_json(file))

    room = Conversation.objects.get()
    assert (room.owner, room.visibility) == (alice, Visibility.PRIVATE)
    assert secret not in everything_stored()
    assert set(Run.objects.values_list("upstream", "response_id")) == {(None, "")}
    assert set(Message.objects.values_list("author", flat=True)) == {alice.pk, None}
    assert set(Run.objects.values_list("requested_by", flat=True)) <= {alice.pk, None}
    assert not SearchRow.objects.filter(author__in=[bob, charlie]).exists()
    assert not StoredFile.objects.filter(created_by__in=[bob, charlie]).exists()
    run_id = Run.objects.earliest("pk").public_id
    assert response_id_of(run_id) in Run.objects.earliest("pk").result


def test_times_to_come_and_hidden_characters_are_not_taken_over(
    file: Value, alice: User, team: Team
) -> None:
    later = json.loads(re.sub(r"\d{4}(-\d\d-\d\dT)", r"2996\1", json.dumps(file)))
    later["conversation"]["title"] = " A\u202etitle\u0007"

    imported_file(alice, team, as_json(later))

    assert Conversation.objects.get().title == "Atitle"
    for model in (Conversation, Message, Run, Question, Attempt, Artifact, ArtifactVersion):
        times = [each.name for each in model._meta.fields if isinstance(each, DateTimeField)]
        for row in model._default_manager.values_list(*times):
            assert all(moment is None or moment <= timezone.now() for moment in row)


def test_html_of_the_file_is_text(file: Value, alice: User, team: Team, signed_in: SignIn) -> None:
    attack = '<script>alert(1)</script><img src=x onerror="alert(1)">'
    value = json.loads(
        re.sub(
            r'"(Look at [^"]*|By the [^"]*|Thanks\\.|[A-Z][a-z]+ [a-z ]+)"',
            json.dumps(attack),
            json.dumps(file),
        )
    )
    value["turns"][0] |= {"text": attack, "html": attack}

    imported_file(alice, team, as_json(value))

    room = Conversation.objects.get()
    assert problems_in_html(html_of(alice, room)) == []
    page = signed_in(alice).get(url_of("conversation", room)).content.decode()
    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_attachment_that_is_no_picture_is_left_out(file: Value, alice: User, team: Team) -> None:
    picture = next(each for each in file["files"] if each["name"] == "a picture.png")
    body = b"<svg onload='alert(1)'/>"
    digest = sha256(body).hexdigest()
    picture.update(sha256=digest, size_bytes=len(body))
    file["contents"][digest] = base64.b64encode(body).decode()

    report = imported_file(alice, team, as_json(file))

    assert [note.reason for note in report.left_out] == [
        f"“{picture['name']}” isn’t an image that can be attached."
    ]
    assert not Attachment.objects.exists()


def test_export_without_files_is_imported_without_them(
    file: Value, alice: User, team: Team
) -> None:
    file["contents"] = None

    report = imported_file(alice, team, as_json(file))

    assert report.created == 1
    assert len(report.left_out) == len(file["files"])
    assert not StoredFile.objects.exists()
    assert set(MockupFile.objects.values_list("status", flat=True)) == {"refused"}
    assert MockupFile.objects.filter(reason=NOT_IN_EXPORT).exists()


def test_digest_gives_nobody_the_bytes_of_others(
    file: Value, alice: User, bob: User, team: Team, other_team: Team
) -> None:
    imported_file(bob, team, as_json(file))
    before = StoredFile.objects.count()
    file["contents"] = {}

    report = imported_file(alice, team, as_json(file))

    assert report.created == 1
    assert StoredFile.objects.count() == before


def test_any_order_of_events_can_be_shown(
    file: Value, alice: User, team: Team, signed_in: SignIn
) -> None:
    shuffled = random.Random(7)
    for run in answers_in(file):
        *events_before, end = run["events"]
        shuffled.shuffle(events_before)
        run["events"] = [*events_before, end]
        for seq, event in enumerate(run["events"], start=1):
            event["seq"] = seq

    imported_file(alice, team, as_json(file))

    room = Conversation.objects.get()
    assert signed_in(alice).get(url_of("conversation", room)).status_code == 200
    assert problems_in_html(html_of(alice, room)) == []


# --- several, and again -----------------------------------------------------------------------------


def test_folder_of_the_export_command_is_imported_once(
    room: Room, alice: User, team: Team, tmp_path: Path
) -> None:
    for number in range(3):
        room.conversation = Conversation.objects.create(
            owner=alice, team=team, title=f"Conversation {number}"
        )
        room.turn("Hello")
    call_command(
        "export_conversations",
        "--all",
        "--format",
        "json",
        "--out",
        str(tmp_path),
        stdout=StringIO(),
    )
    count = Conversation.objects.count()
    Conversation.objects.all().delete()
    archive = as_zip({f"exports/{path.name}": path.read_bytes() for path in tmp_path.iterdir()})

    report = imported_file(alice, team, archive)

    # One has no turns.
    assert (report.format, report.found, report.created, report.empty) == ("tributary", count, 3, 1)
    assert imported_file(alice, team, archive).skipped == 3
    assert undo(alice, Import.objects.earliest("pk")).deleted == 3


def test_restored_conversation_can_be_continued(
    file: Value, alice: User, team: Team, upstream: Upstream
) -> None:
    imported_file(alice, team, as_json(file))
    room = Conversation.objects.get()

    run = send_message(
        alice,
        room,
        parent=read_path(alice, room).tail,
        text="Thanks",
        choice=ModelChoice(upstream=upstream, model="demo/model"),
        idempotency_key=uuid4(),
    )

    prompt = prepare(run.pk).prompt
    assert prompt.previous_response_id is None
    answers = [turn for turn in prompt.turns if isinstance(turn, AssistantTurn)]
    assert answers
    assert not any(turn.is_native for turn in answers)
