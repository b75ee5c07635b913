"""Tokens in the settings: shown once, revoked at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat.actions import tokens
from chat.actions.errors import ActionRefused
from chat.models import AccessToken, AuditEvent, Membership, Team, TeamRole, Upstream, User
from project.logs import without_secrets

SignIn = Callable[[User], Client]


@pytest.fixture
def browser(alice: User, team: Team, signed_in: SignIn) -> Client:
    return signed_in(alice)


def make(browser: Client, team: Team, **fields: str) -> str:
    said = {"name": "nightly", "team": team.public_id.hex, "lifetime": "30", **fields}
    return browser.post(reverse("tokens"), said).content.decode()


def shown_in(page: str) -> str:
    return page.partition('value="trib_')[2].partition('"')[0]


def test_a_token_is_shown_once_and_only_its_hash_is_kept(
    browser: Client, team: Team, upstream: Upstream
) -> None:
    page = make(browser, team)
    secret = shown_in(page)
    token = AccessToken.objects.get()

    assert tokens.find_token(f"trib_{secret}") == token
    assert secret not in str(AccessToken.objects.values())
    assert secret not in str(AuditEvent.objects.values())
    assert secret not in browser.get(reverse("tokens")).content.decode()
    # The example can be pasted without the secret in it.
    assert page.count(secret) == 1
    assert "demo/model" in page


def test_a_revoked_token_is_dead_and_listed_as_ended(browser: Client, team: Team) -> None:
    text = "trib_" + shown_in(make(browser, team))
    token = AccessToken.objects.get()

    browser.post(reverse("token_revoke", args=[token.public_id]))
    browser.post(reverse("token_revoke", args=[token.public_id]))

    assert tokens.find_token(text) is None
    assert "Ended (1)" in browser.get(reverse("tokens")).content.decode()
    assert AuditEvent.objects.filter(verb="token.revoked").count() == 1


def test_another_s_token_is_not_there(browser: Client, bob: User, team: Team) -> None:
    token, text = tokens.create_token(bob, team, name="bob's", days=1)

    answer = browser.post(reverse("token_revoke", args=[token.public_id]))

    assert answer.status_code == 404
    assert tokens.find_token(text) is not None
    assert "bob&#x27;s" not in browser.get(reverse("tokens")).content.decode()


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"name": ""}, 422),
        ({"name": "x" * 81}, 422),
        ({"name": "a\u202eb"}, 422),
        ({"lifetime": "1000000"}, 422),
        ({"team": "0" * 32}, 422),
    ],
)
def test_what_makes_no_token_is_said_beside_its_field(
    browser: Client, team: Team, fields: dict[str, str], status: int
) -> None:
    said = {"name": "nightly", "team": team.public_id.hex, "lifetime": "30", **fields}

    answer = browser.post(reverse("tokens"), said)

    assert answer.status_code == status
    assert "field-error" in answer.content.decode()
    assert not AccessToken.objects.exists()


def test_a_hostile_name_is_text(browser: Client, team: Team) -> None:
    make(browser, team, name="<script>alert(1)</script>")

    assert "<script>alert" not in browser.get(reverse("tokens")).content.decode()


def test_one_that_does_not_work_any_more_says_why(browser: Client, alice: User, team: Team) -> None:
    text = "trib_" + shown_in(make(browser, team))
    Membership.objects.filter(user=alice).update(role=TeamRole.VIEWER)

    assert tokens.find_token(text) is None
    assert "You may not write in River" in browser.get(reverse("tokens")).content.decode()


def test_a_password_does_not_matter_to_a_token(browser: Client, alice: User, team: Team) -> None:
    text = "trib_" + shown_in(make(browser, team))

    alice.set_password("another one for Alice")
    alice.save()

    assert tokens.find_token(text) is not None


def test_use_is_noted_to_the_minute(alice: User, team: Team) -> None:
    _, text = tokens.create_token(alice, team, name="x", days=None)

    tokens.find_token(text)
    first = AccessToken.objects.get().last_used_at
    tokens.find_token(text)

    assert first is not None
    assert first <= timezone.now()
    assert AccessToken.objects.get().last_used_at == first


def test_nobody_keeps_more_than_they_can_look_through(
    alice: User, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MOST_TOKENS", 1)
    tokens.create_token(alice, team, name="one", days=1)

    with pytest.raises(ActionRefused, match="Revoke one"):
        tokens.create_token(alice, team, name="two", days=1)


def test_one_that_has_expired_takes_no_place(
    alice: User, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MOST_TOKENS", 1)
    tokens.create_token(alice, team, name="one", days=1)
    AccessToken.objects.update(expires_at=timezone.now())

    tokens.create_token(alice, team, name="two", days=1)

    assert AccessToken.objects.usable().get().name == "two"


@pytest.mark.parametrize("text", ["", "trib_", "x" * 100_000, "trib_\ud800", "Bearer trib_x"])
def test_nothing_else_is_a_token(alice: User, team: Team, text: str) -> None:
    tokens.create_token(alice, team, name="one", days=1)

    assert tokens.find_token(text) is None


def test_the_log_writes_no_token(alice: User, team: Team) -> None:
    _, text = tokens.create_token(alice, team, name="one", days=1)

    assert text not in without_secrets(f"refused path=/?a={text} header={text}")
