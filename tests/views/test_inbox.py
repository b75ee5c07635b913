from __future__ import annotations

import uuid

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from lxml import html

from chat import access
from chat.actions.conversations import choose_branch
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
from tests.views.conftest import Room, end_run


def asking(room: Room, by: User, words: str = "Which river?", **more: object) -> Question:
    """An answer that has ended with a question."""
    run = room.ask(by, f"About {words}")
    end_run(run)
    Run.objects.filter(pk=run.pk).update(status=RunStatus.WAITING)
    return Question.objects.create(
        conversation=room.conversation,
        run=run,
        kind=QuestionKind.ASK,
        ask_id=uuid.uuid4().hex,
        body={"question": words},
        **more,
    )


def page_of(client: Client) -> html.HtmlElement:
    return html.fromstring(client.get(reverse("inbox")).content.decode())


def listed(client: Client) -> list[str]:
    return [
        " ".join(link.text_content().split())
        for link in page_of(client).xpath("//a[@class='inbox-link']")
    ]


def counted(client: Client) -> str:
    return "".join(page_of(client).xpath("//*[contains(@class, 'nav-count')]/text()"))


def test_an_open_question_is_listed_counted_and_leads_to_its_card(
    as_bob: Client, room: Room, alice: User
) -> None:
    question = asking(room, alice)

    page = page_of(as_bob)
    (link,) = page.xpath("//a[@class='inbox-link']")
    room_page = html.fromstring(as_bob.get(link.get("href"), follow=True).content.decode())

    assert listed(as_bob) == ["Which river?"]
    assert counted(as_bob) == "1"
    assert link.get("href").partition("#")[2] == f"ask-{question.public_id.hex}"
    assert room_page.get_element_by_id(f"ask-{question.public_id.hex}") is not None


def test_a_question_in_another_branch_is_found_all_the_same(
    as_bob: Client, room: Room, alice: User, bob: User
) -> None:
    first = room.turn(alice, "Where does it rise?")
    asked = room.ask(alice, "Go on", below=first)
    end_run(asked)
    Run.objects.filter(pk=asked.pk).update(status=RunStatus.WAITING)
    question = Question.objects.create(
        conversation=room.conversation, run=asked, kind=QuestionKind.ASK, body={"question": "So?"}
    )
    # A newer branch from the beginning, and a choice of their own below the first answer.
    room.turn(alice, "Something else")
    other = room.turn(alice, "Instead", below=first)
    choose_branch(bob, other.parent)

    link = page_of(as_bob).xpath("//a[@class='inbox-link']/@href")[0]
    shown = as_bob.get(link, follow=True).content.decode()

    assert f'id="ask-{question.public_id.hex}"' in shown
    assert "Something else" not in shown


def test_a_link_to_what_is_shown_anyway_chooses_nothing(
    as_bob: Client, room: Room, alice: User
) -> None:
    asking(room, alice)

    link = page_of(as_bob).xpath("//a[@class='inbox-link']/@href")[0]
    as_bob.get(link)

    assert not BranchChoice.objects.exists()


def test_the_number_of_queries_does_not_grow_with_the_list(
    as_bob: Client, room: Room, alice: User
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            page_of(as_bob)
        return len(captured)

    asking(room, alice)
    of_one = queries()
    for number in range(4):
        asking(room, alice, f"And {number}?")

    assert queries() == of_one


def test_who_is_at_it_is_said(as_bob: Client, room: Room, alice: User) -> None:
    asking(room, alice, status=QuestionStatus.CLAIMED, claimed_by=alice)

    assert "Alice is answering" in page_of(as_bob).text_content()


def test_a_viewer_and_a_stranger_have_nothing_to_answer(
    as_viewer: Client, room: Room, alice: User, charlie: User
) -> None:
    asking(room, alice)

    assert listed(as_viewer) == []
    assert counted(as_viewer) == ""
    assert "Nobody waits for you" in page_of(as_viewer).text_content()
    assert not access.questions_for(charlie).exists()


def test_a_right_in_another_team_is_none_here(
    room: Room, alice: User, viewer: User, other_team: Team
) -> None:
    Membership.objects.create(team=other_team, user=viewer, role=TeamRole.MEMBER)
    asking(room, alice)

    assert not access.questions_for(viewer).exists()


def test_what_was_settled_or_left_behind_waits_for_nobody(
    as_bob: Client, room: Room, alice: User
) -> None:
    answered = asking(room, alice, "Settled?", status=QuestionStatus.ANSWERED)
    below = asking(room, alice, "Written on below?")
    Message.objects.create(
        conversation=room.conversation, parent=below.run.message, role=Role.USER, text="On"
    )
    retried = asking(room, alice, "Tried again?")
    Message.objects.create(
        conversation=room.conversation, parent=retried.run.message.parent, role=Role.ASSISTANT
    )

    assert answered.status == QuestionStatus.ANSWERED
    assert listed(as_bob) == []
    assert counted(as_bob) == ""


def test_a_private_room_of_somebody_else_is_not_listed(
    as_bob: Client, room: Room, alice: User
) -> None:
    asking(room, alice)
    room.conversation.visibility = "private"
    room.conversation.save()

    assert listed(as_bob) == []
