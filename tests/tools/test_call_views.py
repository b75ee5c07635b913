"""Decisions about calls, over the pages' forms: what each does, and what is shown when it is refused."""

from __future__ import annotations

import json

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.models import CallStatus, Question, Run, Team, Tool, ToolCall, ToolChoice, User
from tests.support.rooms import HTMX, Patches, Room, get_page, text_of, url_of
from tests.support.tool_calls import end_waiting, http_tool, item

ASKED = {"room": "Elbe", "hours": 2}
SCHEMA = {
    "type": "object",
    "properties": {"room": {"type": "string"}, "hours": {"type": "integer"}},
    "required": ["room"],
}


@pytest.fixture
def tool(team: Team, room: Room) -> Tool:
    tool = http_tool(team, schema=SCHEMA)
    room.conversation.tools.add(tool)
    return tool


@pytest.fixture
def question(room: Room, tool: Tool) -> Question:
    """A question whose call waits for an approval."""
    (question,) = end_waiting(room.ask("Book a room"), item(**ASKED))
    return question


def post(client: Client, route: str, question: Question, **data: object) -> HttpResponse:
    return client.post(url_of(route, question), data, headers=HTMX)


def call_of(question: Question) -> ToolCall:
    return ToolCall.objects.select_related("approved_by").get(question=question)


def follow_ups(question: Question) -> int:
    return Run.objects.filter(message=question.run.message).count() - 1


def may_have_run(question: Question) -> None:
    ToolCall.objects.filter(question=question).update(status=CallStatus.UNKNOWN)


def test_approval_runs_the_call_as_it_was_asked(
    as_bob: Client, bob: User, question: Question
) -> None:
    response = post(as_bob, "call_approve", question, arguments=json.dumps(ASKED))

    call = call_of(question)
    question.refresh_from_db()
    assert response.status_code == 200
    assert (call.status, question.status) == ("queued", "running")
    assert (call.approved_by, call.arguments) == (bob, ASKED)
    assert not ToolChoice.objects.exists()


def test_approver_edits_the_arguments(as_bob: Client, room: Room, question: Question) -> None:
    post(as_bob, "call_approve", question, arguments='{"room": "Oder"}')

    question.refresh_from_db()
    assert call_of(question).arguments == {"room": "Oder"}
    assert question.body["arguments"] == ASKED


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("{", "Invalid JSON on line 1"),
        ("[]", "as a JSON object"),
        ('{"hours": 1}', "Fill in: room"),
        ('{"room": 5}', "The argument room"),
    ],
    ids=["no json", "a list", "without a required one", "another type"],
)
def test_arguments_that_do_not_fit_are_refused_and_stay(
    as_bob: Client, question: Question, arguments: str, words: str
) -> None:
    beside = post(as_bob, "call_approve", question, arguments=arguments)
    whole = as_bob.post(url_of("call_approve", question), {"arguments": arguments})

    page = html.fromstring(whole.content.decode())
    assert words in Patches(beside).text(f"#ask-note-{question.public_id.hex}")
    assert words in text_of(page)
    assert page.xpath("//textarea[@name='arguments']")[0].text == arguments
    assert call_of(question).status == CallStatus.APPROVAL


def test_always_and_never_hold_for_further_calls(
    as_bob: Client, room: Room, question: Question
) -> None:
    for route, data, is_allowed, status in [
        ("call_approve", {"arguments": '{"room": "Oder"}', "always": "1"}, True, "queued"),
        ("call_refuse", {"reason": "Too late", "never": "1"}, False, "refused"),
    ]:
        ToolCall.objects.update(status=CallStatus.APPROVAL)
        Question.objects.update(status="open")

        post(as_bob, route, question, **data)

        assert ToolChoice.objects.get().is_allowed == is_allowed
        assert call_of(question).status == status
    question.refresh_from_db()
    assert question.answer == {"reason": "Too late"}


def test_refusal_tells_the_model_the_reason(as_bob: Client, bob: User, question: Question) -> None:
    post(as_bob, "call_refuse", question, reason="Not today")

    question.refresh_from_db()
    assert (question.status, question.answered_by) == ("declined", bob)
    assert call_of(question).status == CallStatus.REFUSED
    assert follow_ups(question) == 1


def test_people_decide_about_a_call_that_may_have_run(as_bob: Client, question: Question) -> None:
    for route, data, status, goes_on in [
        ("call_run_again", {}, "queued", 0),
        ("call_result", {"output": "Booked"}, "done", 1),
    ]:
        may_have_run(question)
        Question.objects.update(status="open")

        post(as_bob, route, question, **data)

        assert call_of(question).status == status
        assert follow_ups(question) == goes_on


def test_answer_goes_on_without_a_call_that_may_have_run(
    as_bob: Client, question: Question
) -> None:
    may_have_run(question)

    post(as_bob, "call_go_on", question)

    question.refresh_from_db()
    assert question.status == "expired"
    assert follow_ups(question) == 1


def test_second_decision_is_told_that_it_came_too_late(
    as_alice: Client, as_bob: Client, question: Question
) -> None:
    post(as_bob, "call_refuse", question)

    response = post(as_alice, "call_approve", question)

    assert response.status_code == 409
    assert "Bob" in Patches(response).text(f"#ask-note-{question.public_id.hex}")


def test_decision_in_the_inbox_changes_its_card(as_alice: Client, question: Question) -> None:
    inbox = reverse("inbox")
    page = as_alice.get(inbox).content.decode()
    headers = {**HTMX, "HX-Current-URL": f"http://testserver{inbox}"}

    response = as_alice.post(url_of("call_approve", question), headers=headers)

    patches = Patches(response)
    assert "Run <code>book_room</code>?" in page
    assert "Running" in patches.text(f"#inbox-state-{question.public_id.hex}")
    assert "Running…" in patches.text(f"#ask-card-{question.public_id.hex}")
    assert "book_room" not in as_alice.get(f"{inbox}?tab=you").content.decode()


def test_question_without_a_call_has_no_approval(
    as_bob: Client, room: Room, question: Question
) -> None:
    ToolCall.objects.all().delete()

    assert post(as_bob, "call_approve", question).status_code == 404


def test_choice_is_shown_beside_the_composer_and_withdrawn(
    as_bob: Client, room: Room, tool: Tool, question: Question
) -> None:
    post(as_bob, "call_approve", question, always="1")
    url = url_of("tool_choice_forget", room.conversation)

    before = text_of(room.page(as_bob).get_element_by_id("tools-list"))
    as_bob.post(url, {"tool": tool.public_id}, headers=HTMX)
    after = text_of(room.page(as_bob).get_element_by_id("tools-list"))

    assert "Always allowed here" in before
    assert "Asks first" in after
    assert not ToolChoice.objects.exists()


def test_tool_that_is_off_is_neither_enabled_nor_offered(
    as_bob: Client, room: Room, tool: Tool
) -> None:
    room.conversation.tools.add(tool)
    Tool.objects.update(rule="off")
    page = room.page(as_bob)
    new = get_page(as_bob, "/")

    as_bob.post(url_of("conversation_tools", room.conversation), {"tools": str(tool.public_id)})
    run = room.ask("Next")

    (box,) = page.xpath("//input[@name='tools']")
    assert box.get("disabled") is not None
    assert box.get("checked") is None
    assert not new.xpath("//input[@name='tools']")
    assert run.tools == []
    assert not room.conversation.tools.exists()
