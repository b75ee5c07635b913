"""Settings that a process refuses to start with, in one line that says what to change."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError

from project import env, startup
from tests.support.processes.site import ROOT


def test_site_address_must_be_an_allowed_host(settings: Any) -> None:
    settings.SITE_URL = "https://tributary.example.org"
    settings.ALLOWED_HOSTS = ["localhost"]

    with pytest.raises(CommandError, match=r"doesn’t include tributary\.example\.org"):
        startup.refuse_wrong_address()


@pytest.mark.parametrize("allowed", ["tributary.example.org", ".example.org", "*"])
def test_site_address_on_an_allowed_host_may_start(allowed: str, settings: Any) -> None:
    settings.SITE_URL = "https://tributary.example.org"
    settings.ALLOWED_HOSTS = [allowed]

    startup.refuse_wrong_address()


def test_malformed_networks_are_refused(settings: Any) -> None:
    settings.UPSTREAM_PRIVATE_NETWORKS = "10.0.0.0/8"

    with pytest.raises(CommandError, match=r"UPSTREAM_PRIVATE_NETWORKS: .*write it like"):
        startup.refuse_wrong_networks()


@pytest.mark.django_db(transaction=True)
def test_second_process_with_other_keys_is_refused(settings: Any) -> None:
    startup.refuse_other_keys()
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]

    with pytest.raises(CommandError, match="same ENCRYPTION_KEYS"):
        startup.refuse_other_keys()


def test_malformed_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAIN_SECONDS", "soon")

    with pytest.raises(ImproperlyConfigured, match="DRAIN_SECONDS must be a number"):
        env.number("DRAIN_SECONDS", 1)


@pytest.mark.parametrize("value", ["inf", "nan", "-1"])
def test_impossible_number_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_BODY_BYTES", value)

    with pytest.raises(ImproperlyConfigured, match="MAX_BODY_BYTES must be a number of at least 0"):
        env.number("MAX_BODY_BYTES", 1)


# (setting, value, what is said of it)
WRONG_SETTINGS = [
    ("METRICS_NETWORKS", "10.0.0.0/8,web", "'web' does not appear"),
    ("DATABASE_URL", "mysql://u:canary@h/n", "must start with sqlite:// or postgres://"),
    ("REDIS_URL", "http://u:canary@h", "must start with redis://"),
    ("LOG_LEVEL", "loud", "must be one of DEBUG"),
    ("LOG_FORMAT", "xml", "must be one of line, json"),
    ("TIME_ZONE", "Nowhere/At/All", "unknown time zone"),
    ("ENCRYPTION_KEYS", "canary", "key 1 is not a Fernet key"),
    ("PORT", "70000", "must be a port from 0 to 65535"),
    ("DATA_DIR", "/dev/null", "DATA_DIR=/dev/null is not usable by user "),
    ("DATA_DIR", "/proc/tributary", "No such file or directory. Choose a directory that this user"),
    ("FILES_DIR", "/nowhere/at/all", "it is missing or not writable. Create or mount a directory"),
    ("FILES_OPTIONS", '{"secret_key": "canary"', "must be a JSON object"),
    ("NEW_FILES_IN", "storage", "must be one of database, not 'storage'"),
    ("LEASE_SECONDS", "0", "must be a number from 2 to 86400, not '0'"),
    ("INVITATION_DAYS", "1e9", "must be a number from 0.01 to 36500, not '1e9'"),
    ("MAX_CONCURRENT_REQUESTS", "0", "must be a number of at least 1, not '0'"),
    ("DATABASE_POOL", "1", "must be a number of at least 2, not '1'"),
    ("BEHIND_TLS_PROXY", "ture", "must be 1 or 0, not 'ture'"),
    (
        "SITE_URL",
        "nonsense",
        "such as https://tributary.example.org, without a path, not 'nonsense'",
    ),
    ("SITE_URL", "ftp://a.example", "not 'ftp://a.example'"),
    ("SITE_URL", "https://", "not 'https://'"),
    ("SITE_URL", "https://a.example/chat", "not 'https://a.example/chat'"),
    ("SITE_URL", "http://[x", "not 'http://[x'"),
    ("SITE_URL", "http://a.example:99999", "not 'http://a.example:99999'"),
    ("CSRF_TRUSTED_ORIGINS", "a.example", "not 'a.example'"),
    ("UPSTREAM_PROXY", "https://u:canary@proxy", "must look like http://proxy.example.org:3128"),
    ("UPSTREAM_PROXY", "http://u:canary@proxy/path", "must look like http://proxy.example"),
]


def test_wrong_setting_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    for name, value, words in WRONG_SETTINGS:
        with subtests.test(msg=f"{name}={value}"), monkeypatch.context() as environment:
            environment.setenv(name, value)

            with pytest.raises(ImproperlyConfigured) as refused:
                runpy.run_path(str(ROOT / "project" / "settings.py"))

            assert name in str(refused.value)
            assert words in str(refused.value)
            assert "canary" not in str(refused.value)


@pytest.mark.parametrize("name", ["secret-key", "tributary.sqlite3"])
def test_data_of_another_account_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / name).touch()
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    # The tests may run as root, to whom nothing is closed.
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path / name or mode == os.F_OK)

    with pytest.raises(
        ImproperlyConfigured,
        match=rf"DATA_DIR=\S+ is not usable .* its file {name} is not accessible\.",
    ):
        runpy.run_path(str(ROOT / "project" / "settings.py"))


def test_missing_secret_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY_FILE", "/nowhere/secret")

    with pytest.raises(ImproperlyConfigured, match="SECRET_KEY_FILE: /nowhere/secret"):
        env.text("SECRET_KEY")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://a.example:8443", "a.example"),
        ("http://[::1]:8000", "[::1]"),
        ("nothing", ""),
        ("http://[x", ""),
    ],
)
def test_host_is_taken_from_the_site_address(url: str, host: str) -> None:
    assert env.host_of(url) == host


def test_wrong_setting_is_one_line_and_a_final_exit_code(
    tmp_path: Path,
) -> None:
    refused = subprocess.run(
        [sys.executable, "manage.py", "serve"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path), "PORT": "none"},
        stderr=subprocess.PIPE,
        text=True,
    )

    assert refused.returncode == startup.REFUSED
    assert refused.stderr == "Error: PORT must be a number, not 'none'\n"


def test_renamed_setting_is_read_and_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PAGES_AT_ONCE", "7")

    assert env.number("MAX_CONCURRENT_REQUESTS", 4) == 7
    startup.warn_of_renamed_settings()

    assert "old=PAGES_AT_ONCE new=MAX_CONCURRENT_REQUESTS" in caplog.text


def test_new_name_of_a_setting_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGES_AT_ONCE", "7")
    monkeypatch.setenv("MAX_CONCURRENT_REQUESTS", "3")

    assert env.number("MAX_CONCURRENT_REQUESTS", 4) == 3
