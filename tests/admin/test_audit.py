from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from chat.actions import audit
from chat.models import AuditEvent, Conversation, Membership, Run, Team, TeamRole, User

READ = "conversation.read_by_administrator"


def open_transcript(client: Client, conversation: Conversation, **query: object) -> None:
    address = reverse("admin:chat_conversation_change", args=[conversation.pk])
    assert client.get(address, query).status_code == 200


def test_opening_a_private_conversation_leaves_a_row(
    admin_client: Client, administrator: User, alice: User, private_run: Run
) -> None:
    open_transcript(admin_client, private_run.conversation)

    event = AuditEvent.objects.get()
    assert event.verb == READ
    assert event.actor == administrator
    assert event.subject == alice
    assert event.target == f"conversation {private_run.conversation.public_id}"
    assert event.detail == {"visibility": "private", "page": 1}


def test_every_opening_leaves_a_row(admin_client: Client, private_run: Run) -> None:
    open_transcript(admin_client, private_run.conversation)
    open_transcript(admin_client, private_run.conversation)
    open_transcript(admin_client, private_run.conversation, page=2)

    assert AuditEvent.objects.filter(verb=READ).count() == 3


def test_asking_for_the_head_alone_leaves_a_row_too(admin_client: Client, private_run: Run) -> None:
    admin_client.head(reverse("admin:chat_conversation_change", args=[private_run.conversation_id]))

    assert AuditEvent.objects.filter(verb=READ).count() == 1


def test_opening_a_run_of_a_private_conversation_leaves_a_row(
    admin_client: Client, alice: User, private_run: Run
) -> None:
    admin_client.get(reverse("admin:chat_run_change", args=[private_run.pk]))

    event = AuditEvent.objects.get()
    assert event.verb == READ
    assert event.subject == alice
    assert event.detail["run"] == str(private_run.public_id)


def test_reading_what_a_team_shares_without_being_in_it_leaves_a_row(
    admin_client: Client, shared_run: Run
) -> None:
    open_transcript(admin_client, shared_run.conversation)

    assert AuditEvent.objects.get().detail["visibility"] == "team"


def test_reading_what_ones_own_team_shares_leaves_none(
    admin_client: Client, administrator: User, team: Team, shared_run: Run
) -> None:
    Membership.objects.create(team=team, user=administrator, role=TeamRole.VIEWER)

    open_transcript(admin_client, shared_run.conversation)

    assert not AuditEvent.objects.exists()


def test_reading_ones_own_conversation_leaves_none(
    admin_client: Client, administrator: User, private_run: Run
) -> None:
    Conversation.objects.update(owner=administrator)

    open_transcript(admin_client, private_run.conversation)

    assert not AuditEvent.objects.exists()


def test_the_page_says_that_the_opening_is_recorded(admin_client: Client, private_run: Run) -> None:
    address = reverse("admin:chat_conversation_change", args=[private_run.conversation_id])

    assert "That you opened it is recorded." in admin_client.get(address).content.decode()


@pytest.mark.parametrize("route", ["conversation", "run"])
def test_without_the_row_nothing_is_read(
    route: str, admin_client: Client, private_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(audit, "record", refuse)
    admin_client.raise_request_exception = False
    keys = {"conversation": private_run.conversation_id, "run": private_run.pk}

    response = admin_client.get(reverse(f"admin:chat_{route}_change", args=[keys[route]]))

    assert response.status_code == 500
    assert b"spring" not in response.content
    assert b"old" not in response.content


def test_the_lists_leave_no_row_and_show_no_words(admin_client: Client, private_run: Run) -> None:
    for route in ("conversation", "run"):
        page = admin_client.get(reverse(f"admin:chat_{route}_changelist")).content.decode()
        assert "Private" in page
        assert "secret" not in page
        assert "mill" not in page

    assert not AuditEvent.objects.exists()


def test_a_search_through_everybodys_words_leaves_a_row(
    admin_client: Client, administrator: User, private_run: Run
) -> None:
    admin_client.get(reverse("admin:chat_conversation_changelist"), {"q": "secret spring"})

    event = AuditEvent.objects.get()
    assert event.verb == "conversation.search_by_administrator"
    assert event.actor == administrator
    assert event.detail == {"words": "secret spring"}


def test_a_refused_visitor_leaves_no_row(
    bob: User, private_run: Run, signed_in: Callable[[User], Client]
) -> None:
    address = reverse("admin:chat_conversation_change", args=[private_run.conversation_id])

    signed_in(bob).get(address)

    assert not AuditEvent.objects.exists()


def test_the_trail_is_shown_and_searched(
    admin_client: Client, alice: User, private_run: Run
) -> None:
    open_transcript(admin_client, private_run.conversation)
    event = AuditEvent.objects.get()

    listing = admin_client.get(reverse("admin:chat_auditevent_changelist"), {"q": "Alice"})
    page = admin_client.get(reverse("admin:chat_auditevent_change", args=[event.pk]))

    assert READ in listing.content.decode()
    assert "Ada" in listing.content.decode()
    assert "&quot;visibility&quot;: &quot;private&quot;" in page.content.decode()
