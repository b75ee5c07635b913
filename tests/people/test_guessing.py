"""Limits on guessing passwords, as they are set."""

from __future__ import annotations

import pytest
from django.conf import settings as project_settings
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chat.models import User
from tests.conftest import PASSWORD


@pytest.fixture(autouse=True)
def _the_limits_as_they_are_set(settings: object, _no_rate_limits: None) -> None:
    del settings.ACCOUNT_RATE_LIMITS
    cache.clear()


def guess(email: str, *, password: str = "wrong", **meta: str) -> HttpResponse:
    fields = {"login": email, "password": password}
    return Client().post(reverse("account_login"), fields, **meta)


def test_one_account_is_not_guessed_from_many_addresses(bob: User) -> None:
    for number in range(12):
        guess(bob.email, REMOTE_ADDR=f"192.0.2.{number}")

    answer = guess(bob.email, password=PASSWORD, REMOTE_ADDR="192.0.2.99")

    assert "sessionid" not in answer.cookies


def test_a_header_that_anybody_can_write_does_not_make_another_address(bob: User) -> None:
    for number in range(30):
        guess(f"p{number}@example.org", HTTP_X_FORWARDED_FOR=f"192.0.2.{number}")

    answer = guess(bob.email, password=PASSWORD, HTTP_X_FORWARDED_FOR="192.0.2.99")

    assert "sessionid" not in answer.cookies


def test_behind_a_proxy_that_is_counted_people_do_not_share_one_limit(
    bob: User, settings: object
) -> None:
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    for number in range(30):
        guess(f"p{number}@example.org", HTTP_X_FORWARDED_FOR=f"10.0.0.{number}, 192.0.2.1")

    there = guess(bob.email, password=PASSWORD, HTTP_X_FORWARDED_FOR="10.0.0.99, 192.0.2.1")
    elsewhere = guess(bob.email, password=PASSWORD, HTTP_X_FORWARDED_FOR="192.0.2.2")

    assert there.status_code != 302
    assert elsewhere.status_code == 302


def test_counts_outlast_many_other_ones() -> None:
    cache.set("the-first", 1, 300)
    for number in range(2000):
        cache.set(f"another-{number}", 1, 300)

    assert cache.get("the-first") == 1
    assert project_settings.CACHES["default"]["OPTIONS"]["MAX_ENTRIES"] > 2000
