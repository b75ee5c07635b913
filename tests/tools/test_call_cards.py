"""The cards of calls that Tributary runs: what writers and readers see in each state, and its updates."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from lxml import html

from chat.conversations.page_updates import PageReader, render_updates
from chat.inbox.entries import read_entries
from chat.models import (
    CallStatus,
    Group,
    GroupMember,
    Membership,
    OAuthClient,
    Question,
    Team,
    TeamRole,
    Tool,
    ToolAccount,
    ToolCredentials,
    ToolServer,
    User,
)
from chat.runs.tool_calls import NEEDS_SCOPE
from tests.exports.check import html_of, json_of, markdown_of
from tests.support.rooms import Patches, Room, text_of, url_of
from tests.support.tool_calls import end_waiting, http_tool, item, put_call

NOW = timezone.now()


@pytest.fixture
def tool(team: Team, room: Room) -> Tool:
    tool = http_tool(team)
    room.conversation.tools.add(tool)
    return tool


@pytest.fixture
def question(room: Room, tool: Tool) -> Question:
    (question,) = end_waiting(room.ask("Book a room"), item())
    return question


def card_of(question: Question, page: html.HtmlElement) -> html.HtmlElement:
    return page.get_element_by_id(f"ask-{question.public_id.hex}")


APPROVED = {"approved_at": NOW, "claimed_at": NOW, "sent_at": NOW}
OVER = {**APPROVED, "finished_at": NOW + timedelta(seconds=3)}
# Status -> what is stored of the call and its question, and what everybody reads on the card.
STATES: dict[str, tuple[str, dict[str, object], dict[str, object], list[str]]] = {
    "approval": (CallStatus.APPROVAL, {}, {}, ["Run book_room?", "Waiting for approval", "Elbe"]),
    "queued": (CallStatus.QUEUED, {}, {}, ["book_room", "Running…"]),
    "running": (
        CallStatus.RUNNING,
        {**APPROVED, "progress": {"progress": 1, "total": 4, "message": "Asking <b>Anna</b>"}},
        {},
        ["book_room", "Running…", "Asking <b>Anna</b>"],
    ),
    "done by a rule": (
        CallStatus.DONE,
        OVER,
        {"answer": {"output": "Booked <it>"}},
        ["Ran automatically", "3.0 s", "Booked <it>"],
    ),
    "reported an error": (
        CallStatus.FAILED,
        OVER,
        {"answer": {"output": "No such room", "is_error": True}},
        ["The tool reported an error", "No such room"],
    ),
    "failed": (
        CallStatus.FAILED,
        {**OVER, "error": "The server didn’t answer in time."},
        {"answer": {"output": "The server didn’t answer in time.", "is_error": True}},
        ["Failed", "The server didn’t answer in time.", "The model was told"],
    ),
    "off": (
        CallStatus.REFUSED,
        {"error": "This tool is turned off."},
        {},
        ["Not run", "This tool is turned off."],
    ),
    "unknown": (CallStatus.UNKNOWN, APPROVED, {}, ["Did book_room run?", "May have run", "Elbe"]),
}


def test_card_says_the_same_to_all_in_each_state(
    room: Room,
    tool: Tool,
    question: Question,
    as_bob: Client,
    as_viewer: Client,
    subtests: pytest.Subtests,
) -> None:
    for label, (status, call, of_question, words) in STATES.items():
        put_call(question, tool, status, **call)
        Question.objects.filter(pk=question.pk).update(answered_at=NOW, **of_question)
        for client in (as_bob, as_viewer):
            with subtests.test(msg=label):
                card = text_of(card_of(question, room.page(client)))

                assert [each for each in words if each not in card] == []


def test_who_decided_is_named(
    room: Room, tool: Tool, question: Question, as_bob: Client, alice: User
) -> None:
    for status, of_question, words in [
        (CallStatus.DONE, {}, "Approved by Alice"),
        (CallStatus.REFUSED, {"answered_by": alice}, "Refused by Alice"),
        (CallStatus.FAILED, {"answered_by": alice, "status": "expired"}, "Stopped by Alice"),
        (CallStatus.DONE, {"answered_by": alice}, "Result submitted by Alice"),
        (CallStatus.UNKNOWN, {"answered_by": alice, "status": "expired"}, "Skipped by Alice"),
    ]:
        Question.objects.filter(pk=question.pk).update(answered_by=None)
        put_call(question, tool, status, approved_by=alice)
        Question.objects.filter(pk=question.pk).update(**of_question)

        assert words in text_of(card_of(question, room.page(as_bob)))


def test_writers_decide_and_readers_see_no_settings(
    room: Room, tool: Tool, question: Question, as_bob: Client, as_viewer: Client
) -> None:
    for status in (CallStatus.APPROVAL, CallStatus.UNKNOWN):
        put_call(question, tool, status)

        theirs = card_of(question, room.page(as_viewer))
        ours = card_of(question, room.page(as_bob))

        assert ours.xpath(".//form")
        assert not theirs.xpath(".//form | .//button | .//textarea")
        assert "office.example" in text_of(ours)
        assert "With the team’s key" in text_of(ours)
        assert "office.example" not in text_of(theirs)
        assert "key" not in text_of(theirs)
        assert "Anyone who can write in this conversation" in text_of(theirs)
        assert "s3cret" not in room.source(as_bob)


def test_readers_see_no_server_on_a_card_in_any_state(
    room: Room, tool: Tool, question: Question, as_bob: Client, as_viewer: Client
) -> None:
    for status in (CallStatus.RUNNING, CallStatus.DONE):
        for server_name, words in (("", "office.example"), ("Harbor office", "Harbor office")):
            put_call(question, tool, status, server_name=server_name)

            assert words in text_of(card_of(question, room.page(as_bob)))
            assert words not in text_of(card_of(question, room.page(as_viewer)))


def test_destructive_tool_is_not_allowed_in_advance(
    room: Room, tool: Tool, question: Question, as_bob: Client
) -> None:
    put_call(question, tool, CallStatus.APPROVAL)

    for is_destructive in (False, True):
        Tool.objects.update(is_destructive=is_destructive)
        card = card_of(question, room.page(as_bob))

        assert bool(card.xpath(".//button[@name='always']")) == (not is_destructive)
        assert ("change or delete" in text_of(card)) == is_destructive


def test_hidden_characters_are_seen_before_an_approval(
    room: Room, tool: Tool, as_bob: Client
) -> None:
    (question,) = end_waiting(room.ask("Book"), item(room="El\u202ebe"))
    put_call(question, tool, CallStatus.APPROVAL)

    card = card_of(question, room.page(as_bob))

    assert "El[U+202E]be" in text_of(card)
    assert "El\\u202ebe" in card.xpath(".//textarea[@name='arguments']")[0].text


def test_edited_arguments_are_told_beside_those_of_the_model(
    room: Room, tool: Tool, question: Question, as_viewer: Client
) -> None:
    put_call(question, tool, CallStatus.DONE, arguments={"room": "Oder", "hours": 1}, **OVER)

    card = text_of(card_of(question, room.page(as_viewer)))

    assert "Oder" in card
    assert "Elbe" in card
    assert "Arguments the model asked for" in card


# --- updates of an open page ---------------------------------------------------------------


def changes(client: Client, room: Room, question: Question, mark: str, **more: object) -> Patches:
    shown = {
        "runs": {question.run.public_id.hex: 1},
        "asks": {question.public_id.hex: mark},
        "open": [question.run.message.public_id.hex],
        **more,
    }
    return room.changes(client, room.position(question.run.message, **shown))


def mark_of(client: Client, room: Room, question: Question) -> str:
    line = room.page(client).get_element_by_id(f"ask-line-{question.public_id.hex}")
    return str(line.get("data-mark"))


def test_card_is_sent_again_in_another_stage_and_only_its_line_with_progress(
    room: Room, tool: Tool, question: Question, as_bob: Client
) -> None:
    card, line = (f"#ask-{part}-{question.public_id.hex}" for part in ("card", "line"))
    put_call(question, tool, CallStatus.APPROVAL)
    waiting = mark_of(as_bob, room, question)
    put_call(question, tool, CallStatus.RUNNING, claimed_at=NOW)

    patches = changes(as_bob, room, question, waiting)
    assert patches.targets >= {card}
    assert line not in patches.targets

    running = mark_of(as_bob, room, question)
    assert not changes(as_bob, room, question, running).targets & {card, line}

    put_call(question, tool, CallStatus.RUNNING, claimed_at=NOW, progress={"message": "Half"})
    patches = changes(as_bob, room, question, running)
    assert "Half" in patches.text(line)
    assert card not in patches.targets


def test_pushed_card_has_its_buttons_only_for_people_of_the_groups(
    room: Room, tool: Tool, question: Question, bob: User
) -> None:
    server = ToolServer.objects.create(
        team=tool.team, name="Harbor", address="http://h.test", is_for_groups=True
    )
    group = Group.objects.create(team=tool.team, name="Pilots")
    server.groups.add(group)
    GroupMember.objects.create(group=group, user=bob)
    Tool.objects.update(server=server)
    carol = User.objects.create_user("carol@example.org", None, name="Carol")
    Membership.objects.create(team=tool.team, user=carol, role=TeamRole.MEMBER)
    shown = {
        "runs": {question.run.public_id.hex: 1},
        "asks": {question.public_id.hex: "another"},
        "open": [question.run.message.public_id.hex],
        "tools": "another",
    }
    state = room.position(question.run.message, **shown)["X-Room-Position"].encode()
    readers = [PageReader(user.pk, state) for user in (bob, carol)]

    updates = render_updates(room.conversation.public_id, readers)

    button = reverse("call_approve", args=[question.public_id])
    assert [button in updates[reader].html for reader in readers] == [True, False]


def test_running_call_asks_nobody(
    room: Room, tool: Tool, question: Question, as_alice: Client, alice: User
) -> None:
    for status, is_asked in [(CallStatus.APPROVAL, True), (CallStatus.RUNNING, False)]:
        put_call(question, tool, status)

        page = room.page(as_alice)
        strip = text_of(page.get_element_by_id("strip"))
        entries = read_entries([alice.pk])[alice.pk]

        assert ("Running book_room" in strip) == (not is_asked)
        assert ("Waiting for approval" in strip) == is_asked
        assert bool(page.xpath("//*[contains(@class, 'mark-waiting')]")) == is_asked
        assert [each.kind for each in entries] == (["call"] if is_asked else [])
        assert bool(page.xpath("//*[@data-stop]")) == (not is_asked)
        assert "Skip and continue" not in text_of(page)


def test_strip_says_for_whom_an_answer_waits(
    room: Room,
    tool: Tool,
    question: Question,
    as_alice: Client,
    as_bob: Client,
    as_viewer: Client,
    alice: User,
    subtests: pytest.Subtests,
) -> None:
    server = ToolServer.objects.create(
        team=tool.team, name="Harbor", address="http://h.test", credentials=ToolCredentials.PERSON
    )
    Tool.objects.update(server=server)
    personal = {"is_personal": True, "executor": alice, "server_name": "Harbor"}
    issuer = {"issuer": "http://i.test", "client_id": "c", "redirect_uri": "http://t.test"}
    client = OAuthClient.objects.create(team=tool.team, source="entered", **issuer)
    account = {"person": alice, "server": server, "client": client, "issuer": "http://i.test"}
    states = [
        (CallStatus.APPROVAL, {}, False, ["Waiting for approval"] * 3),
        (
            CallStatus.APPROVAL,
            personal,
            False,
            [
                "Waiting for sign-in at Harbor",
                "Waiting for Alice to sign in at Harbor",
                "Waiting for Alice to sign in",
            ],
        ),
        (
            CallStatus.APPROVAL,
            personal,
            True,
            ["Waiting for approval", *["Waiting for Alice’s approval"] * 2],
        ),
        (
            CallStatus.APPROVAL,
            {**personal, "error": NEEDS_SCOPE},
            True,
            [
                "Waiting for sign-in at Harbor",
                "Waiting for Alice to sign in at Harbor",
                "Waiting for Alice to sign in",
            ],
        ),
        (
            CallStatus.UNKNOWN,
            personal,
            True,
            ["Waiting for your answer", *["Waiting for Alice’s answer"] * 2],
        ),
    ]
    marks = set()
    for status, values, has_account, sentences in states:
        put_call(question, tool, status, **values)
        ToolAccount.objects.all().delete()
        if has_account:
            ToolAccount.objects.create(**account, resource="http://h.test")
        for reader, sentence in zip((as_alice, as_bob, as_viewer), sentences, strict=True):
            with subtests.test(msg=sentence):
                strip = room.page(reader).get_element_by_id("strip")

                assert (
                    text_of(strip).removesuffix("Go to call").removesuffix("Go to question").strip()
                    == sentence
                )
                marks.add(strip.get("data-mark"))
    # An open page gets another strip.
    assert len(marks) == 4


# --- elsewhere ------------------------------------------------------------------------------


def receipt_of(client: Client, question: Question) -> str:
    page = client.get(url_of("run_details", question.run)).content.decode()
    return text_of(html.fromstring(page))


def test_details_have_the_receipt_of_a_call(
    room: Room, tool: Tool, question: Question, as_bob: Client, as_viewer: Client, bob: User
) -> None:
    sent = {**OVER, "request_bytes": 2048, "response_bytes": 10, "attempt": 1}
    arguments = {"room": "Oder"}
    put_call(
        *(question, tool, CallStatus.DONE),
        **sent,
        approved_by=bob,
        arguments=arguments,
        definition_digest="ab" * 32,
    )

    ours, theirs = receipt_of(as_bob, question), receipt_of(as_viewer, question)

    for words in ("Approved byBob", "Duration3.0 s", "Request size2.0 KB", "Oder", "Elbe", "Done"):
        assert words in ours
        assert words in theirs
    for words in ("office.example", "With the team’s key", "Ask each time", "abababababab"):
        assert words in ours
        assert words not in theirs


def test_details_of_a_run_whose_tool_runs_say_so(
    room: Room, tool: Tool, question: Question, as_bob: Client
) -> None:
    put_call(question, tool, CallStatus.RUNNING, **APPROVED)

    page = receipt_of(as_bob, question)

    assert "Running a tool" in page
    assert "Needs input" not in page


def test_exports_tell_of_calls_and_readers_get_no_settings_of_them(
    room: Room, tool: Tool, question: Question, bob: User, viewer: User
) -> None:
    call = {**OVER, "server_name": "Office", "definition_digest": "ab" * 32, "approved_by": bob}
    put_call(question, tool, CallStatus.DONE, **call)

    for reader, server in [(bob, "Office"), (viewer, "")]:
        exported = json_of(reader, room.conversation)
        (told,) = [q.tool_call for t in exported.turns for r in t.runs for q in r.questions]

        assert told is not None
        assert (told.status, told.server_name, bool(told.rule)) == ("done", server, bool(server))
        assert told.approved_by is not None
        assert told.approved_by.name == "Bob"
        assert "Approved by Bob" in markdown_of(reader, room.conversation)
        assert "Approved by Bob" in html_of(reader, room.conversation)


def test_copies_tell_the_state_of_calls_that_are_not_over(
    room: Room, tool: Tool, question: Question, bob: User
) -> None:
    for status, words in [
        (CallStatus.APPROVAL, "Waiting for approval"),
        (CallStatus.RUNNING, "Running"),
        (CallStatus.UNKNOWN, "May have run"),
    ]:
        put_call(question, tool, status)

        assert words in markdown_of(bob, room.conversation)
        assert words in html_of(bob, room.conversation)
        assert json_of(bob, room.conversation).turns[-1].runs[0].questions[0].status == "open"


def test_inbox_lists_answered_calls_but_none_that_ran_by_themselves(
    room: Room, tool: Tool, question: Question, as_alice: Client, bob: User
) -> None:
    url = reverse("inbox") + "?tab=answered"
    Question.objects.update(answered_at=NOW)

    listed = []
    for approver in (None, bob):
        put_call(question, tool, CallStatus.DONE, approved_by=approver)
        listed.append("book_room" in as_alice.get(url).content.decode())

    assert listed == [False, True]
