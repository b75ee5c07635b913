"""The limit of runs for one person at a time."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import LazySettings
from django.db import connection, connections, transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chat.conversations.actions.messages import ModelChoice, start_conversation
from chat.core.errors import QueueFull
from chat.models import Conversation, Message, Run, Team, Upstream, User
from tests.support.processes.site import soon
from tests.support.rooms import HTMX, Room, end_run, url_of


@pytest.fixture(autouse=True)
def _limit_of_two(settings: LazySettings) -> None:
    settings.RUNS_PER_PERSON = 2


@pytest.fixture
def first_of_two(room: Room) -> Run:
    """Alice's first run; with the second one she has reached the limit."""
    first = room.ask("One")
    room.ask("Two")
    return first


def start(client: Client, data: dict[str, str]) -> HttpResponse:
    return client.post(reverse("conversation_new"), data, headers=HTMX)


def test_run_beyond_the_limit_is_refused(
    as_alice: Client, first_of_two: Run, team: Team, room: Room
) -> None:
    response = start(as_alice, room.form("Three", team=team.public_id.hex))

    assert response.status_code == 409
    assert b"You already have 2 answers" in response.content
    assert Conversation.objects.count() == 1
    assert Message.objects.filter(text="Three").count() == 0


def test_retry_counts_too(as_alice: Client, first_of_two: Run, room: Room) -> None:
    end_run(first_of_two)
    room.ask("Three")

    response = as_alice.post(
        url_of("message_retry", first_of_two.message), room.form(), headers=HTMX
    )

    assert response.status_code == 409
    assert Run.objects.count() == 3


def test_accepted_message_can_be_sent_again(as_alice: Client, team: Team, room: Room) -> None:
    data = room.form("Once", team=team.public_id.hex)
    room.ask("Before")
    start(as_alice, data)

    response = start(as_alice, data)

    assert response.status_code == 200
    assert Run.objects.count() == 2


def test_ended_run_does_not_count(
    as_alice: Client, first_of_two: Run, team: Team, room: Room
) -> None:
    end_run(first_of_two)

    assert start(as_alice, room.form(team=team.public_id.hex)).status_code == 200


def test_runs_of_others_do_not_count(
    as_bob: Client, first_of_two: Run, team: Team, room: Room
) -> None:
    assert start(as_bob, room.form(team=team.public_id.hex)).status_code == 200


@pytest.mark.databases(only="postgresql")
def test_run_beyond_the_limit_is_refused_while_the_last_one_is_not_committed(
    transactional_db: None, settings: LazySettings, alice: User, team: Team, upstream: Upstream
) -> None:
    settings.RUNS_PER_PERSON = 1

    def start() -> Run:
        choice = ModelChoice(upstream=upstream, model="demo/model")
        return start_conversation(
            alice, team, text="Me first", choice=choice, idempotency_key=uuid.uuid4()
        )

    def start_elsewhere() -> Run:
        try:
            return start()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            start()
            second = pool.submit(start_elsewhere)
            soon(lambda: second.done() or is_anybody_waiting())

        with pytest.raises(QueueFull):
            second.result()
    assert Run.objects.count() == 1


def is_anybody_waiting() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)")
        return bool(cursor.fetchone()[0])
