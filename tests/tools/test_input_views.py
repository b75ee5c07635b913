"""Answers to what tools ask, over the form of the card: what each does, what is shown, and what is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from lxml import html

from chat.models import (
    AuditEvent,
    CallStatus,
    InputSource,
    InputStatus,
    Question,
    QuestionStatus,
    Runner,
    Team,
    Tool,
    ToolCall,
    ToolInput,
    ToolRule,
    User,
)
from tests.support.rooms import HTMX, Room, get_page, queries_of, text_of, url_of
from tests.support.tool_calls import end_waiting, http_tool, item

BERTH = {
    "type": "object",
    "properties": {
        "pier": {"type": "string", "enum": ["n", "s"], "enumNames": ["North", "South"]},
        "nights": {"type": "integer", "minimum": 1, "title": "Nights"},
    },
    "required": ["pier", "nights"],
}
HIDDEN = "https://pay.example/x\u202e\u200b?next=1"


@pytest.fixture
def question(room: Room, team: Team) -> Question:
    """A question whose call asks for nothing yet."""
    tool = http_tool(team, schema={"type": "object", "properties": {"room": {"type": "string"}}})
    room.conversation.tools.add(tool)
    (question,) = end_waiting(room.ask("Book a room"), item(room="Elbe"))
    return question


def ask(
    question: Question,
    message: str = "Which berth?",
    *,
    position: int = 0,
    url: str = "",
    source: InputSource = InputSource.RESULT,
    **fields: object,
) -> ToolInput:
    call = ToolCall.objects.get(question=question)
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.INPUT, rounds=1)
    return ToolInput.objects.create(
        call=call,
        round=1,
        position=position,
        key=f"k{position}",
        source=source,
        message=message,
        schema={} if url else BERTH,
        url=url,
        **fields,
    )


def post(client: Client, question: Question, asked: ToolInput, **data: object) -> HttpResponse:
    data = {"input": asked.public_id, "action": "accept", **data}
    return client.post(url_of("call_input", question), data, headers=HTMX)


def statuses(question: Question) -> tuple[str, str]:
    question.refresh_from_db()
    return question.status, ToolCall.objects.get(question=question).status


def parts(element: html.HtmlElement, name: str) -> list[html.HtmlElement]:
    """The elements of a class."""
    return list(element.xpath(f".//*[contains(concat(' ', @class, ' '), ' {name} ')]"))


def links_in(card: html.HtmlElement) -> list[html.HtmlElement]:
    return list(card.xpath(".//form//a"))


def card_of(client: Client, room: Room) -> html.HtmlElement:
    return parts(get_page(client, room.url), "ask")[0]


def test_card_asks_with_a_form_and_readers_see_no_form(
    as_bob: Client, as_viewer: Client, room: Room, question: Question
) -> None:
    asked = ask(question, "Which <b>berth</b>?")

    card = card_of(as_bob, room)
    read = card_of(as_viewer, room)

    assert "asks for input" in text_of(card)
    assert "Which <b>berth</b>?" in text_of(card)
    options = card.xpath(".//select/option")
    assert [text_of(each) for each in options] == ["Choose…", "North", "South"]
    assert card.xpath(".//*[@name='input']/@value")[0] == str(asked.public_id)
    assert "Which <b>berth</b>?" in text_of(read)
    assert not read.xpath(".//form | .//select")
    assert "Anyone who can write" in text_of(read)


@pytest.mark.parametrize("source", [InputSource.RESULT, InputSource.TASK, InputSource.OPEN_CALL])
def test_form_says_at_once_that_the_tool_was_turned_off(
    as_bob: Client, question: Question, source: InputSource
) -> None:
    asked = ask(question, source=source)
    Tool.objects.update(rule=ToolRule.OFF)

    refused = post(as_bob, question, asked, **{"field-0": "1", "field-1": "2"})

    assert refused.status_code == 409
    assert "This tool is turned off." in refused.content.decode()
    asked.refresh_from_db()
    assert (asked.status, asked.content, asked.answered_by) == ("open", {}, None)
    assert statuses(question) == (QuestionStatus.OPEN, CallStatus.INPUT)
    assert not AuditEvent.objects.filter(verb="tool_call.answered").exists()
    assert post(as_bob, question, asked, action="cancel").status_code == 200
    assert statuses(question) == (QuestionStatus.RUNNING, CallStatus.QUEUED)


def test_answer_is_stored_and_a_runner_goes_on(
    as_bob: Client, bob: User, question: Question
) -> None:
    asked = ask(question)
    ToolCall.objects.update(sent_at=timezone.now(), attempt=3)

    response = post(as_bob, question, asked, **{"field-0": "1", "field-1": "2"})

    assert response.status_code == 200
    asked.refresh_from_db()
    assert (asked.status, asked.content) == ("accepted", {"pier": "s", "nights": 2})
    assert asked.answered_by == bob
    call = ToolCall.objects.get()
    assert statuses(question) == (QuestionStatus.RUNNING, CallStatus.QUEUED)
    assert (call.answered_round, call.sent_at, call.attempt) == (1, None, 0)
    event = AuditEvent.objects.get(verb="tool_call.answered")
    assert (event.actor, event.detail["decision"]) == (bob, "accepted")
    assert "nights" not in str(event.detail)


@pytest.mark.parametrize(
    ("action", "status"), [("decline", InputStatus.DECLINED), ("cancel", InputStatus.CANCELED)]
)
def test_no_is_an_answer_without_values(
    as_bob: Client, question: Question, action: str, status: InputStatus
) -> None:
    asked = ask(question)

    post(as_bob, question, asked, action=action, **{"field-1": "not a number"})

    asked.refresh_from_db()
    assert (asked.status, asked.content) == (status, {})
    assert statuses(question) == (QuestionStatus.RUNNING, CallStatus.QUEUED)


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_call_that_was_refused_until_an_address_is_opened_ends_with_a_no(
    as_bob: Client, bob: User, question: Question, action: str
) -> None:
    asked = ask(question, url="https://pay.example/", source=InputSource.REFUSAL)
    other = ask(question, position=1, url="https://a.example/", source=InputSource.REFUSAL)

    post(as_bob, question, asked, action=action)

    assert statuses(question) == (QuestionStatus.DECLINED, CallStatus.REFUSED)
    assert question.answered_by == bob
    other.refresh_from_db()
    assert other.status == InputStatus.EXPIRED
    assert question.run.message.runs.filter(position=question.run.position + 1).exists()


def test_requests_of_a_round_are_answered_one_after_the_other(
    as_bob: Client, room: Room, question: Question
) -> None:
    first = ask(question)
    second = ask(question, "Pay here", position=1, url="https://pay.example/")

    before = text_of(card_of(as_bob, room))
    post(as_bob, question, first, **{"field-0": "0", "field-1": "1"})
    between = text_of(card_of(as_bob, room))
    assert statuses(question) == (QuestionStatus.OPEN, CallStatus.INPUT)
    post(as_bob, question, second)

    assert "1 of 2" in before
    assert "Pay here" not in before
    assert "Pay here" in between
    assert "Answered by Bob" in between
    assert statuses(question) == (QuestionStatus.RUNNING, CallStatus.QUEUED)


def test_answer_to_an_open_call_leaves_it_to_its_runner(
    as_bob: Client, room: Room, question: Question
) -> None:
    runner = Runner.objects.create(host="here", pid=1)
    until = timezone.now() + timedelta(minutes=5)
    asked = ask(question, source=InputSource.OPEN_CALL, expires_at=until)
    claim = asked.public_id
    ToolCall.objects.update(claim=claim, runner=runner, sent_at=timezone.now())

    card = card_of(as_bob, room)
    post(as_bob, question, asked, action="decline")

    assert "The server waits for the answer until" in text_of(card)
    call = ToolCall.objects.get()
    assert statuses(question) == (QuestionStatus.RUNNING, CallStatus.RUNNING)
    assert (call.claim, call.runner) == (claim, runner)
    assert call.sent_at is not None


def test_address_is_shown_whole_and_opened_by_nobody_else(
    as_bob: Client, room: Room, question: Question
) -> None:
    ask(question, "Sign in", url=HIDDEN)
    plain = ask(question, "Pay", position=1, url="https://pay.example/x?next=1")
    card = card_of(as_bob, room)
    hidden = [text_of(each) for each in parts(card, "hidden-letters")]

    assert hidden == ["U+202E U+200B"]
    assert "pay.example/x" in text_of(parts(card, "call-address")[0])
    # An address with characters that nobody sees is no link.
    assert not links_in(card)
    ToolInput.objects.exclude(pk=plain.pk).update(status=InputStatus.DECLINED)
    card = card_of(as_bob, room)
    (link,) = links_in(card)
    assert (link.get("href"), link.get("rel")) == (plain.url, "noopener noreferrer")
    assert (link.get("target"), text_of(link)) == ("_blank", "Open pay.example")


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "//a.test", "mailto:a@b"]
)
def test_other_addresses_are_text(as_bob: Client, room: Room, question: Question, url: str) -> None:
    ask(question, url=url)

    card = card_of(as_bob, room)

    assert url in text_of(card)
    assert not links_in(card)


def test_wrong_values_are_refused_and_stay_typed_without_scripts(
    as_bob: Client, question: Question
) -> None:
    asked = ask(question)
    data = {"input": asked.public_id, "action": "accept", "field-0": "0", "field-1": "0"}

    response = as_bob.post(url_of("call_input", question), data)

    page = html.fromstring(response.content)
    assert response.status_code == 422
    assert "Nights: Ensure this value is greater than or equal to 1." in text_of(page)
    assert page.xpath("//*[@name='field-1']/@value") == ["0"]
    assert statuses(question) == (QuestionStatus.OPEN, CallStatus.INPUT)


def test_second_answer_comes_too_late(as_bob: Client, as_alice: Client, question: Question) -> None:
    asked = ask(question)
    values = {"field-0": "0", "field-1": "1"}
    post(as_bob, question, asked, **values)

    again = post(as_bob, question, asked, **values)
    other = post(as_alice, question, asked, action="decline")

    assert again.status_code == 200
    assert other.status_code == 409
    assert "Bob has already answered this." in other.content.decode()


def test_answer_after_the_end_is_refused(as_bob: Client, question: Question) -> None:
    asked = ask(question)
    as_bob.post(reverse("run_go_on", args=[question.run.public_id]))

    late = post(as_bob, question, asked, action="decline")

    assert late.status_code == 409
    assert statuses(question) == (QuestionStatus.EXPIRED, CallStatus.FAILED)
    asked.refresh_from_db()
    assert asked.status == InputStatus.EXPIRED


def test_request_of_another_call_is_not_answered(
    as_bob: Client, room: Room, team: Team, question: Question
) -> None:
    asked = ask(question)
    (other,) = end_waiting(room.ask("Book another"), item(room="Ems"))

    response = post(as_bob, other, asked, action="decline")

    assert response.status_code == 409
    asked.refresh_from_db()
    assert asked.is_open


def test_inbox_has_it_as_a_question(as_alice: Client, question: Question) -> None:
    ask(question)

    page = get_page(as_alice, reverse("inbox"))

    assert text_of(parts(page, "inbox-question")[0]) == "book_room asks for input"
    assert parts(page, "call-input")


def test_inbox_reads_what_all_tools_ask_with_one_query(
    as_alice: Client, room: Room, team: Team, question: Question
) -> None:
    ask(question)
    queries_of(as_alice, reverse("inbox"))
    one = queries_of(as_alice, reverse("inbox"))
    for number in range(4):
        (another,) = end_waiting(room.ask(f"Book {number}"), item(room="Elbe"))
        ask(another)

    assert queries_of(as_alice, reverse("inbox")) == one


def test_receipt_has_the_fields_and_who_answered(as_bob: Client, question: Question) -> None:
    asked = ask(question)
    post(as_bob, question, asked, **{"field-0": "1", "field-1": "2"})

    page = get_page(as_bob, reverse("run_details", args=[question.run.public_id]))

    receipt = text_of(parts(page, "tool-receipt")[0])
    for words in ("Which berth?", "enumNames", "Answered byBob", '"nights"'):
        assert words in receipt
