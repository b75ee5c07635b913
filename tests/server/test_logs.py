"""Log lines never hold the secret of an invitation or another private address."""

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
    """Gives what the configured handler writes."""
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    described = settings.LOGGING["formatters"]["line"]
    handler.setFormatter(logging.config.DictConfigurator({}).configure_formatter(dict(described)))
    root = logging.getLogger()
    root.addHandler(handler)
    yield lines
    root.removeHandler(handler)


WITH_SECRET = [
    f"Unprocessable Entity: /invite/{TOKEN}/",
    f"Not Found: /setup/{TOKEN}/",
    f"Not Found: /preview/{TOKEN}:1xVFuy:L7Iw-_{TOKEN}/css/a.css",
    f"Forbidden (CSRF cookie not set.): /accounts/password/reset/key/1-{TOKEN}/",
    f"Bad Request: /accounts/login/?next=%2Finvite%2F{TOKEN}%2F",
    f"referer=http://localhost/INVITE/{TOKEN}",
]
WITHOUT_SECRET = [
    "Not Found: /people/teams/5/invite/",
    "Not Found: /accounts/password/reset/key/done/",
    "Not Found: /c/0190/",
    "Not Found: /preview/",
]


def test_secret_of_an_address_is_hidden(subtests: pytest.Subtests) -> None:
    for text in WITH_SECRET:
        with subtests.test(msg=text):
            assert TOKEN not in without_secrets(text)
            assert "[secret]" in without_secrets(text)


def test_other_addresses_are_unchanged(subtests: pytest.Subtests) -> None:
    for text in WITHOUT_SECRET:
        with subtests.test(msg=text):
            assert without_secrets(text) == text


@pytest.mark.parametrize("path", [f"/invite/{TOKEN}/", f"/setup/{TOKEN}/"])
@pytest.mark.django_db
def test_refused_request_is_logged_without_its_secret(written: io.StringIO, path: str) -> None:
    Client(enforce_csrf_checks=True).post(path)

    assert "Forbidden" in written.getvalue()
    assert TOKEN not in written.getvalue()


def test_secret_in_a_traceback_is_hidden(written: io.StringIO) -> None:
    try:
        raise ValueError(f"/invite/{TOKEN}/")
    except ValueError:
        logging.getLogger("django.request").exception("broken")

    assert "ValueError" in written.getvalue()
    assert TOKEN not in written.getvalue()
