"""Access tokens in the settings: shown once, limited, revoked at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat import access
from chat.accounts.actions import tokens
from chat.core.errors import ActionRefused
from chat.models import AccessToken, AuditEvent, Membership, Team, TeamRole, Upstream, User
from project.logs import without_secrets


@pytest.fixture
def browser(alice: User, team: Team, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(alice)


def create(browser: Client, team: Team, /, **fields: str) -> HttpResponse:
    form = {"name": "nightly", "team": team.public_id.hex, "lifetime": "30", **fields}
    return browser.post(reverse("tokens"), form)


def token_in(answer: HttpResponse) -> str:
    """The token that a page shows."""
    return "trib_" + answer.content.decode().partition('value="trib_')[2].partition('"')[0]


def list_page(browser: Client) -> str:
    return browser.get(reverse("tokens")).content.decode()


def test_token_is_shown_once_and_stored_as_its_hash(
    browser: Client, team: Team, upstream: Upstream
) -> None:
    answer = create(browser, team)
    text = token_in(answer)
    secret = text.removeprefix("trib_")
    token = AccessToken.objects.get()

    assert tokens.find_token(text) == token
    assert secret not in str(AccessToken.objects.values())
    assert secret not in str(AuditEvent.objects.values())
    assert secret not in list_page(browser)
    # The example can be pasted without the secret in it.
    assert answer.content.decode().count(secret) == 1
    assert "demo/model" in answer.content.decode()


def test_revoked_token_is_invalid_and_listed_as_ended(browser: Client, team: Team) -> None:
    text = token_in(create(browser, team))
    token = AccessToken.objects.get()

    for _ in range(2):
        browser.post(reverse("token_revoke", args=[token.public_id]))

    assert tokens.find_token(text) is None
    assert "Revoked and expired (1)" in list_page(browser)
    assert AuditEvent.objects.filter(verb="token.revoked").count() == 1


def test_token_of_another_person_is_404(browser: Client, bob: User, team: Team) -> None:
    token, text = tokens.create_token(bob, team, name="bob's", days=1)

    answer = browser.post(reverse("token_revoke", args=[token.public_id]))

    assert answer.status_code == 404
    assert tokens.find_token(text) is not None
    assert "bob&#x27;s" not in list_page(browser)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "x" * 81},
        {"name": "a\u202eb"},
        {"lifetime": "1000000"},
        {"team": "0" * 32},
    ],
)
def test_invalid_form_is_refused_beside_its_field(
    browser: Client, team: Team, fields: dict[str, str]
) -> None:
    answer = create(browser, team, **fields)

    assert answer.status_code == 422
    assert "field-error" in answer.content.decode()
    assert not AccessToken.objects.exists()


def test_hostile_name_is_escaped(browser: Client, team: Team) -> None:
    create(browser, team, name="<script>alert(1)</script>")

    assert "<script>alert" not in list_page(browser)


def test_token_of_a_viewer_is_invalid_and_says_why(
    browser: Client, alice: User, team: Team
) -> None:
    text = token_in(create(browser, team))
    Membership.objects.filter(user=alice).update(role=TeamRole.VIEWER)

    assert tokens.find_token(text) is None
    assert "You no longer have write access to River." in list_page(browser)


def test_new_password_keeps_the_tokens(browser: Client, alice: User, team: Team) -> None:
    text = token_in(create(browser, team))

    alice.set_password("another one for Alice")
    alice.save()

    assert tokens.find_token(text) is not None


def test_last_use_is_recorded_to_the_minute(alice: User, team: Team) -> None:
    _, text = tokens.create_token(alice, team, name="x", days=None)

    tokens.find_token(text)
    first = AccessToken.objects.get().last_used_at
    tokens.find_token(text)

    assert first is not None
    assert first <= timezone.now()
    assert AccessToken.objects.get().last_used_at == first


def test_number_of_tokens_is_limited(
    alice: User, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MOST_TOKENS", 1)
    tokens.create_token(alice, team, name="one", days=1)

    with pytest.raises(ActionRefused, match="Revoke one"):
        tokens.create_token(alice, team, name="two", days=1)


def test_expired_token_does_not_count(
    alice: User, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MOST_TOKENS", 1)
    tokens.create_token(alice, team, name="one", days=1)
    AccessToken.objects.update(expires_at=timezone.now())

    tokens.create_token(alice, team, name="two", days=1)

    assert access.usable_tokens().get().name == "two"


@pytest.mark.parametrize(
    "text",
    ["", "trib_", "x" * 100_000, "trib_\ud800", "Bearer trib_x"],
    ids=["nothing", "prefix", "long", "surrogate", "header"],
)
def test_other_text_is_no_token(alice: User, team: Team, text: str) -> None:
    tokens.create_token(alice, team, name="one", days=1)

    assert tokens.find_token(text) is None


def test_log_contains_no_token(alice: User, team: Team) -> None:
    _, text = tokens.create_token(alice, team, name="one", days=1)

    assert text not in without_secrets(f"refused path=/?a={text} header={text}")
