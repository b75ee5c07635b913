"""Pages are written in the time zone of the person who reads them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat.accounts.actions.tokens import create_token
from chat.models import AccessToken, Team, User
from chat.web.time_zone import COOKIE


@pytest.mark.parametrize(
    ("zone", "written"),
    [
        ("Asia/Tokyo", "2025-06-02T08:30:00+09:00"),
        ("America/New_York", "2025-06-01T19:30:00-04:00"),
        ("", "2025-06-01T23:30:00+00:00"),
        ("Nowhere/At/All", "2025-06-01T23:30:00+00:00"),
        ("../../etc/passwd", "2025-06-01T23:30:00+00:00"),
    ],
)
def test_times_are_in_the_zone_of_the_browser(
    as_alice: Client, alice: User, team: Team, zone: str, written: str
) -> None:
    create_token(alice, team, name="Nightly", days=90)
    AccessToken.objects.update(last_used_at=datetime(2025, 6, 1, 23, 30, tzinfo=UTC))
    as_alice.cookies[COOKIE] = zone

    page = as_alice.get(reverse("tokens")).content.decode()

    assert written in re.findall(r'datetime="([^"]+)"', page)
    assert timezone.get_current_timezone_name() == settings.TIME_ZONE
