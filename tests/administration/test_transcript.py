"""The transcript of a conversation and the page of a run, as an administrator reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chat import events
from chat.administration.transcript import TURNS_PER_PAGE, pretty_result
from chat.models import (
    AccessReason,
    Attachment,
    Attempt,
    Conversation,
    Message,
    Question,
    QuestionKind,
    QuestionStatus,
    Role,
    Run,
    RunSegment,
    RunStatus,
    Upstream,
    User,
)
from chat.models.tree import tree_order
from chat.rendering.patches import Answer
from chat.runs.segments import read_events
from tests.administration.conversations import answer, ask
from tests.administration.pages import row_url, text_of
from tests.support.files import store_file
from tests.support.reasons import give_reason

Transcript = Callable[..., str]


@pytest.fixture
def transcript(admin_client: Client, administrator: User, conversation: Conversation) -> Transcript:
    """The page of the shared conversation; ``of`` is another one. There is a reason to read it."""

    def read(*, of: Conversation = conversation, **query: object) -> str:
        if not AccessReason.objects.filter(conversation=of).exists():
            give_reason(administrator, of)
        return text_of(admin_client, row_url(of), **query)

    return read


# --- one turn ----------------------------------------------------------------------------------


def test_transcript_shows_authors_and_text(
    transcript: Transcript, private_conversation: Conversation, private_run: Run
) -> None:
    page = transcript(of=private_conversation)

    assert "Where is my <em>secret</em> spring?" in page
    assert "Alice" in page
    assert "<strong>old</strong>" in page
    assert "demo/model" in page
    assert "Completed" in page


def test_answer_looks_as_in_the_conversation(
    transcript: Transcript, private_conversation: Conversation, private_run: Run
) -> None:
    shown = Answer(private_run.public_id.hex)
    for event in read_events(private_run):
        shown.apply(event)

    assert shown.snapshot() in transcript(of=private_conversation)


def test_turns_show_what_exported_turns_show(
    transcript: Transcript, conversation: Conversation, bob: User
) -> None:
    question = ask(conversation, bob, "Look <b>here</b>")
    picture = store_file(
        conversation=conversation, name="<i>mill.png", body=b"\x89PNG", created_by=bob
    )
    Attachment.objects.create(message=question, file=picture, position=0)
    run = answer(question, "Which one?")
    Question.objects.create(
        conversation=conversation,
        run=run,
        kind=QuestionKind.ASK,
        ask_id="a1",
        body={"question": "<u>Left</u> or right?"},
        status=QuestionStatus.ANSWERED,
        answered_by=bob,
        answer={"text": "<s>Right</s>"},
    )

    page = transcript()

    for shown in ("Look ", "mill.png", "or right?", "Right", f"Answered by {bob}"):
        assert shown in page, shown
    for element in ("<b>here", "<i>mill", "<u>Left", "<s>Right"):
        assert element not in page, element


def test_attempt_of_a_stopped_run_is_not_in_progress(
    transcript: Transcript, conversation: Conversation, bob: User, upstream: Upstream
) -> None:
    question = ask(conversation, bob, "Again?")
    run = answer(question, "No.", upstream=upstream, status="stopped")
    Attempt.objects.create(run=run, number=1)

    page = transcript()

    assert re.search(
        r"<th scope=\"row\">1</th><td><time[^>]*>[^<]*</time></td><td>\s*Stopped", page
    )
    assert "In progress" not in page


def test_run_shows_all_its_facts(
    transcript: Transcript, conversation: Conversation, bob: User, upstream: Upstream
) -> None:
    run = answer(
        ask(conversation, bob, "Again?"),
        "No.",
        upstream=upstream,
        status="failed",
        notes=["Earlier turns were sent as text."],
        parameters={"temperature": 0.25},
        system_prompt="Be brief.",
        stop_requested_by=bob,
    )
    Run.objects.filter(pk=run.pk).update(input_tokens=12345, output_tokens=67)
    Attempt.objects.create(
        run=run,
        number=1,
        outcome="refused",
        error_kind="rate_limit",
        error_message="Asked too often.",
        retry_after_seconds=2,
    )

    page = transcript()

    for fact in (
        "Failed",
        "The model ran out of memory.",
        "Earlier turns were sent as text.",
        "temperature",
        "0.25",
        "Be brief.",
        "Stopped by",
        "12,345",
        "Output tokens",
        "Request sent",
        "+9.0 s",
        "Rejected",
        "Asked too often.",
        "retry after 2 s",
        upstream.name,
        str(run.public_id),
        "&quot;model_instance_id&quot;: &quot;demo/model&quot;",
    ):
        assert fact in page or fact.lower() in page, fact


def test_native_data_is_left_out_of_the_result() -> None:
    stored = json.dumps({"ext": {"status": "completed", "native": {"signature": "opaque"}}})

    shown = json.loads(pretty_result(stored))

    assert shown["ext"]["status"] == "completed"
    assert "opaque" not in pretty_result(stored)
    assert "native" in shown["ext"]


@pytest.mark.parametrize("stored", ["", "no json", "[]", "null", '{"ext": null}'])
def test_any_stored_result_can_be_shown(stored: str) -> None:
    assert isinstance(pretty_result(stored), str)


def test_long_result_is_whole_on_the_page_of_its_run(
    transcript: Transcript, admin_client: Client, conversation: Conversation, bob: User
) -> None:
    run = answer(ask(conversation, bob, "Long?"), "word " * 20_000)

    page = transcript()
    whole = text_of(admin_client, row_url(run))

    assert "Only the beginning is shown." in page
    assert "Only the beginning is shown." not in whole
    assert "&quot;stats_source&quot;" in whole or "&quot;stop&quot;" in whole


def test_live_run_shows_its_text_so_far(
    transcript: Transcript, conversation: Conversation, bob: User
) -> None:
    run = answer(ask(conversation, bob, "Live?"), "So far.")
    Run.objects.filter(pk=run.pk).update(status=RunStatus.RUNNING, finished_at=None, result="")

    page = transcript()

    assert "This run was in progress when the page loaded." in page
    assert "So far." in page
    assert "No result yet" in page


def test_run_without_a_log_shows_its_result(
    transcript: Transcript, private_conversation: Conversation, private_run: Run
) -> None:
    RunSegment.objects.filter(run=private_run).delete()

    page = transcript(of=private_conversation)

    assert "The event log is no longer stored." in page
    assert "Below the **old** mill." in page


def test_turns_outlive_their_author_and_server(
    transcript: Transcript, shared_run: Run, upstream: Upstream, bob: User
) -> None:
    upstream.delete()
    Message.objects.filter(author=bob).update(author=None)
    Run.objects.update(requested_by=None)

    page = transcript()

    assert "Deleted user" in page
    assert "Deleted server" in page


def test_deleted_conversation_can_still_be_read(transcript: Transcript, shared_run: Run) -> None:
    Conversation.objects.update(deleted_at=timezone.now())

    page = transcript()

    assert "Deleted" in page
    assert "Three miles." in page


def test_empty_conversation_says_so(transcript: Transcript) -> None:
    assert "No messages" in transcript()


def test_all_kinds_of_items_are_shown(
    transcript: Transcript, conversation: Conversation, bob: User
) -> None:
    before: list[events.Event] = [
        events.ReasoningStart(item=0, t=1),
        events.ReasoningDelta(item=0, content="Let me think.", t=2),
        events.ReasoningEnd(item=0, t=900),
        events.ToolCallStart(item=1, tool="look_up", executes="upstream", t=1000),
        events.ToolCallArguments(item=1, tool="look_up", arguments={"river": "Rhine"}, t=1100),
        events.ToolCallSuccess(
            item=1, tool="look_up", arguments={"river": "Rhine"}, output="1233 km", t=1400
        ),
    ]
    answer(ask(conversation, bob, "How long?"), "1233 km.", before=before)

    page = transcript()

    for words in ("Let me think.", "look_up", "Rhine", "1233 km."):
        assert words in page


def test_queued_run_has_no_times(
    transcript: Transcript, conversation: Conversation, bob: User
) -> None:
    message = Message.objects.create(
        conversation=conversation, role=Role.ASSISTANT, parent=ask(conversation, bob, "Wait?")
    )
    Run.objects.create(
        conversation=conversation,
        message=message,
        model="demo/model",
        requested_by=bob,
        idempotency_key=message.public_id,
        queued_at=timezone.now() - timedelta(seconds=3),
    )

    page = transcript()

    assert "Queued" in page
    assert "No output yet" in page
    assert "First token" not in page


# --- branches ----------------------------------------------------------------------------------


def test_every_branch_is_shown_and_versions_are_numbered(
    transcript: Transcript, conversation: Conversation, bob: User
) -> None:
    question = ask(conversation, bob, "Root?")
    first = answer(question, "First try.")
    ask(conversation, bob, "Below the first.", parent=first.message)
    answer(question, "Second try.")

    page = transcript()

    order = ["Root?", "First try.", "Below the first.", "Second try."]
    assert sorted(order, key=page.index) == order
    assert "Version 1 of 2" in page
    assert "Version 2 of 2" in page
    assert 'href="?page=1#turn-1"' in page[page.index("Another branch") :]


def test_turns_come_in_tree_order(conversation: Conversation, bob: User) -> None:
    root = ask(conversation, bob, "root")
    left = ask(conversation, bob, "left", parent=root)
    right = ask(conversation, bob, "right", parent=root)
    leaf = ask(conversation, bob, "leaf", parent=left)
    other = ask(conversation, bob, "other root")

    places = tree_order(Message.objects.all())

    assert [
        (
            place.pk,
            place.parent_number,
            place.sibling_number,
            place.sibling_count,
            place.begins_branch,
        )
        for place in places
    ] == [
        (root.pk, None, 1, 2, False),
        (left.pk, 1, 1, 2, False),
        (leaf.pk, 2, 1, 1, False),
        (right.pk, 1, 2, 2, True),
        (other.pk, None, 2, 2, True),
    ]


def test_tree_deeper_than_the_stack_is_ordered() -> None:
    messages = [Message(pk=key, parent_id=key - 1 or None) for key in range(1, 5001)]

    assert [place.pk for place in tree_order(messages)] == list(range(1, 5001))


# --- pages -------------------------------------------------------------------------------------


@pytest.fixture
def long_conversation(conversation: Conversation, bob: User) -> Conversation:
    """Three pages of turns."""
    parent = None
    for number in range(1, TURNS_PER_PAGE * 2 + 6):
        parent = ask(conversation, bob, f"Turn number {number}.", parent=parent)
    return conversation


@pytest.mark.usefixtures("long_conversation")
def test_long_transcript_is_paged(transcript: Transcript) -> None:
    first = transcript()
    second = transcript(page=2)

    assert "Page 1 of 3" in first
    assert f"Turn number {TURNS_PER_PAGE}." in first
    assert f"Turn number {TURNS_PER_PAGE + 1}." not in first
    assert f"Turn number {TURNS_PER_PAGE + 1}." in second
    assert 'rel="prev"' in second
    assert 'rel="next"' in second


@pytest.mark.usefixtures("long_conversation")
def test_any_page_number_gives_a_page(transcript: Transcript, subtests: pytest.Subtests) -> None:
    for asked, shown in (("0", 1), ("99", 3), ("-1", 1), ("x", 1), ("٣", 1), ("9" * 40, 1)):
        with subtests.test(asked):
            assert f"Page {shown} of 3" in transcript(page=asked)


def test_run_links_its_turn_in_the_transcript(
    admin_client: Client, administrator: User, conversation: Conversation, bob: User
) -> None:
    parent = None
    for number in range(TURNS_PER_PAGE):
        parent = ask(conversation, bob, f"Turn {number}", parent=parent)
    assert parent is not None
    run = answer(parent, "On the second page.")
    give_reason(administrator, conversation)

    page = text_of(admin_client, row_url(run))

    assert f"?page=2#turn-{TURNS_PER_PAGE + 1}" in page
    assert "On the second page." in page


def test_transcript_costs_the_same_queries_for_one_turn_and_twenty(
    transcript: Transcript, conversation: Conversation, bob: User, upstream: Upstream
) -> None:
    run = answer(ask(conversation, bob, "One."), "Answer.", upstream=upstream)
    transcript()
    with CaptureQueriesContext(connection) as few:
        transcript()
    for _ in range(9):
        question = ask(conversation, bob, "More.", parent=run.message)
        run = answer(question, "Answer.", upstream=upstream)
        Attempt.objects.create(run=run, number=1, outcome="eof")

    with CaptureQueriesContext(connection) as many:
        transcript()

    assert len(many) == len(few)
