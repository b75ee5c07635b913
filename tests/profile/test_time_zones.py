"""A person's time zone: that of the browser, or one that they chose."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from django.test import Client
from django.urls import reverse

from chat.accounts.actions.tokens import create_token
from chat.core.time_zones import zone_named, zone_names
from chat.models import AccessToken, Team, User

SignIn = Callable[[User], Client]


def test_chosen_zone_is_used_in_every_browser(signed_in: SignIn, alice: User, team: Team) -> None:
    client = signed_in(alice)
    token, _ = create_token(alice, team, name="nightly", days=7)
    used_at = datetime(2026, 1, 15, 23, 30, tzinfo=UTC)
    AccessToken.objects.filter(pk=token.pk).update(last_used_at=used_at)

    client.post(reverse("time_zone"), {"time_zone": "Asia/Tokyo"})
    client.cookies["timezone"] = "America/New_York"
    page = client.get(reverse("tokens")).content.decode()

    assert 'data-time-zone="Asia/Tokyo"' in page
    assert "Jan. 16, 8:30 a.m." in page or "Jan 16, 8:30 AM" in page


def test_without_a_choice_it_is_that_of_the_browser(signed_in: SignIn, alice: User) -> None:
    page = signed_in(alice).get(reverse("settings")).content.decode()

    assert "data-time-zone" not in page


def test_unknown_zone_is_refused(signed_in: SignIn, alice: User) -> None:
    answer = signed_in(alice).post(reverse("time_zone"), {"time_zone": "../../etc/passwd"})

    assert answer.status_code == 422
    alice.refresh_from_db()
    assert alice.time_zone == ""


def test_zones_to_choose_from_are_known() -> None:
    assert len(zone_names()) > 300
    assert all(zone_named(name) for name in zone_names())
    assert "Europe/Berlin" in zone_names()
