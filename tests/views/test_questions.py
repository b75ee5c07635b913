"""What an answer waits for, on its page: shown, claimed, settled, and gone on with."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from django.db import transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from lxml import html

from chat import events
from chat.actions import questions as verbs
from chat.actions.endings import write_ending
from chat.models import (
    Membership,
    Question,
    QuestionStatus,
    Run,
    RunStatus,
    TeamRole,
    User,
)
from tests.views.conftest import HTMX, Patches, Room, address, end_run, position

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


def wait(
    run: Run, *calls: events.ToolCallItem, asks: tuple[dict[str, object], ...] = ()
) -> list[Question]:
    """Ends the run as one that waits for this."""
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
def asked(room: Room, alice: User) -> Callable[..., list[Question]]:
    """The questions of an answer that waits for them."""

    def ask(
        *calls: events.ToolCallItem, asks: tuple[dict[str, object], ...] = ()
    ) -> list[Question]:
        return wait(room.ask(alice, "How high is it?"), *calls, asks=asks)

    return ask


Asked = Callable[..., list[Question]]


def page(client: Client, room: Room) -> html.HtmlElement:
    return html.fromstring(client.get(address("conversation", room.conversation)).content.decode())


def text(element: html.HtmlElement) -> str:
    return " ".join(element.text_content().split())


def post(
    client: Client,
    route: str,
    thing: Question | Run,
    headers: dict[str, str] | None = None,
    **data: object,
) -> HttpResponse:
    url = reverse(route, args=[thing.public_id])
    return client.post(url, data, headers=headers or {})


def where(question: Question, **more: object) -> dict[str, str]:
    """The headers of a page that shows the question and the one turn it belongs to."""
    answer = question.run.message
    said = {
        "runs": {question.run.public_id.hex: question.run.questions.count()},
        "asks": {one.public_id.hex: "open" for one in question.run.questions.all()},
        "open": [answer.public_id.hex],
        **more,
    }
    return position(answer.parent, answer, question.conversation, **said)


def follow_ups(question: Question) -> int:
    return Run.objects.filter(message=question.run.message).count() - 1


# --- shown --------------------------------------------------------------------------------


def test_a_call_that_waits_is_a_card_with_a_form(as_bob: Client, room: Room, asked: Asked) -> None:
    [question] = asked(TOOL)

    card = page(as_bob, room).get_element_by_id(f"ask-{question.public_id.hex}")

    assert "Waiting for the result of river_level" in text(card)
    assert '"city": "Basel <3"' in text(card)
    assert card.xpath(".//textarea[@name='output']")
    assert card.xpath(".//input[@name='is_error']")
    assert card.xpath(".//textarea[@name='reason']")


def test_few_options_are_buttons_and_the_rest_is_a_form(
    as_bob: Client, room: Room, asked: Asked
) -> None:
    asked(asks=(ASK, {**FORM, "ask_id": "a2"}))

    shown = page(as_bob, room)

    assert [text(button) for button in shown.xpath("//button[@name='selected']")] == [
        "Rhine",
        "Elbe",
    ]
    assert len(shown.xpath("//input[@type='checkbox' and @name='selected']")) == 2
    assert shown.xpath("//input[@name='field-0' and @inputmode='decimal']")
    assert shown.xpath("//select[@name='field-1']")
    labels = [text(label) for label in shown.xpath("//form[contains(@class, 'ask-form')]//label")]
    assert {"Depth", "Wet (optional)"} <= set(labels)
    assert shown.xpath("//form[contains(@class, 'ask-form')]//textarea[@name='text']")
    assert "Which <river>?" in text(shown)


def test_an_approval_offers_to_allow_and_to_decline(
    as_bob: Client, room: Room, asked: Asked
) -> None:
    [question] = asked(asks=(APPROVAL,))

    card = page(as_bob, room).get_element_by_id(f"ask-{question.public_id.hex}")

    words = {text(button) for button in card.xpath(".//button")}
    assert {"Allow", "Decline"} <= words
    assert not card.xpath(".//*[@name='selected']")


def test_a_viewer_sees_the_card_without_controls(
    as_viewer: Client, room: Room, asked: Asked
) -> None:
    [call] = asked(TOOL)
    [question] = wait(room.ask(call.run.requested_by, "And?", call.run.message), asks=(ASK,))

    shown = page(as_viewer, room)

    for one in (call, question):
        card = shown.get_element_by_id(f"ask-{one.public_id.hex}")
        assert "Waiting for someone who may write" in text(card)
        assert not card.xpath(".//form | .//textarea")
        # What is on a block of code reads it, and changes nothing.
        assert not card.xpath(".//button[not(ancestor::*[@class='code-tools'])]")
    assert "Rhine" in text(shown.get_element_by_id(f"ask-{question.public_id.hex}"))


def test_the_strip_says_that_a_person_is_waited_for(
    as_bob: Client, room: Room, asked: Asked
) -> None:
    [question] = asked(TOOL)

    strip = page(as_bob, room).get_element_by_id("strip")

    assert "Waiting for a person" in text(strip)
    assert strip.xpath(f".//a[@href='#asks-{question.run.public_id.hex}']")


def test_many_questions_cost_as_many_queries_as_one(
    as_alice: Client, room: Room, asked: Asked, alice: User
) -> None:
    from tests.views.test_page import queries_of

    [first] = asked(TOOL)
    url = address("conversation", room.conversation)
    few = queries_of(as_alice, url)
    call = events.ToolCallItem
    calls = [call(tool=f"t{i}", arguments={}, call_id=f"c{i}", status="pending") for i in range(9)]
    wait(room.ask(alice, "More", first.run.message), *calls)

    assert queries_of(as_alice, url) == few


# --- settled --------------------------------------------------------------------------------


def test_a_result_is_given_and_the_answer_goes_on(as_bob: Client, asked: Asked) -> None:
    [question] = asked(TOOL)

    patches = Patches(
        post(as_bob, "question_answer", question, where(question), output="3 m\r\nhigh")
    )

    question.refresh_from_db()
    assert (question.status, question.answer["output"]) == ("answered", "3 m\nhigh")
    follow_up = Run.objects.get(message=question.run.message, position=1)
    [(swap, words)] = patches.to(f"#ask-card-{question.public_id.hex}")
    assert "Bob gave the result" in words
    [(swap, _)] = patches.to(f"#runs-{question.run.message.public_id.hex}")
    assert swap == "beforeend"
    assert patches.tree.xpath(f"//*[@id='r{follow_up.public_id.hex}' and @data-live]")
    assert patches.tree.xpath(f"//*[@id='p{follow_up.public_id.hex}']")
    assert patches.tree.xpath("//footer[@data-open]")


def test_what_went_wrong_is_said_so(as_bob: Client, room: Room, asked: Asked) -> None:
    [question] = asked(TOOL)

    post(as_bob, "question_answer", question, output="disk on fire", is_error="true")

    card = page(as_bob, room).get_element_by_id(f"ask-{question.public_id.hex}")
    assert "Bob gave the result: it went wrong" in text(card)
    assert "disk on fire" in text(card)


@pytest.mark.parametrize("ask", [ASK, APPROVAL], ids=["question", "approval"])
def test_declining_is_an_answer(
    as_bob: Client, room: Room, asked: Asked, ask: dict[str, object]
) -> None:
    [question] = asked(asks=(ask,))

    post(as_bob, "question_refuse", question, reason="Not today <b>")

    card = page(as_bob, room).get_element_by_id(f"ask-{question.public_id.hex}")
    assert "Bob declined" in text(card)
    assert "Not today <b>" in text(card)
    assert not card.xpath(".//form")
    assert follow_ups(question) == 1


def test_an_option_is_chosen_by_its_place(as_bob: Client, room: Room, asked: Asked) -> None:
    [question] = asked(asks=(ASK,))

    post(as_bob, "question_answer", question, selected="1")

    question.refresh_from_db()
    assert question.answer["selected"] == ["Elbe"]
    assert "Bob answered" in text(page(as_bob, room).get_element_by_id("turns"))


def test_a_form_is_answered_with_everything_in_it(as_bob: Client, room: Room, asked: Asked) -> None:
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
    card = page(as_bob, room).get_element_by_id(f"ask-{question.public_id.hex}")
    said = card.xpath(".//div[@class='ask-said']//text()[normalize-space()]")
    assert said == ["Rhine", "Elbe", "and cold", "Depth", "3", "Wet", "Yes"]


def test_an_approval_is_given(as_bob: Client, asked: Asked) -> None:
    [question] = asked(asks=(APPROVAL,))

    post(as_bob, "question_answer", question)

    question.refresh_from_db()
    assert (question.status, question.answer["is_approved"]) == ("answered", True)


def test_a_double_click_settles_once(as_bob: Client, asked: Asked) -> None:
    [question] = asked(TOOL)

    statuses = [
        post(as_bob, "question_answer", question, HTMX, output="3 m").status_code for _ in range(2)
    ]

    assert statuses == [200, 200]
    assert follow_ups(question) == 1


def test_a_late_answer_is_refused_with_the_name_of_who_was_first(
    as_alice: Client, as_bob: Client, asked: Asked
) -> None:
    [question] = asked(TOOL)
    post(as_alice, "question_answer", question, output="3 m")

    response = post(as_bob, "question_answer", question, HTMX, output="4 m")

    assert response.status_code == 409
    [(_, words)] = Patches(response).to(f"#ask-note-{question.public_id.hex}")
    assert "Alice was first" in words


@pytest.mark.parametrize(
    ("ask", "data", "status", "words"),
    [
        (ASK, {}, 409, "Answer the question first"),
        (ASK, {"selected": "7"}, 422, "no such option"),
        (ASK, {"selected": "x"}, 422, "no such option"),
        (FORM, {"selected": "0"}, 409, "Fill in: Depth"),
        (FORM, {"field-0": "3", "field-1": "perhaps"}, 422, "Wet"),
    ],
    ids=["nothing", "beyond", "nonsense", "incomplete", "no choice"],
)
def test_what_does_not_fit_the_question_is_refused(
    as_bob: Client,
    asked: Asked,
    ask: dict[str, object],
    data: dict[str, str],
    status: int,
    words: str,
) -> None:
    [question] = asked(asks=(ask,))

    response = post(as_bob, "question_answer", question, HTMX, **data)

    assert response.status_code == status
    [(_, shown)] = Patches(response).to(f"#ask-note-{question.public_id.hex}")
    assert words in shown
    assert follow_ups(question) == 0


def test_without_scripts_a_refused_form_comes_back_with_its_words(
    as_bob: Client, asked: Asked
) -> None:
    [question] = asked(asks=(FORM,))

    response = post(as_bob, "question_answer", question, text="Keep <this>", selected="1")

    shown = html.fromstring(response.content.decode())
    card = shown.get_element_by_id(f"ask-{question.public_id.hex}")
    assert response.status_code == 409
    assert "Fill in: Depth" in text(card)
    assert card.xpath(".//textarea[@name='text']/text()") == ["Keep <this>"]
    assert [box.get("value") for box in card.xpath(".//input[@checked]")] == ["1"]
    assert shown.get_element_by_id("text").text_content() == ""


def test_the_card_of_two_goes_on_only_when_both_are_settled(as_bob: Client, asked: Asked) -> None:
    first, second = asked(TOOL, asks=(ASK,))

    patches = Patches(post(as_bob, "question_answer", first, where(first), output="3 m"))

    assert follow_ups(first) == 0
    assert "1 of 2 settled" in patches.to(f"#rest-{first.run.public_id.hex}")[0][1]
    assert patches.to(f"#ask-card-{second.public_id.hex}") == []
    post(as_bob, "question_answer", second, selected="0")
    assert follow_ups(first) == 1


def test_one_may_go_on_without_what_is_open(as_bob: Client, room: Room, asked: Asked) -> None:
    first, second = asked(TOOL, asks=(ASK,))

    post(as_bob, "run_go_on", first.run)

    assert follow_ups(first) == 1
    for question in (first, second):
        question.refresh_from_db()
        assert question.status == QuestionStatus.EXPIRED
    assert "Bob went on without" in text(page(as_bob, room).get_element_by_id("turns"))


def test_going_on_twice_is_refused_beside_the_button(
    as_alice: Client, as_bob: Client, asked: Asked
) -> None:
    [question] = asked(TOOL)
    post(as_alice, "run_go_on", question.run)

    response = post(as_bob, "run_go_on", question.run, HTMX)

    assert response.status_code == 409
    assert Patches(response).to(f"#rest-note-{question.run.public_id.hex}")


# --- seen by the others ---------------------------------------------------------------------


def test_a_claim_changes_only_the_line_above_what_others_are_typing(
    as_alice: Client, as_bob: Client, room: Room, asked: Asked
) -> None:
    [question] = asked(TOOL)
    headers = where(question)
    post(as_alice, "question_claim", question)

    patches = Patches(
        as_bob.get(address("conversation_changes", room.conversation), headers=headers)
    )

    [(swap, words)] = patches.to(f"#ask-line-{question.public_id.hex}")
    assert (swap, "Alice is answering" in words) == ("outerHTML", True)
    assert "Take over" in words
    assert patches.to(f"#ask-card-{question.public_id.hex}") == []
    assert not patches.tree.xpath("//textarea")


def test_a_claim_that_somebody_has_is_refused_until_it_is_given_back(
    as_alice: Client, as_bob: Client, asked: Asked
) -> None:
    [question] = asked(TOOL)
    post(as_alice, "question_claim", question)

    assert post(as_bob, "question_claim", question, HTMX).status_code == 409
    post(as_alice, "question_release", question)
    assert post(as_bob, "question_claim", question, HTMX).status_code == 200


def test_a_page_that_is_up_to_date_gets_no_card(as_bob: Client, room: Room, asked: Asked) -> None:
    [question] = asked(TOOL)

    patches = Patches(
        as_bob.get(address("conversation_changes", room.conversation), headers=where(question))
    )

    targets = {partial.get("hx-target") for partial in patches.partials}
    assert not {target for target in targets if target.startswith(("#ask-", "#runs-", "#asks-"))}


def test_questions_come_to_a_page_that_watched_the_run_end(
    as_bob: Client, room: Room, alice: User
) -> None:
    run = room.ask(alice, "How high?")
    headers = position(
        run.message.parent,
        run.message,
        room.conversation,
        open=[run.message.public_id.hex],
        runs={run.public_id.hex: 0},
    )
    [question] = wait(run, TOOL)

    patches = Patches(
        as_bob.get(address("conversation_changes", room.conversation), headers=headers)
    )

    [(swap, words)] = patches.to(f"#asks-{run.public_id.hex}")
    assert (swap, "river_level" in words) == ("innerHTML", True)
    assert patches.tree.xpath(f"//*[@id='ask-{question.public_id.hex}']")
    assert patches.to(f"#runs-{run.message.public_id.hex}") == []


def test_a_run_that_is_on_the_page_does_not_come_again(
    as_bob: Client, room: Room, asked: Asked, bob: User
) -> None:
    [question] = asked(TOOL)
    follow_up = verbs.give_result(bob, question, "3 m")
    assert follow_up is not None
    headers = where(
        question,
        asks={},
        runs={question.run.public_id.hex: 1, follow_up.public_id.hex: 0},
    )
    end_run(follow_up, "It is high.")

    patches = Patches(
        as_bob.get(address("conversation_changes", room.conversation), headers=headers)
    )

    assert patches.to(f"#runs-{question.run.message.public_id.hex}") == []
    assert patches.turns == []


def test_who_becomes_a_viewer_loses_the_controls(
    as_bob: Client, room: Room, asked: Asked, bob: User
) -> None:
    [question] = asked(TOOL)
    headers = where(question)
    Membership.objects.filter(user=bob).update(role=TeamRole.VIEWER)

    patches = Patches(
        as_bob.get(address("conversation_changes", room.conversation), headers=headers)
    )

    [(_, words)] = patches.to(f"#ask-card-{question.public_id.hex}")
    assert "Waiting for someone who may write" in words


def test_an_answer_of_two_runs_is_one_turn_with_both(
    as_bob: Client, room: Room, asked: Asked, bob: User
) -> None:
    [question] = asked(TOOL)
    follow_up = verbs.give_result(bob, question, "3 m")
    assert follow_up is not None
    end_run(follow_up, "It is high.")

    shown = page(as_bob, room)

    turn = shown.get_element_by_id(f"runs-{question.run.message.public_id.hex}")
    assert [each.get("id") for each in turn] == [
        f"r{question.run.public_id.hex}",
        f"asks-{question.run.public_id.hex}",
        f"r{follow_up.public_id.hex}",
        f"asks-{follow_up.public_id.hex}",
    ]
    assert len(shown.xpath("//article")) == 2


def test_the_list_marks_where_a_person_is_waited_for(
    as_bob: Client, room: Room, asked: Asked, alice: User
) -> None:
    [question] = asked(TOOL)
    url = reverse("conversation_list")
    assert "waiting for a person" in as_bob.get(url).content.decode()

    end_run(room.ask(alice, "Never mind", question.run.message))

    assert "waiting for a person" not in as_bob.get(url).content.decode()


def test_the_details_of_a_run_lead_to_the_others_of_its_answer(
    as_bob: Client, asked: Asked, bob: User
) -> None:
    [question] = asked(TOOL)
    follow_up = verbs.give_result(bob, question, "3 m")
    assert follow_up is not None

    page = as_bob.get(address("run_details", follow_up)).content.decode()

    assert address("run_details", question.run) in page
    assert "written in 2 runs" in page


def test_a_question_of_another_room_is_not_there(as_bob: Client, asked: Asked) -> None:
    asked(TOOL)

    url = reverse("question_answer", args=[uuid.uuid4()])

    assert as_bob.post(url, {"output": "3 m"}).status_code == 404
