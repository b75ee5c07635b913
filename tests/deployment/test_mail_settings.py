"""The settings of mail: what is the default of what, and what a process refuses to start with."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import trustme
from django.core.exceptions import ImproperlyConfigured

from tests.support.processes.site import ROOT

HOST = {"EMAIL_HOST": "mail.example.org"}
SIGN_IN = HOST | {"EMAIL_HOST_USER": "tributary", "EMAIL_HOST_PASSWORD": "canary"}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setenv("SITE_URL", "https://chat.example.org:8443")
    return monkeypatch


def settings_with(environment: pytest.MonkeyPatch, values: dict[str, str]) -> dict[str, Any]:
    with environment.context() as context:
        for name, value in values.items():
            context.setenv(name, value)
        return runpy.run_path(str(ROOT / "project" / "settings.py"))


# What is set, and then port, SSL and STARTTLS.
DEFAULTS: list[tuple[dict[str, str], tuple[int, bool, bool]]] = [
    (HOST, (25, False, False)),
    (SIGN_IN, (587, False, True)),
    (SIGN_IN | {"EMAIL_USE_TLS": "0"}, (25, False, False)),
    (SIGN_IN | {"EMAIL_USE_SSL": "1"}, (465, True, False)),
    (SIGN_IN | {"EMAIL_PORT": "2525"}, (2525, False, True)),
    (SIGN_IN | {"EMAIL_PORT": "465"}, (465, True, False)),
    (HOST | {"EMAIL_PORT": "465"}, (465, True, False)),
    (HOST | {"EMAIL_PORT": "587"}, (587, False, True)),
    (HOST | {"EMAIL_PORT": "587", "EMAIL_USE_SSL": "1"}, (587, True, False)),
    (HOST | {"EMAIL_USE_TLS": "1"}, (587, False, True)),
    # As compose.yaml passes on what is not set.
    (HOST | {"EMAIL_PORT": "", "EMAIL_USE_TLS": "", "EMAIL_HOST_USER": ""}, (25, False, False)),
]


def test_port_and_encryption_follow_from_each_other(
    environment: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for values, expected in DEFAULTS:
        with subtests.test(msg=str(values)):
            found = settings_with(environment, values)

            names = ("EMAIL_PORT", "EMAIL_USE_SSL", "EMAIL_USE_TLS")
            assert tuple(found[name] for name in names) == expected


SENDERS = [
    (HOST, "Tributary <noreply@chat.example.org>"),
    (SIGN_IN, "Tributary <noreply@chat.example.org>"),
    (SIGN_IN | {"EMAIL_HOST_USER": "bot@example.org"}, "Tributary <bot@example.org>"),
    (HOST | {"DEFAULT_FROM_EMAIL": "help@example.org"}, "help@example.org"),
    (HOST | {"DEFAULT_FROM_EMAIL": "Zoë <z@example.org>"}, "Zoë <z@example.org>"),
]


def test_sender_is_an_address_of_this_site(
    environment: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for values, expected in SENDERS:
        with subtests.test(msg=str(values)):
            found = settings_with(environment, values)

            assert (found["DEFAULT_FROM_EMAIL"], found["SERVER_EMAIL"]) == (expected, expected)


def test_every_setting_of_mail_can_come_from_a_file(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected: dict[str, object] = {
        "EMAIL_HOST": "mail.example.org",
        "EMAIL_PORT": 2525,
        "EMAIL_HOST_USER": "bot",
        "EMAIL_HOST_PASSWORD": "canary",
        "EMAIL_USE_TLS": False,
        "EMAIL_USE_SSL": True,
        "EMAIL_TIMEOUT": 3.0,
        "EMAIL_USE_LOCALTIME": True,
        "EMAIL_SUBJECT_PREFIX": "[Chat]",
        "DEFAULT_FROM_EMAIL": "bot@example.org",
        "SERVER_EMAIL": "errors@example.org",
    }
    values = {}
    for name, value in expected.items():
        (tmp_path / name).write_text(f"{int(value) if isinstance(value, bool) else value}\n")
        values[f"{name}_FILE"] = str(tmp_path / name)

    found = settings_with(environment, values)

    assert {name: found[name] for name in expected} == expected
    assert "canary" in found["_DISCREET"]["secrets"]


# What is set, and what is said of it.
CONTRADICTIONS: list[tuple[dict[str, str], str]] = [
    ({"EMAIL_HOST_PASSWORD": "canary"}, "EMAIL_HOST_PASSWORD needs EMAIL_HOST"),
    ({"EMAIL_HOST_USER": "bot"}, "EMAIL_HOST_USER needs EMAIL_HOST"),
    (HOST | {"EMAIL_HOST_PASSWORD": "canary"}, "EMAIL_HOST_PASSWORD needs EMAIL_HOST_USER"),
    (HOST | {"EMAIL_HOST_USER": "bot"}, "EMAIL_HOST_USER needs EMAIL_HOST_PASSWORD"),
    (SIGN_IN | {"EMAIL_HOST_PASSWORD": "canaryß"}, "may only have ASCII characters"),
    (SIGN_IN | {"EMAIL_USE_TLS": "1", "EMAIL_USE_SSL": "1"}, "exclude each other"),
    (SIGN_IN | {"EMAIL_USE_TLS": "1", "EMAIL_PORT": "465"}, "default for port 465"),
    (HOST | {"EMAIL_PORT": "70000"}, "EMAIL_PORT must be a port from 0 to 65535"),
    (HOST | {"EMAIL_TIMEOUT": "0"}, "EMAIL_TIMEOUT must be a number from 0.1 to 600"),
    ({"EMAIL_HOST": "mail.example.org:587"}, "The port goes into EMAIL_PORT"),
    ({"EMAIL_HOST": "smtp://mail.example.org"}, "EMAIL_HOST must be a host name"),
    (HOST | {"DEFAULT_FROM_EMAIL": "Tributary"}, "DEFAULT_FROM_EMAIL must be an address"),
    (HOST | {"SERVER_EMAIL": "A, B <c@example.org>"}, "SERVER_EMAIL must be an address"),
    (HOST | {"DEFAULT_FROM_EMAIL": "A\n <c@example.org>"}, "must be an address"),
    (HOST | {"EMAIL_SSL_KEYFILE": "/k"}, "EMAIL_SSL_KEYFILE needs EMAIL_SSL_CERTFILE"),
    (HOST | {"EMAIL_SSL_CERTFILE": "/c"}, "needs EMAIL_USE_TLS or EMAIL_USE_SSL"),
    (SIGN_IN | {"EMAIL_SSL_CERTFILE": "/c"}, "EMAIL_SSL_CERTFILE: No such file"),
]


def test_contradiction_is_named(environment: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    for values, words in CONTRADICTIONS:
        with subtests.test(msg=str(values)):
            with pytest.raises(ImproperlyConfigured) as refused:
                settings_with(environment, values)

            assert words in str(refused.value)
            assert "canary" not in str(refused.value)


def test_key_of_another_certificate_is_refused(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = trustme.CA()
    certificate, other = (authority.issue_cert(name) for name in ("a.example", "b.example"))
    for place, blob in (
        ("certificate", certificate.cert_chain_pems[0]),
        ("key", certificate.private_key_pem),
        ("other-key", other.private_key_pem),
    ):
        blob.write_to_path(tmp_path / place)
    values = SIGN_IN | {
        "EMAIL_SSL_CERTFILE": str(tmp_path / "certificate"),
        "EMAIL_SSL_KEYFILE": str(tmp_path / "key"),
    }

    assert settings_with(environment, values)["EMAIL_SSL_KEYFILE"] == str(tmp_path / "key")
    with pytest.raises(ImproperlyConfigured, match="EMAIL_SSL_CERTFILE and EMAIL_SSL_KEYFILE: "):
        settings_with(environment, values | {"EMAIL_SSL_KEYFILE": str(tmp_path / "other-key")})
