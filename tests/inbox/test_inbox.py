"""The inbox: open questions that a person may answer."""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.test import Client
from django.urls import reverse
from django.utils import timezone
from lxml import html

from chat import access
from chat.conversations.actions.messages import choose_branch
from chat.models import (
    BranchChoice,
    Membership,
    Message,
    Question,
    QuestionKind,
    QuestionStatus,
    Role,
    Run,
    RunStatus,
    Team,
    TeamRole,
    User,
)
from tests.support.rooms import HTMX, Room, end_run, get_page, queries_of, text_of


def make_question(
    room: Room, words: str = "Which river?", below: Message | None = None, **fields: object
) -> Question:
    """A question that an answer has ended with."""
    run = room.ask(f"About {words}", below)
    end_run(run)
    Run.objects.filter(pk=run.pk).update(status=RunStatus.WAITING)
    return Question.objects.create(
        conversation=room.conversation,
        run=run,
        kind=QuestionKind.ASK,
        ask_id=uuid.uuid4().hex,
        body={"question": words},
        **fields,
    )


def inbox_of(client: Client) -> html.HtmlElement:
    return get_page(client, reverse("inbox"))


def links_of(client: Client) -> list[html.HtmlElement]:
    return list(inbox_of(client).xpath("//a[contains(@class, 'inbox-open')]"))


def listed(client: Client, tab: str = "") -> list[str]:
    page = get_page(client, f"{reverse('inbox')}?tab={tab}")
    return [text_of(line) for line in page.xpath("//*[@class='inbox-question']")]


def count_in_the_menu(client: Client) -> str:
    return "".join(inbox_of(client).xpath("//*[contains(@class, 'nav-count')]/text()"))


def test_open_question_is_listed_counted_and_linked(as_bob: Client, room: Room) -> None:
    question = make_question(room)

    (link,) = links_of(as_bob)
    target = html.fromstring(as_bob.get(link.get("href"), follow=True).content.decode())

    card = f"ask-{question.public_id.hex}"
    assert listed(as_bob) == ["Which river?"]
    assert link.get("href").partition("#")[2] == card
    assert target.get_element_by_id(card) is not None


def test_menu_counts_what_is_for_this_person(as_alice: Client, as_bob: Client, room: Room) -> None:
    question = make_question(room)

    assert [count_in_the_menu(each) for each in (as_alice, as_bob)] == ["1", ""]
    as_bob.post(reverse("question_claim", args=[question.public_id]))
    assert [count_in_the_menu(each) for each in (as_alice, as_bob)] == ["1", "1"]
    assert listed(as_bob, "you") == ["Which river?"]


def test_link_leads_to_a_question_in_another_branch(as_bob: Client, room: Room, bob: User) -> None:
    first = room.turn("Where does it rise?")
    question = make_question(room, "So?", below=first)
    # A newer branch from the beginning, and a branch below the first answer that Bob chose.
    room.turn("Something else")
    other = room.turn("Instead", below=first)
    choose_branch(bob, other.parent)

    (link,) = links_of(as_bob)
    shown = as_bob.get(link.get("href"), follow=True).content.decode()

    assert f'id="ask-{question.public_id.hex}"' in shown
    assert "Something else" not in shown


def test_link_to_the_current_branch_stores_no_choice(as_bob: Client, room: Room) -> None:
    make_question(room)

    (link,) = links_of(as_bob)
    as_bob.get(link.get("href"))

    assert not BranchChoice.objects.exists()


def test_number_of_queries_is_constant(as_bob: Client, room: Room) -> None:
    make_question(room)
    for_one = queries_of(as_bob, reverse("inbox"))
    for number in range(4):
        make_question(room, f"And {number}?")

    assert queries_of(as_bob, reverse("inbox")) == for_one


def test_claimed_question_names_who_answers(as_bob: Client, room: Room, alice: User) -> None:
    make_question(room, status=QuestionStatus.CLAIMED, claimed_by=alice)

    assert "Alice is answering" in inbox_of(as_bob).text_content()


# --- the tabs -------------------------------------------------------------------------------


def test_own_and_claimed_questions_are_for_you_and_others_for_the_team(
    as_alice: Client, as_bob: Client, room: Room, bob: User
) -> None:
    make_question(room)
    make_question(room, "Claimed?", status=QuestionStatus.CLAIMED, claimed_by=bob)

    assert listed(as_alice, "you") == ["Which river?", "Claimed?"]
    assert listed(as_alice, "team") == []
    assert listed(as_bob, "you") == ["Claimed?"]
    assert listed(as_bob, "team") == ["Which river?"]


def test_answered_tab_lists_the_newest_first_for_those_who_write(
    as_bob: Client, as_viewer: Client, room: Room, alice: User
) -> None:
    for number, words in enumerate(("Older?", "Newer?")):
        make_question(
            room,
            words,
            status=QuestionStatus.ANSWERED,
            answered_by=alice,
            answered_at=timezone.now() + timedelta(seconds=number),
        )
    make_question(room)

    assert listed(as_bob, "answered") == ["Newer?", "Older?"]
    assert listed(as_viewer, "answered") == []


def test_action_in_the_inbox_patches_its_card_alone(as_bob: Client, room: Room) -> None:
    question = make_question(room)
    page = f"http://testserver{reverse('inbox')}?tab=team"
    headers = {**HTMX, "HX-Current-URL": page}

    claimed = as_bob.post(reverse("question_claim", args=[question.public_id]), headers=headers)
    answered = as_bob.post(
        reverse("question_answer", args=[question.public_id]), {"text": "Both"}, headers=headers
    )

    assert "You’re answering" in claimed.content.decode()
    assert f"#ask-card-{question.public_id.hex}" in answered.content.decode()
    assert "Answered by Bob" in answered.content.decode()
    assert "#turns" not in answered.content.decode()


# --- what is not listed ---------------------------------------------------------------------


def test_viewers_and_strangers_have_no_questions(
    as_viewer: Client, room: Room, charlie: User
) -> None:
    make_question(room)

    assert listed(as_viewer) == []
    assert count_in_the_menu(as_viewer) == ""
    assert "Nothing needs your attention" in inbox_of(as_viewer).text_content()
    assert not access.questions_for(charlie).exists()


def test_membership_in_another_team_gives_no_right_here(
    room: Room, viewer: User, other_team: Team
) -> None:
    Membership.objects.create(team=other_team, user=viewer, role=TeamRole.MEMBER)
    make_question(room)

    assert not access.questions_for(viewer).exists()


def test_answered_and_abandoned_questions_are_not_listed(as_bob: Client, room: Room) -> None:
    answered = make_question(room, "Settled?", status=QuestionStatus.ANSWERED)
    continued = make_question(room, "Written on below?").run.message
    Message.objects.create(
        conversation=room.conversation, parent=continued, role=Role.USER, text="On"
    )
    retried = make_question(room, "Tried again?").run.message
    Message.objects.create(
        conversation=room.conversation, parent=retried.parent, role=Role.ASSISTANT
    )

    assert answered.status == QuestionStatus.ANSWERED
    assert listed(as_bob) == []
    assert count_in_the_menu(as_bob) == ""
