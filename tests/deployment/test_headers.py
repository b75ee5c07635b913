from __future__ import annotations

import pytest
from django.test import Client


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/accounts/login/", "/", "/nothing-here/", "/static/js/live.js"])
def test_no_page_may_ask_for_a_camera_or_a_place(client: Client, path: str) -> None:
    response = client.get(path)
    response.close()
    policy = response.headers["Permissions-Policy"]

    assert "camera=()" in policy
    assert "geolocation=()" in policy
