"""Questions of an answer on its page: shown, claimed, answered, and continued by a run."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

import pytest
from django.db import transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from lxml import html

from chat import events
from chat.models import (
    Membership,
    Question,
    QuestionStatus,
    Run,
    RunStatus,
    TeamRole,
    User,
)
from chat.questions import actions as actions
from chat.runs.outcomes import write_ending
from tests.support.rooms import HTMX, Headers, Patches, Room, end_run, queries_of, text_of, url_of

TOOL = events.ToolCallItem(
    tool="river_level",
    arguments={"city": "Basel <3"},
    call_id="c1",
    status="pending",
    provider_info=events.ProviderInfo(type="function"),
)
ASK = {"ask_id": "a1", "question": "Which <river>?", "options": ["Rhine", "Elbe"]}
FORM = {
    "ask_id": "a1",
    "question": "Tell me more.",
    "options": [{"value": "r", "label": "Rhine", "description": "long"}, "Elbe"],
    "multi_select": True,
    "allow_free_text": True,
    "fields": [
        {"name": "depth", "label": "Depth", "type": "number", "required": True},
        {"name": "is_wet", "label": "Wet", "type": "boolean"},
    ],
}
APPROVAL = {
    "ask_id": "m1",
    "question": "May river run gauge?",
    "style": "approval",
    "options": ["allow", "decline"],
}
Asks = tuple[dict[str, object], ...]
# Asks these questions with a new answer.
QuestionCard = Callable[..., list[Question]]


def end_waiting(run: Run, *calls: events.ToolCallItem, asks: Asks = ()) -> list[Question]:
    """Ends the run as one that waits for results of these calls and for these questions."""
    ext = events.Extension(
        status="waiting", stop=events.Stop(reason="tool_use" if calls else "ask"), asks=list(asks)
    )
    result = events.Result(model_instance_id="m", output=list(calls), stats=events.Stats(), ext=ext)
    log: list[events.Event] = [
        events.ChatStart(model_instance_id="m"),
        *(
            events.ToolCallArguments(item=i, tool=call.tool, arguments=call.arguments)
            for i, call in enumerate(calls)
        ),
        events.ChatEnd(result=result),
    ]
    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(status=RunStatus.WAITING)
        write_ending(run, log, after=0)
    run.refresh_from_db()
    return list(run.questions.select_related("conversation", "run__upstream"))


@pytest.fixture
def asked(room: Room) -> QuestionCard:
    def ask(*calls: events.ToolCallItem, asks: Asks = ()) -> list[Question]:
        return end_waiting(room.ask("How high is it?"), *calls, asks=asks)

    return ask


def card_of(question: Question, page: html.HtmlElement) -> html.HtmlElement:
    return page.get_element_by_id(f"ask-{question.public_id.hex}")


def post(
    client: Client,
    route: str,
    thing: Question | Run,
    headers: Headers | None = None,
    **data: object,
) -> HttpResponse:
    return client.post(url_of(route, thing), data, headers=headers or {})


def position_at(room: Room, question: Question, **more: object) -> Headers:
    """The headers of a page that shows the question and its turn."""
    questions = question.run.questions.all()
    shown = {
        "runs": {question.run.public_id.hex: len(questions)},
        "asks": {one.public_id.hex: "open" for one in questions},
        "open": [question.run.message.public_id.hex],
        **more,
    }
    return room.position(question.run.message, **shown)


def follow_ups(question: Question) -> int:
    """The runs that continue the answer."""
    return Run.objects.filter(message=question.run.message).count() - 1


def continue_with_result(question: Question, bob: User) -> Run:
    run = actions.give_result(bob, question, "3 m")
    assert run is not None
    return run


# --- shown --------------------------------------------------------------------------------


def test_waiting_call_is_a_card_with_a_form(
    as_bob: Client, room: Room, asked: QuestionCard
) -> None:
    [question] = asked(TOOL)

    card = card_of(question, room.page(as_bob))

    assert "Result of river_level" in text_of(card)
    assert '"city": "Basel <3"' in text_of(card)
    assert card.xpath(".//textarea[@name='output']")
    assert card.xpath(".//input[@name='is_error']")
    assert card.xpath(".//textarea[@name='reason']")


def test_options_are_buttons_or_a_form(as_bob: Client, room: Room, asked: QuestionCard) -> None:
    asked(asks=(ASK, {**FORM, "ask_id": "a2"}))

    page = room.page(as_bob)

    buttons = page.xpath("//button[@name='selected']")
    assert [text_of(button) for button in buttons] == ["Rhine", "Elbe"]
    assert len(page.xpath("//input[@type='checkbox' and @name='selected']")) == 2
    assert page.xpath("//input[@name='field-0' and @inputmode='decimal']")
    assert page.xpath("//select[@name='field-1']")
    labels = [text_of(label) for label in page.xpath("//form[contains(@class, 'ask-form')]//label")]
    assert {"Depth", "Wet (optional)"} <= set(labels)
    assert page.xpath("//form[contains(@class, 'ask-form')]//textarea[@name='text']")
    assert "Which <river>?" in text_of(page)


def test_approval_offers_to_allow_and_to_decline(
    as_bob: Client, room: Room, asked: QuestionCard
) -> None:
    [question] = asked(asks=(APPROVAL,))

    card = card_of(question, room.page(as_bob))

    words = {text_of(button) for button in card.xpath(".//button")}
    assert {"Approve", "Decline"} <= words
    assert not card.xpath(".//*[@name='selected']")


@pytest.mark.parametrize(
    ("members", "cells"),
    [
        (
            {"arguments": {"depth <b>": 2, "note": "a\nb", "deep": {"x": [1]}, "none": ""}},
            [("depth <b>", "2"), ("note", "a b"), ("deep", '{ "x": [ 1 ] }'), ("none", "Empty")],
        ),
        ({"arguments": {}}, []),
        ({"arguments": None, "arguments_raw": "<script>no JSON"}, []),
    ],
    ids=["table", "none", "text"],
)
def test_approval_shows_the_arguments_of_its_call(
    as_bob: Client,
    room: Room,
    asked: QuestionCard,
    *,
    members: dict[str, object],
    cells: list[tuple[str, str]],
) -> None:
    call = {"tool": "gauge<i>", "provider_info": {"type": "mcp", "server_label": "river"}}
    [question] = asked(asks=({**APPROVAL, **call, **members},))

    card = card_of(question, room.page(as_bob))

    assert "Allow river to run gauge<i>?" in text_of(card)
    rows = card.xpath(".//table[@aria-label='Arguments']//tr")
    assert [(text_of(row[0]), re.sub("^(json)?Copy", "", text_of(row[1]))) for row in rows] == cells
    if not cells:
        words = members.get("arguments_raw", "No arguments")
        assert str(words) in text_of(card)
    assert not card.xpath(".//script | .//i | .//th/b")

    question.status = QuestionStatus.ANSWERED
    question.save()

    settled = card_of(question, room.page(as_bob))
    assert len(settled.xpath(".//details//table[@aria-label='Arguments']//tr")) == len(cells)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"provider_info": []}, "Allow the server to run gauge?"),
        # Imported questions can have members of any type.
        ({"tool": None}, "May river run gauge?"),
        ({"tool": 3}, "May river run gauge?"),
        ({"arguments": [1]}, "May river run gauge?"),
    ],
    ids=["no-server", "no-tool", "tool-is-a-number", "arguments-are-a-list"],
)
def test_approval_of_a_call_that_is_not_told_whole_has_its_text(
    as_bob: Client,
    room: Room,
    asked: QuestionCard,
    *,
    members: dict[str, object],
    words: str,
) -> None:
    call = {"tool": "gauge", "arguments": {"depth": 2}}
    [question] = asked(asks=({**APPROVAL, **call, **members},))

    assert words in text_of(card_of(question, room.page(as_bob)))


def test_long_argument_is_folded(as_bob: Client, room: Room, asked: QuestionCard) -> None:
    [question] = asked(asks=({**APPROVAL, "tool": "run", "arguments": {"code": "open\n" * 9}},))

    card = card_of(question, room.page(as_bob))

    assert card.xpath(".//td/details[not(@open)]//pre")


def test_viewer_sees_cards_without_controls(
    as_viewer: Client, room: Room, asked: QuestionCard
) -> None:
    [call] = asked(TOOL)
    run = room.ask("And?", call.run.message)
    [question] = end_waiting(run, asks=(ASK,))

    page = room.page(as_viewer)

    for one in (call, question):
        card = card_of(one, page)
        assert "Waiting for someone with write access" in text_of(card)
        assert not card.xpath(".//form | .//textarea")
        # The buttons on a block of code change nothing.
        assert not card.xpath(".//button[not(ancestor::*[@class='code-tools'])]")
    assert "Rhine" in text_of(card_of(question, page))


def test_strip_says_that_a_person_is_needed(
    as_bob: Client, room: Room, asked: QuestionCard
) -> None:
    [question] = asked(TOOL)

    strip = room.page(as_bob).get_element_by_id("strip")

    assert "Waiting for your answer" in text_of(strip)
    assert strip.xpath(f".//a[@href='#asks-{question.run.public_id.hex}']")


def test_list_says_that_a_person_is_needed(as_bob: Client, room: Room, asked: QuestionCard) -> None:
    [question] = asked(TOOL)
    url = reverse("conversation_list")
    assert "Needs input" in as_bob.get(url).content.decode()

    end_run(room.ask("Never mind", question.run.message))

    assert "Needs input" not in as_bob.get(url).content.decode()


def test_number_of_queries_is_constant(as_alice: Client, room: Room, asked: QuestionCard) -> None:
    [first] = asked(TOOL)
    for_one = queries_of(as_alice, room.url)
    calls = [
        events.ToolCallItem(tool=f"t{i}", arguments={}, call_id=f"c{i}", status="pending")
        for i in range(9)
    ]
    end_waiting(room.ask("More", first.run.message), *calls)

    assert queries_of(as_alice, room.url) == for_one


# --- answered -------------------------------------------------------------------------------


def test_result_of_a_call_continues_the_answer(
    as_bob: Client, room: Room, asked: QuestionCard
) -> None:
    [question] = asked(TOOL)

    headers = position_at(room, question)
    patches = Patches(post(as_bob, "question_answer", question, headers, output="3 m\r\nhigh"))

    question.refresh_from_db()
    assert (question.status, question.answer["output"]) == ("answered", "3 m\nhigh")
    follow_up = Run.objects.get(message=question.run.message, position=1)
    [(_, words)] = patches.to(f"#ask-card-{question.public_id.hex}")
    assert "Result submitted by Bob" in words
    assert patches.swaps(f"#runs-{question.run.message.public_id.hex}") == ["beforeend"]
    assert patches.tree.xpath(f"//*[@id='r{follow_up.public_id.hex}' and @data-live]")
    assert patches.tree.xpath(f"//*[@id='p{follow_up.public_id.hex}']")
    assert patches.tree.xpath("//footer[@data-open]")


def test_failed_call_is_shown_as_failed(as_bob: Client, room: Room, asked: QuestionCard) -> None:
    [question] = asked(TOOL)

    post(as_bob, "question_answer", question, output="disk on fire", is_error="true")

    card = card_of(question, room.page(as_bob))
    assert "Error reported by Bob" in text_of(card)
    assert "disk on fire" in text_of(card)


@pytest.mark.parametrize("ask", [ASK, APPROVAL], ids=["question", "approval"])
def test_declining_is_an_answer(
    as_bob: Client, room: Room, asked: QuestionCard, ask: dict[str, object]
) -> None:
    [question] = asked(asks=(ask,))

    post(as_bob, "question_refuse", question, reason="Not today <b>")

    card = card_of(question, room.page(as_bob))
    assert "Declined by Bob" in text_of(card)
    assert "Not today <b>" in text_of(card)
    assert not card.xpath(".//form")
    assert follow_ups(question) == 1


def test_option_is_chosen_by_its_number(as_bob: Client, room: Room, asked: QuestionCard) -> None:
    [question] = asked(asks=(ASK,))

    post(as_bob, "question_answer", question, selected="1")

    question.refresh_from_db()
    assert question.answer["selected"] == ["Elbe"]
    assert "Answered by Bob" in text_of(room.page(as_bob).get_element_by_id("turns"))


def test_form_is_answered_with_all_its_fields(
    as_bob: Client, room: Room, asked: QuestionCard
) -> None:
    [question] = asked(asks=(FORM,))

    post(
        as_bob,
        "question_answer",
        question,
        **{"selected": ["0", "1"], "field-0": "3", "field-1": "true", "text": "and cold"},
    )

    question.refresh_from_db()
    assert question.answer == {
        "text": "and cold",
        "selected": ["r", "Elbe"],
        "fields": {"depth": "3", "is_wet": "true"},
    }
    card = card_of(question, room.page(as_bob))
    shown = card.xpath(".//div[@class='ask-said']//text()[normalize-space()]")
    assert shown == ["Rhine", "Elbe", "and cold", "Depth", "3", "Wet", "Yes"]


def test_approval_is_given(as_bob: Client, asked: QuestionCard) -> None:
    [question] = asked(asks=(APPROVAL,))

    post(as_bob, "question_answer", question)

    question.refresh_from_db()
    assert (question.status, question.answer["is_approved"]) == ("answered", True)


def test_double_click_answers_once(as_bob: Client, asked: QuestionCard) -> None:
    [question] = asked(TOOL)

    statuses = [
        post(as_bob, "question_answer", question, HTMX, output="3 m").status_code for _ in range(2)
    ]

    assert statuses == [200, 200]
    assert follow_ups(question) == 1


def test_late_answer_names_the_first(as_alice: Client, as_bob: Client, asked: QuestionCard) -> None:
    [question] = asked(TOOL)
    post(as_alice, "question_answer", question, output="3 m")

    response = post(as_bob, "question_answer", question, HTMX, output="4 m")

    assert response.status_code == 409
    assert "Alice has already responded" in Patches(response).text(
        f"#ask-note-{question.public_id.hex}"
    )


@pytest.mark.parametrize(
    ("ask", "data", "status", "words"),
    [
        (ASK, {}, 409, "Enter an answer"),
        (ASK, {"selected": "7"}, 422, "option is no longer available"),
        (ASK, {"selected": "x"}, 422, "option is no longer available"),
        (FORM, {"selected": "0"}, 409, "Fill in: Depth"),
        (FORM, {"field-0": "3", "field-1": "perhaps"}, 422, "Wet"),
    ],
    ids=["nothing", "beyond", "nonsense", "incomplete", "no choice"],
)
def test_invalid_answer_is_refused(
    as_bob: Client,
    asked: QuestionCard,
    ask: dict[str, object],
    data: dict[str, str],
    status: int,
    words: str,
) -> None:
    [question] = asked(asks=(ask,))

    response = post(as_bob, "question_answer", question, HTMX, **data)

    assert response.status_code == status
    [(_, note)] = Patches(response).to(f"#ask-note-{question.public_id.hex}")
    assert words in note
    assert follow_ups(question) == 0


def test_refused_form_without_scripts_keeps_its_values(as_bob: Client, asked: QuestionCard) -> None:
    [question] = asked(asks=(FORM,))

    response = post(as_bob, "question_answer", question, text="Keep <this>", selected="1")

    page = html.fromstring(response.content.decode())
    card = card_of(question, page)
    assert response.status_code == 409
    assert "Fill in: Depth" in text_of(card)
    assert card.xpath(".//textarea[@name='text']/text()") == ["Keep <this>"]
    assert [box.get("value") for box in card.xpath(".//input[@checked]")] == ["1"]
    assert page.get_element_by_id("text").text_content() == ""


def test_answer_to_an_unknown_question_is_not_found(as_bob: Client, asked: QuestionCard) -> None:
    asked(TOOL)

    url = reverse("question_answer", args=[uuid.uuid4()])

    assert as_bob.post(url, {"output": "3 m"}).status_code == 404


# --- continued --------------------------------------------------------------------------------


def test_run_continues_when_all_questions_are_answered(
    as_bob: Client, room: Room, asked: QuestionCard
) -> None:
    first, second = asked(TOOL, asks=(ASK,))

    headers = position_at(room, first)
    patches = Patches(post(as_bob, "question_answer", first, headers, output="3 m"))

    assert follow_ups(first) == 0
    assert "1 of 2 done" in patches.text(f"#rest-{first.run.public_id.hex}")
    assert patches.to(f"#ask-card-{second.public_id.hex}") == []
    post(as_bob, "question_answer", second, selected="0")
    assert follow_ups(first) == 1


def test_open_questions_can_be_skipped(as_bob: Client, room: Room, asked: QuestionCard) -> None:
    first, second = asked(TOOL, asks=(ASK,))

    post(as_bob, "run_go_on", first.run)

    assert follow_ups(first) == 1
    for question in (first, second):
        question.refresh_from_db()
        assert question.status == QuestionStatus.EXPIRED
    assert "Skipped by Bob" in text_of(room.page(as_bob).get_element_by_id("turns"))


def test_skipping_twice_is_refused(as_alice: Client, as_bob: Client, asked: QuestionCard) -> None:
    [question] = asked(TOOL)
    post(as_alice, "run_go_on", question.run)

    response = post(as_bob, "run_go_on", question.run, HTMX)

    assert response.status_code == 409
    assert Patches(response).to(f"#rest-note-{question.run.public_id.hex}")


def test_answer_of_two_runs_is_one_turn(
    as_bob: Client, room: Room, asked: QuestionCard, bob: User
) -> None:
    [question] = asked(TOOL)
    follow_up = continue_with_result(question, bob)
    end_run(follow_up, "It is high.")

    page = room.page(as_bob)

    turn = page.get_element_by_id(f"runs-{question.run.message.public_id.hex}")
    assert [each.get("id") for each in turn] == [
        f"r{question.run.public_id.hex}",
        f"asks-{question.run.public_id.hex}",
        f"r{follow_up.public_id.hex}",
        f"asks-{follow_up.public_id.hex}",
    ]
    assert len(page.xpath("//article")) == 2


def test_run_details_link_to_the_other_runs_of_the_answer(
    as_bob: Client, asked: QuestionCard, bob: User
) -> None:
    [question] = asked(TOOL)
    follow_up = continue_with_result(question, bob)

    page = as_bob.get(url_of("run_details", follow_up)).content.decode()

    assert url_of("run_details", question.run) in page
    assert "This answer has 2 runs" in page


# --- pages of others --------------------------------------------------------------------------


def test_claim_changes_only_the_line_above_the_form(
    as_alice: Client, as_bob: Client, room: Room, asked: QuestionCard
) -> None:
    [question] = asked(TOOL)
    headers = position_at(room, question)
    post(as_alice, "question_claim", question)

    patches = room.changes(as_bob, headers)

    [(swap, words)] = patches.to(f"#ask-line-{question.public_id.hex}")
    assert swap == "outerHTML"
    assert "Alice is answering" in words
    assert "Take over" in words
    assert patches.to(f"#ask-card-{question.public_id.hex}") == []
    assert not patches.tree.xpath("//textarea")


def test_claimed_question_is_free_after_its_release(
    as_alice: Client, as_bob: Client, asked: QuestionCard
) -> None:
    [question] = asked(TOOL)
    post(as_alice, "question_claim", question)

    assert post(as_bob, "question_claim", question, HTMX).status_code == 409
    post(as_alice, "question_release", question)
    assert post(as_bob, "question_claim", question, HTMX).status_code == 200


def test_current_page_gets_no_card(as_bob: Client, room: Room, asked: QuestionCard) -> None:
    [question] = asked(TOOL)

    targets = room.changes(as_bob, position_at(room, question)).targets

    assert not {target for target in targets if target.startswith(("#ask-", "#runs-", "#asks-"))}


def test_questions_are_sent_when_the_run_ends(as_bob: Client, room: Room) -> None:
    run = room.ask("How high?")
    headers = room.position(
        run.message, open=[run.message.public_id.hex], runs={run.public_id.hex: 0}
    )
    [question] = end_waiting(run, TOOL)

    patches = room.changes(as_bob, headers)

    [(swap, words)] = patches.to(f"#asks-{run.public_id.hex}")
    assert swap == "innerHTML"
    assert "river_level" in words
    assert patches.tree.xpath(f"//*[@id='ask-{question.public_id.hex}']")
    assert patches.to(f"#runs-{run.message.public_id.hex}") == []


def test_shown_run_is_not_sent_again(
    as_bob: Client, room: Room, asked: QuestionCard, bob: User
) -> None:
    [question] = asked(TOOL)
    follow_up = continue_with_result(question, bob)
    runs = {question.run.public_id.hex: 1, follow_up.public_id.hex: 0}
    headers = position_at(room, question, asks={}, runs=runs)
    end_run(follow_up, "It is high.")

    patches = room.changes(as_bob, headers)

    assert patches.to(f"#runs-{question.run.message.public_id.hex}") == []
    assert patches.turns == []


def test_member_who_becomes_a_viewer_loses_the_controls(
    as_bob: Client, room: Room, asked: QuestionCard, bob: User
) -> None:
    [question] = asked(TOOL)
    headers = position_at(room, question)
    Membership.objects.filter(user=bob).update(role=TeamRole.VIEWER)

    patches = room.changes(as_bob, headers)

    [(_, words)] = patches.to(f"#ask-card-{question.public_id.hex}")
    assert "Waiting for someone with write access" in words
