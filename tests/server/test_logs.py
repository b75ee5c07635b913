from __future__ import annotations

import io
import logging
import logging.config
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.test import Client

from project.logs import without_secrets

TOKEN = "p8q2PTTZYS4g_N0eOUIeFSx06w9gqplzl69TYs4Z8N8"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the configured handler writes."""
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    described = settings.LOGGING["formatters"]["line"]
    handler.setFormatter(logging.config.DictConfigurator({}).configure_formatter(dict(described)))
    root = logging.getLogger()
    root.addHandler(handler)
    yield lines
    root.removeHandler(handler)


@pytest.mark.parametrize(
    "text",
    [
        f"Unprocessable Entity: /invite/{TOKEN}/",
        f"Not Found: /setup/{TOKEN}/",
        f"Not Found: /preview/{TOKEN}:1xVFuy:L7Iw-_{TOKEN}/css/a.css",
        f"Forbidden (CSRF cookie not set.): /accounts/password/reset/key/1-{TOKEN}/",
        f"Bad Request: /accounts/login/?next=%2Finvite%2F{TOKEN}%2F",
        f"referer=http://localhost/INVITE/{TOKEN}",
    ],
)
def test_an_address_that_lets_somebody_in_loses_its_secret(text: str) -> None:
    assert TOKEN not in without_secrets(text)
    assert "[secret]" in without_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "Not Found: /people/teams/5/invite/",
        "Not Found: /accounts/password/reset/key/done/",
        "Not Found: /c/0190/",
        "Not Found: /preview/",
    ],
)
def test_other_addresses_stay_as_they_are(text: str) -> None:
    assert without_secrets(text) == text


@pytest.mark.parametrize("path", [f"/invite/{TOKEN}/", f"/setup/{TOKEN}/"])
@pytest.mark.django_db
def test_a_refused_request_is_logged_without_its_secret(written: io.StringIO, path: str) -> None:
    Client(enforce_csrf_checks=True).post(path)

    assert "Forbidden" in written.getvalue()
    assert TOKEN not in written.getvalue()


def test_a_secret_in_the_middle_of_a_traceback_is_hidden_too(written: io.StringIO) -> None:
    try:
        raise ValueError(f"/invite/{TOKEN}/")
    except ValueError:
        logging.getLogger("django.request").exception("broken")

    assert "ValueError" in written.getvalue()
    assert TOKEN not in written.getvalue()
