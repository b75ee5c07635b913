"""Nobody fills the line alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from chat.models import Conversation, Message, Run, Team, User
from tests.views.conftest import HTMX, Room, address, end_run

Form = Callable[..., dict[str, str]]


@pytest.fixture(autouse=True)
def _two_at_most(settings: object) -> None:
    settings.RUNS_PER_PERSON = 2


@pytest.fixture
def full(room: Room, alice: User) -> Run:
    """Alice has as many answers under way as she may; the first of them."""
    first = room.ask(alice, "One")
    room.ask(alice, "Two")
    return first


def test_one_more_is_refused_and_nothing_is_written(
    as_alice: Client, full: Run, team: Team, form_of: Form
) -> None:
    data = form_of("Three", team=team.public_id.hex)

    answer = as_alice.post(reverse("conversation_new"), data, headers=HTMX)

    assert answer.status_code == 409
    assert b"2 answers for you" in answer.content
    assert Conversation.objects.count() == 1
    assert Message.objects.filter(text="Three").count() == 0


def test_trying_again_counts_as_well(
    as_alice: Client, full: Run, room: Room, alice: User, form_of: Form
) -> None:
    end_run(full)
    room.ask(alice, "Three")

    answer = as_alice.post(address("message_retry", full.message), form_of(), headers=HTMX)

    assert answer.status_code == 409
    assert Run.objects.count() == 3


def test_what_was_accepted_already_stays_accepted_when_it_is_sent_again(
    as_alice: Client, team: Team, form_of: Form, room: Room, alice: User
) -> None:
    data = form_of("Once", team=team.public_id.hex)
    room.ask(alice, "Before")
    as_alice.post(reverse("conversation_new"), data, headers=HTMX)

    answer = as_alice.post(reverse("conversation_new"), data, headers=HTMX)

    assert answer.status_code == 200
    assert Run.objects.count() == 2


def test_an_answer_that_ended_makes_room(
    as_alice: Client, full: Run, team: Team, form_of: Form
) -> None:
    end_run(full)

    answer = as_alice.post(
        reverse("conversation_new"), form_of(team=team.public_id.hex), headers=HTMX
    )

    assert answer.status_code == 200


def test_the_others_share_is_their_own(
    as_bob: Client, full: Run, team: Team, form_of: Form
) -> None:
    answer = as_bob.post(
        reverse("conversation_new"), form_of(team=team.public_id.hex), headers=HTMX
    )

    assert answer.status_code == 200
