from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from chat.actions.tokens import create_token, find_token
from chat.models import AccessToken, AuditEvent, Team, User

LIST = "admin:chat_accesstoken_changelist"


@pytest.fixture
def text(alice: User, team: Team) -> str:
    return create_token(alice, team, name="nightly", days=7)[1]


def test_an_administrator_sees_whose_it_is_and_never_its_hash(
    admin_client: Client, text: str
) -> None:
    token = AccessToken.objects.get()
    pages = [
        admin_client.get(reverse(LIST)).content.decode(),
        admin_client.get(
            reverse("admin:chat_accesstoken_change", args=[token.pk])
        ).content.decode(),
    ]

    for page in pages:
        assert "nightly" in page
        assert "Alice" in page
        assert token.token_hash[:12] not in page
        assert text not in page


def test_a_list_is_not_asked_for_the_beginning_of_a_hash(admin_client: Client, text: str) -> None:
    beginning = AccessToken.objects.get().token_hash[:6]

    found = admin_client.get(reverse(LIST), {"token_hash__startswith": beginning})
    searched = admin_client.get(reverse(LIST), {"q": beginning})

    assert found.status_code in (302, 400)
    assert "nightly" not in searched.content.decode()


def test_an_administrator_ends_a_token_and_is_recorded(
    admin_client: Client, administrator: User, text: str
) -> None:
    token = AccessToken.objects.get()

    admin_client.post(reverse(LIST), {"action": "revoke", "_selected_action": [token.pk]})

    assert find_token(text) is None
    event = AuditEvent.objects.get(verb="token.revoked")
    assert (event.actor, event.subject) == (administrator, token.user)
    assert token.token_hash not in str(event.detail)
