"""Headers of every answer."""

from __future__ import annotations

import pytest
from django.test import Client


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["/accounts/login/", "/", "/nothing-here/", "/static/live/frames.js"]
)
def test_pages_may_not_use_camera_or_location(client: Client, path: str) -> None:
    response = client.get(path)
    response.close()
    policy = response.headers["Permissions-Policy"]

    assert "camera=()" in policy
    assert "geolocation=()" in policy
