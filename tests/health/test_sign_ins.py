"""Attempts to sign in are counted and, where they fail, logged without the account's name."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from chat.models import User
from tests.conftest import PASSWORD
from tests.health.helpers import Change


def sign_in(email: str, password: str) -> None:
    cache.clear()
    Client().post(reverse("account_login"), {"login": email, "password": password})


@pytest.mark.parametrize("name", ["bob", "nobody"])
def test_refused_attempt_is_counted_and_logged_by_address(
    bob: User, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.INFO)
    change = Change()

    sign_in(f"{name}@example.org", "wrong-canary")

    assert change.of("tributary_sign_ins_total", result="refused") == 1
    logged = [one.getMessage() for one in caplog.records if one.name == "chat.accounts.adapter"]
    assert logged == ["sign_in.failed result=refused address=127.0.0.1"]
    assert "canary" not in caplog.text


def test_accepted_attempt_is_counted(bob: User) -> None:
    change = Change()

    sign_in(bob.email, PASSWORD)

    assert change.of("tributary_sign_ins_total", result="accepted") == 1
    assert change.of("tributary_sign_ins_total", result="refused") == 0


def test_limited_attempt_is_counted(bob: User, settings: Any) -> None:
    del settings.ACCOUNT_RATE_LIMITS
    cache.clear()
    change = Change()

    for _ in range(12):
        Client().post(reverse("account_login"), {"login": bob.email, "password": "wrong"})
    cache.clear()

    assert change.of("tributary_sign_ins_total", result="limited") >= 1
