"""Settings that follow from others."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The settings as an environment makes them."""

    def read_settings(**environment: str) -> dict[str, Any]:
        monkeypatch.setenv("DATA_DIR", str(tmp_path))
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return runpy.run_path(str(Path(settings.BASE_DIR) / "project" / "settings.py"))

    return read_settings


def test_cookies_of_a_tls_site_are_bound_to_its_host(read: Any) -> None:
    found = read(SITE_URL="https://river.example")

    assert found["SESSION_COOKIE_NAME"].startswith("__Host-")
    assert found["CSRF_COOKIE_NAME"].startswith("__Host-")
    assert found["SESSION_COOKIE_SECURE"]
    assert found["CSRF_COOKIE_SECURE"]
    assert found["SECURE_HSTS_SECONDS"] > 0


def test_cookies_of_a_plain_site_keep_their_names(read: Any) -> None:
    found = read(SITE_URL="http://localhost:8000")

    assert "SESSION_COOKIE_NAME" not in found
    assert "CSRF_COOKIE_NAME" not in found
    assert found["SECURE_HSTS_SECONDS"] == 0


def test_trusted_proxies_must_be_counted(read: Any) -> None:
    assert read()["ALLAUTH_TRUSTED_PROXY_COUNT"] == 0
    assert read(TRUSTED_PROXY_COUNT="2")["ALLAUTH_TRUSTED_PROXY_COUNT"] == 2


def test_own_ports_include_default_ports(read: Any) -> None:
    ports = read(
        DATABASE_URL="postgres://u:p@127.0.0.1/n", REDIS_URL="redis://127.0.0.1", RUNNER_PORT="9100"
    )["OWN_PORTS"]

    assert set(ports) == {8000, 9100, 5432, 6379}


def test_log_knows_all_secrets_of_the_settings(read: Any) -> None:
    known = read(
        SECRET_KEY_FALLBACKS="canary-old-key",
        UPSTREAM_PROXY="http://u:canary-proxy@proxy:3128",
        TOOL_COMMANDS='{"files": {"command": "npx", "env": {"KEY": "canary-command"}}}',
    )["LOGGING"]["formatters"]["line"]["secrets"]

    assert {"canary-old-key", "canary-proxy", "canary-command"} <= set(known)
