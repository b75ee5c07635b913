"""The limits on guessing passwords, as they are configured."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from allauth.core.internal import ratelimit
from django.conf import settings as project_settings
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chat.models import User
from tests.conftest import PASSWORD


@pytest.fixture(autouse=True)
def _configured_limits(
    settings: object, _no_rate_limits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del settings.ACCOUNT_RATE_LIMITS
    cache.clear()
    # All attempts are made in the same second, however busy the machine is.
    now = time.time()
    clock = SimpleNamespace(time=lambda: now, monotonic=time.monotonic, sleep=time.sleep)
    monkeypatch.setattr(ratelimit, "time", clock)


def guess(email: str, *, password: str = "wrong", **meta: str) -> HttpResponse:
    fields = {"login": email, "password": password}
    return Client().post(reverse("account_login"), fields, **meta)


def test_one_account_is_limited_across_addresses(bob: User) -> None:
    for number in range(12):
        guess(bob.email, REMOTE_ADDR=f"192.0.2.{number}")

    answer = guess(bob.email, password=PASSWORD, REMOTE_ADDR="192.0.2.99")

    assert "sessionid" not in answer.cookies


def test_forwarded_header_does_not_evade_the_limit(bob: User) -> None:
    for number in range(30):
        guess(f"p{number}@example.org", HTTP_X_FORWARDED_FOR=f"192.0.2.{number}")

    answer = guess(bob.email, password=PASSWORD, HTTP_X_FORWARDED_FOR="192.0.2.99")

    assert "sessionid" not in answer.cookies


def test_clients_of_a_trusted_proxy_have_separate_limits(bob: User, settings: object) -> None:
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    for number in range(30):
        guess(f"p{number}@example.org", HTTP_X_FORWARDED_FOR=f"10.0.0.{number}, 192.0.2.1")

    limited = guess(bob.email, password=PASSWORD, HTTP_X_FORWARDED_FOR="10.0.0.99, 192.0.2.1")
    other = guess(bob.email, password=PASSWORD, HTTP_X_FORWARDED_FOR="192.0.2.2")

    assert limited.status_code != 302
    assert other.status_code == 302


def test_counts_survive_many_other_entries() -> None:
    cache.set("the-first", 1, 300)
    for number in range(2000):
        cache.set(f"another-{number}", 1, 300)

    assert cache.get("the-first") == 1
    assert project_settings.CACHES["default"]["OPTIONS"]["MAX_ENTRIES"] > 2000
