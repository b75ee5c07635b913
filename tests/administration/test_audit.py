"""Reading other people's conversations as an administrator is recorded."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from chat.models import AuditEvent, Conversation, Membership, Run, Team, TeamRole, User
from tests.administration.pages import list_url, row_url, text_of
from tests.support.reasons import give_reason

READ = "conversation.read_by_administrator"


@pytest.fixture
def reason(administrator: User, private_run: Run) -> None:
    give_reason(administrator, private_run.conversation)


@pytest.mark.usefixtures("reason")
def test_reading_a_private_conversation_is_recorded(
    admin_client: Client, administrator: User, alice: User, private_run: Run
) -> None:
    page = text_of(admin_client, row_url(private_run.conversation))

    event = AuditEvent.objects.get()
    assert event.verb == READ
    assert event.actor == administrator
    assert event.subject == alice
    assert event.target == f"conversation {private_run.conversation.public_id}"
    assert event.detail == {"visibility": "private", "page": 1}
    assert "Participants can see your reason" in page


@pytest.mark.usefixtures("reason")
def test_every_reading_is_recorded(admin_client: Client, private_run: Run) -> None:
    url = row_url(private_run.conversation)

    for query in ({}, {}, {"page": 2}):
        text_of(admin_client, url, **query)
    admin_client.head(url)

    assert AuditEvent.objects.filter(verb=READ).count() == 4


@pytest.mark.usefixtures("reason")
def test_reading_a_run_is_recorded(admin_client: Client, alice: User, private_run: Run) -> None:
    admin_client.get(row_url(private_run))

    event = AuditEvent.objects.get()
    assert event.verb == READ
    assert event.subject == alice
    assert event.detail["run"] == str(private_run.public_id)


def test_reading_the_own_teams_conversation_is_not_recorded(
    admin_client: Client, administrator: User, team: Team, shared_run: Run
) -> None:
    Membership.objects.create(team=team, user=administrator, role=TeamRole.VIEWER)

    text_of(admin_client, row_url(shared_run.conversation))

    assert not AuditEvent.objects.exists()


def test_reading_an_own_conversation_is_not_recorded(
    admin_client: Client, administrator: User, private_run: Run
) -> None:
    Conversation.objects.update(owner=administrator)

    text_of(admin_client, row_url(private_run.conversation))

    assert not AuditEvent.objects.exists()


@pytest.mark.usefixtures("reason")
@pytest.mark.parametrize("kind", ["conversation", "run"])
def test_nothing_is_shown_that_cannot_be_recorded(
    kind: str, admin_client: Client, private_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(AuditEvent.objects, "record", refuse)
    admin_client.raise_request_exception = False
    row = private_run if kind == "run" else private_run.conversation

    response = admin_client.get(row_url(row))

    assert response.status_code == 500
    assert b"spring" not in response.content
    assert b"mill" not in response.content


def test_lists_show_no_text_and_are_not_recorded(admin_client: Client, private_run: Run) -> None:
    for model in ("conversation", "run"):
        page = text_of(admin_client, list_url(model))
        assert str(private_run.conversation.public_id) in page
        assert "secret" not in page
        assert "mill" not in page

    assert not AuditEvent.objects.exists()


def test_refused_visitor_is_not_recorded(
    bob: User, private_run: Run, signed_in: Callable[[User], Client]
) -> None:
    signed_in(bob).get(row_url(private_run.conversation))

    assert not AuditEvent.objects.exists()


@pytest.mark.usefixtures("reason")
def test_audit_trail_is_listed_and_searched(
    admin_client: Client, alice: User, private_run: Run
) -> None:
    text_of(admin_client, row_url(private_run.conversation))

    listing = text_of(admin_client, list_url("auditevent"), q="Alice")
    page = text_of(admin_client, row_url(AuditEvent.objects.get()))

    assert "<bdi>Ada</bdi> read <bdi>Alice</bdi>’s conversation <bdi>“Private”</bdi>" in listing
    assert '<h1 dir="auto">Ada read Alice’s conversation “Private”</h1>' in page
    assert "&quot;visibility&quot;: &quot;private&quot;" in page
