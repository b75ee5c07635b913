"""Access tokens in the administration: seen without their hash, and revoked."""

from __future__ import annotations

import pytest
from django.test import Client

from chat.accounts.actions.tokens import create_token, find_token
from chat.models import AccessToken, AuditEvent, Team, User
from tests.administration.pages import list_url, row_url, text_of

LIST = list_url("accesstoken")


@pytest.fixture
def secret(alice: User, team: Team) -> str:
    return create_token(alice, team, name="nightly", days=7)[1]


def test_pages_show_the_owner_and_never_the_hash(admin_client: Client, secret: str) -> None:
    token = AccessToken.objects.get()

    for url in (LIST, row_url(token)):
        page = text_of(admin_client, url)
        assert "nightly" in page
        assert "Alice" in page
        assert token.token_hash[:12] not in page
        assert secret not in page


def test_list_cannot_be_searched_by_hash(admin_client: Client, secret: str) -> None:
    beginning = AccessToken.objects.get().token_hash[:6]

    filtered = admin_client.get(LIST, {"token_hash__startswith": beginning})
    searched = admin_client.get(LIST, {"q": beginning})

    assert filtered.status_code in (302, 400)
    assert "nightly" not in searched.content.decode()


def test_revoking_a_token_is_recorded(
    admin_client: Client, administrator: User, secret: str
) -> None:
    token = AccessToken.objects.get()

    admin_client.post(LIST, {"action": "revoke", "_selected_action": [token.pk]})

    assert find_token(secret) is None
    event = AuditEvent.objects.get(verb="token.revoked")
    assert (event.actor, event.subject) == (administrator, token.user)
    assert token.token_hash not in str(event.detail)
