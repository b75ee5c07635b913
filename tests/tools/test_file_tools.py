"""The tools by which a model reads attached documents: what they answer, and whose files they reach."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
import pytest
from django.test import Client

from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.messages import ModelChoice
from chat.documents import file_tools
from chat.documents.file_tools import AttachedDocument, Refused, answer, definitions
from chat.forks.actions import fork
from chat.models import (
    CallStatus,
    Conversation,
    FileUse,
    Message,
    Question,
    Run,
    Team,
    ToolCall,
    Upstream,
    User,
    Visibility,
)
from chat.tools import endings
from chat.tools.files import _answer, attached_documents
from chat.tools.kinds import CallFailed
from tests.imports.test_tributary import exported, restored
from tests.runs.helpers import text_of, threads, until, until_ended
from tests.runs.waiting import call, calling, ended, result_of, saying, wire_call
from tests.support.documents import attach_document, attach_file, refuse, unread
from tests.support.rooms import get_page, url_of
from tests.support.run_fixtures import Execute, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.tools.calling import call_of, calls_of, claim, follow_up_of, given_to

PAGES = ("Alpha begins.\nThe river rises.", "Beta.\nThe RIVER falls, and the sea rises.", "Gamma.")


def ask(
    user: User, conversation: Conversation, upstream: Upstream, parent: Message | None = None
) -> Run:
    return message_actions.send_message(
        user,
        conversation,
        parent=parent,
        text="What does it say?",
        choice=ModelChoice(upstream=upstream, model="test/model"),
        idempotency_key=uuid.uuid4(),
    )


@pytest.fixture
def run(alice: User, conversation: Conversation, upstream: Upstream) -> Run:
    """An answer that is offered the tools, for a file of three pages."""
    run = ask(alice, conversation, upstream)
    attach_document(run.message.parent, "long.pdf", PAGES, use=FileUse.TOOLS)
    Run.objects.filter(pk=run.pk).update(tools=msgspec.to_builtins(definitions(())))
    run.refresh_from_db()
    return run


def files_of(run: Run) -> list[AttachedDocument]:
    return list(attached_documents(run))


# --- what they answer -----------------------------------------------------------------------------


def test_files_are_listed(run: Run) -> None:
    message = run.message.parent
    attach_document(message, "notes.txt", ["One."], body=b"One.", media_type="text/plain")
    attach_document(message, "part.pdf", PAGES, body=b"%PDF-2", pages="2-3")
    refuse(attach_file(message, "locked.pdf", b"%PDF-3").file)
    unread(attach_file(message, "new.pdf", b"%PDF-4").file)
    attach_file(message, "a.zip", b"PK", media_type="application/zip")
    attach_file(message, "a.png", b"PNG", media_type="image/png")

    assert answer("list_files", {}, files_of(run)).split("\n") == [
        "1. long.pdf: 3 pages, about 20 tokens",
        "2. notes.txt: about 1 token",
        "3. part.pdf: 3 pages, about 20 tokens, of which 2-3 are attached",
        "4. locked.pdf: its text is not available",
        "5. new.pdf: not read yet",
        "6. a.zip: not readable as text",
    ]


READS: dict[str, tuple[dict[str, Any], str]] = {
    "all of it": (
        {"file": "long.pdf"},
        "[Page 1]\nAlpha begins.\nThe river rises.\n[Page 2]\nBeta.\n"
        "The RIVER falls, and the sea rises.\n[Page 3]\nGamma.\n[End]",
    ),
    "by its number": ({"file": 1, "pages": "3"}, "[Page 3]\nGamma.\n[End]"),
    "some pages": (
        {"file": "long.pdf", "pages": "3, 1"},
        "[Page 1]\nAlpha begins.\nThe river rises.\n[Page 3]\nGamma.\n[End]",
    ),
    "from a line on": (
        {"file": "long.pdf", "pages": "2-3", "from_line": 2},
        "[Page 2]\nThe RIVER falls, and the sea rises.\n[Page 3]\nGamma.\n[End]",
    ),
}


def test_pages_are_read(run: Run, subtests: pytest.Subtests) -> None:
    for label, (arguments, expected) in READS.items():
        with subtests.test(msg=label):
            head, _, text = answer("read_file", arguments, files_of(run)).partition("\n")

            assert head == "[File: long.pdf, 3 pages, about 20 tokens]"
            assert text == expected


def test_long_text_comes_in_several_answers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_tools, "ANSWER_CHARACTERS", 60)
    monkeypatch.setattr(file_tools, "LINE_CHARACTERS", 25)

    first = answer("read_file", {"file": "long.pdf"}, files_of(run))
    rest = answer("read_file", {"file": "long.pdf", "pages": "2-3", "from_line": 2}, files_of(run))

    assert first.endswith('Beta.\n[More follows: call with pages="2-3", from_line=2]')
    assert "The RIVER falls, and the \nsea rises.\n[Page 3]\nGamma." in rest


def test_lines_of_a_text_without_pages_count_through(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    attach_document(
        run.message.parent, "a.txt", ["One\nTwo", "Three"], body=b"1", media_type="text/plain"
    )
    monkeypatch.setattr(file_tools, "ANSWER_CHARACTERS", 8)

    assert answer("read_file", {"file": "a.txt"}, files_of(run)).endswith(
        "One\nTwo\n[More follows: call with from_line=3]"
    )
    assert (
        answer("search_file", {"file": "a.txt", "query": "three"}, files_of(run)) == "Line 3: Three"
    )


SEARCHES: dict[str, tuple[dict[str, Any], str]] = {
    "the best line first": (
        {"query": "sea River"},
        "Page 2, line 2: The RIVER falls, and the sea rises.\nPage 1, line 2: The river rises.",
    ),
    "nothing": ({"query": "desert"}, "No line has any of these words."),
    "from a page on": (
        {"query": "river", "from_page": "2"},
        "Page 2, line 2: The RIVER falls, and the sea rises.",
    ),
}


def test_lines_are_found(run: Run, subtests: pytest.Subtests) -> None:
    for label, (arguments, expected) in SEARCHES.items():
        with subtests.test(msg=label):
            found = answer("search_file", {"file": "long.pdf", **arguments}, files_of(run))

            assert found == expected


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("uber", ["Line 1: Über die Flüße"]),
        ("FLUSSE", ["Line 1: Über die Flüße"]),
        ("cafe\u0301", ["Line 2: café"]),
        ("отчет", ["Line 3: ОТЧЁТ"]),
        ("京都", ["Line 4: 東京都"]),
        ("x" * 500, ["No line has any of these words."]),
    ],
)
def test_search_ignores_case_and_accents(run: Run, query: str, found: list[str]) -> None:
    text = "Über die Flüße\ncafé\nОТЧЁТ\n東京都"
    attach_document(run.message.parent, "a.txt", [text], body=b"a", media_type="text/plain")

    answered = answer("search_file", {"file": "a.txt", "query": query}, files_of(run))

    assert answered.split("\n") == found


def test_search_is_bounded_and_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_tools, "SEARCHED_CHARACTERS", 10)
    monkeypatch.setattr(file_tools, "MOST_FOUND", 1)
    monkeypatch.setattr(file_tools, "KEPT_WHILE_SEARCHING", 2)

    found = answer("search_file", {"file": "long.pdf", "query": "alpha river"}, files_of(run))

    assert found.split("\n") == [
        "Page 1, line 1: Alpha begins.",
        "1 more lines have some. Use more exact words.",
        "Only the pages before 2 were searched. Go on with from_page=2.",
    ]


REFUSALS: dict[str, tuple[str, dict[str, Any], str]] = {
    "another conversation's file": (
        "read_file",
        {"file": "secret.pdf"},
        "No file named “secret.pdf”",
    ),
    "a path": ("read_file", {"file": "../../etc/passwd"}, "No file named"),
    "no file": ("search_file", {"query": "x"}, "No file named"),
    "a number too high": ("read_file", {"file": "2"}, "No file named"),
    "a list": ("read_file", {"file": ["long.pdf"]}, "No file named"),
    "no words": ("search_file", {"file": "long.pdf", "query": " "}, "The query is empty"),
    "pages that are none": ("read_file", {"file": "long.pdf", "pages": "x"}, "Write page numbers"),
    "a page too high": ("read_file", {"file": "long.pdf", "pages": "9"}, "There is no page 9"),
    "a line that is none": ("read_file", {"file": "long.pdf", "from_line": "x"}, "whole numbers"),
    "a line without end": ("read_file", {"file": "long.pdf", "from_line": 1e999}, "whole numbers"),
}


def test_wrong_calls_are_refused_with_a_sentence(run: Run, subtests: pytest.Subtests) -> None:
    for label, (function, arguments, sentence) in REFUSALS.items():
        with subtests.test(msg=label), pytest.raises(Refused, match=sentence):
            answer(function, arguments, files_of(run))


def test_pages_that_were_not_chosen_are_not_read(run: Run) -> None:
    attach_document(run.message.parent, "part.pdf", PAGES, body=b"%PDF-2", pages="2")
    files = files_of(run)

    assert "Alpha" not in answer("read_file", {"file": "part.pdf"}, files)
    assert "Alpha" not in answer("search_file", {"file": "part.pdf", "query": "begins"}, files)
    with pytest.raises(Refused, match="only the pages 2 are attached"):
        answer("read_file", {"file": "part.pdf", "pages": "1"}, files)


def test_names_of_the_team_s_own_tools_are_left_to_them(run: Run) -> None:
    names = [tool.name for tool in definitions({"read_file", "weather"})]

    assert names == ["attached_list_files", "attached_search_file", "attached_read_file"]
    assert [file_tools.function_of(name) for name in names] == [
        "list_files",
        "search_file",
        "read_file",
    ]


# --- whose files they reach -----------------------------------------------------------------------


def test_files_of_other_branches_and_conversations_are_not_reached(
    run: Run, alice: User, upstream: Upstream, private_conversation: Conversation
) -> None:
    branch = ask(alice, run.conversation, upstream)
    attach_document(branch.message.parent, "branch.pdf", ["Other."], body=b"%PDF-5")
    elsewhere = ask(alice, private_conversation, upstream)
    attach_document(elsewhere.message.parent, "secret.pdf", ["Secret."], body=b"%PDF-6")

    assert [file.name for file in files_of(run)] == ["long.pdf"]
    assert [file.name for file in files_of(branch)] == ["branch.pdf"]


def called(run: Run, name: str = "read_file", **arguments: object) -> Run:
    return ended(run, result_of(call("c1", name, **arguments)))


def carried_out(run: Run) -> None:
    """Runs the queued calls as a runner does."""
    for claimed in claim(run):
        try:
            ending = _answer(
                claimed.address.run, file_tools.function_of(claimed.address.name), claimed.arguments
            )
        except CallFailed as failed:
            endings.end_call(claimed.pk, claimed.claim, failed)
        else:
            endings.end_call(claimed.pk, claimed.claim, ending)


def test_call_runs_without_anybody_and_the_answer_goes_on(run: Run) -> None:
    run = called(run, file="long.pdf", pages="3")

    assert call_of(run).status == CallStatus.QUEUED
    assert Question.objects.get(run=run).status == "running"
    carried_out(run)

    assert call_of(run).status == CallStatus.DONE
    assert "[Page 3]\nGamma." in given_to(run)
    follow_up = follow_up_of(run)
    assert follow_up is not None
    assert [tool["name"] for tool in follow_up.tools] == ["list_files", "search_file", "read_file"]


@pytest.mark.parametrize("way", ["fork", "import"])
def test_open_call_of_a_copy_waits_until_somebody_wants_it(
    run: Run, way: str, alice: User, team: Team, as_alice: Client
) -> None:
    run = called(run, file="long.pdf", pages="3")
    document = exported(alice, run.conversation)
    if way == "fork":
        copy = fork(alice, run.conversation, idempotency_key=uuid.uuid4())
    else:
        copy = restored(alice, team, document)
    copied = Run.objects.get(conversation=copy)

    ToolCall.objects.filter(question__run=run).update(status=CallStatus.DONE)
    # A copy begins no request that nobody has asked for.
    assert call_of(copied).status == CallStatus.APPROVAL
    assert Question.objects.get(run=copied).status == "open"
    page = get_page(as_alice, url_of("conversation", copy))
    (form,) = page.xpath("//form[contains(@action, '/approve/')]")
    assert as_alice.post(form.get("action")).status_code in (200, 302)
    assert call_of(copied).status == CallStatus.QUEUED
    carried_out(copied)

    assert call_of(copied).status == CallStatus.DONE
    output = Question.objects.get(run=copied).answer["output"]
    assert "[Page 3]\nGamma." in output
    # An import has no server that could go on.
    assert way == "import" or output in given_to(copied)


def test_call_for_another_conversation_s_file_tells_the_model_so(run: Run) -> None:
    run = called(run, file="secret.pdf")

    carried_out(run)

    assert call_of(run).status == CallStatus.FAILED
    assert "No file named “secret.pdf” is attached" in given_to(run)


def test_person_who_lost_the_right_to_read_reaches_nothing(run: Run, bob: User) -> None:
    Run.objects.filter(pk=run.pk).update(requested_by=bob)
    run = called(Run.objects.get(pk=run.pk), file="long.pdf")
    (claimed,) = claim(run)

    Conversation.objects.filter(pk=run.conversation_id).update(visibility=Visibility.PRIVATE)

    with pytest.raises(CallFailed, match="can no longer read"):
        _answer(claimed.address.run, "read_file", claimed.arguments)


def test_call_of_an_answer_without_documents_is_for_nobody(
    alice: User, conversation: Conversation, upstream: Upstream
) -> None:
    run = ask(alice, conversation, upstream)
    Run.objects.filter(pk=run.pk).update(
        tools=[{"name": "weather", "description": "", "schema": {}}]
    )
    run.refresh_from_db()

    run = called(run, file="long.pdf")

    assert call_of(run).status == CallStatus.REFUSED


def test_too_many_calls_are_refused_without_asking_people(run: Run, settings: Any) -> None:
    settings.TOOL_CALLS = 1

    run = ended(
        run, result_of(call("c1", "list_files"), call("c2", "list_files"), call("c3", "list_files"))
    )

    assert [each.status for each in calls_of(run)] == ["queued", "refused", "refused"]


# --- a whole answer -------------------------------------------------------------------------------


@pytest.mark.databases
async def test_answer_reads_a_file_by_itself(
    fake: FakeUpstream, queue_run: Execute, start_runner: StartRunner
) -> None:
    scripts = [
        calling(wire_call(0, "c1", "read_file", '{"file": "long.pdf", "pages": "2"}')),
        saying("It falls."),
    ]
    run = await queue_run(*scripts, dialect="openai_chat")
    await threads.call(
        lambda: attach_document(run.message.parent, "long.pdf", PAGES, use=FileUse.TOOLS)
    )

    await start_runner()
    await until(lambda: Run.objects.filter(message=run.message_id, position=1).exists())
    follow_up = await threads.call(lambda: Run.objects.get(message=run.message_id, position=1))
    ended_run = await until_ended(follow_up)

    assert text_of(ended_run).endswith("It falls.")
    (given,) = (
        message
        for request in fake.requests
        for message in request.body["messages"]
        if message["role"] == "tool"
    )
    assert "The RIVER falls" in given["content"]
