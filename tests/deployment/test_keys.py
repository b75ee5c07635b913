"""Processes with different keys notice it before they encrypt or sign anything."""

from __future__ import annotations

import io
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.apps import apps
from django.core.management import CommandError, call_command

from chat.administration.keys import (
    SEALED_COLUMNS,
    WrongKeys,
    accept_keys,
    adopt_keys,
    key_state,
    rotate_keys,
)
from chat.core.encryption import DecryptionError
from chat.models import KeyKind, KeyMark, Team, ToolServer, Upstream

# The command closes its connection, as it would at its end.
pytestmark = pytest.mark.django_db(transaction=True)

OLD, NEW, FOREIGN = (Fernet.generate_key().decode() for _ in range(3))
SECRET = "sk-rotation-canary"


@pytest.fixture(autouse=True)
def _installed(settings: Any, upstream: Upstream) -> None:
    """An installation in use, with one stored credential."""
    settings.ENCRYPTION_KEYS = [OLD]
    settings.SECRET_KEY = "first signing key"
    upstream.set_key(SECRET)
    upstream.set_secret_options({"headers": "X-Pass: 1"})
    upstream.save()
    adopt_keys()


def test_same_keys_are_accepted_again(settings: Any) -> None:
    adopt_keys()

    assert KeyMark.objects.count() == 2


def test_another_encryption_key_is_refused(settings: Any) -> None:
    settings.ENCRYPTION_KEYS = [FOREIGN]

    with pytest.raises(WrongKeys, match="same ENCRYPTION_KEYS"):
        adopt_keys()


def test_another_signing_key_is_refused(settings: Any) -> None:
    settings.SECRET_KEY = "second signing key"

    with pytest.raises(WrongKeys, match="SECRET_KEY differs"):
        adopt_keys()


def test_signing_key_is_changed_with_the_old_one_as_fallback(
    settings: Any,
) -> None:
    settings.SECRET_KEY = "second signing key"
    settings.SECRET_KEY_FALLBACKS = ["first signing key"]
    adopt_keys()
    settings.SECRET_KEY_FALLBACKS = []

    adopt_keys()
    settings.SECRET_KEY = "first signing key"

    with pytest.raises(WrongKeys):
        adopt_keys()


def test_process_without_the_newest_key_is_refused(settings: Any) -> None:
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    adopt_keys()

    settings.ENCRYPTION_KEYS = [OLD]

    with pytest.raises(WrongKeys):
        adopt_keys()


def test_newest_key_is_enough_after_a_rotation(settings: Any, upstream: Upstream) -> None:
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    adopt_keys()
    assert key_state().outdated == 2

    state = rotate_keys()
    settings.ENCRYPTION_KEYS = [NEW]
    adopt_keys()

    upstream.refresh_from_db()
    assert (state.readable, state.outdated, state.unreadable) == (2, 0, 0)
    assert upstream.open_key() == SECRET
    assert upstream.open_secret_options() == {"headers": "X-Pass: 1"}


def test_every_sealed_column_is_rotated(settings: Any, team: Team) -> None:
    found = {
        (model, field.name)
        for model in apps.get_app_config("chat").get_models()
        for field in model._meta.get_fields()
        if field.name.startswith("sealed_")
    }
    listed = {(model, column) for model, columns in SEALED_COLUMNS.items() for column in columns}
    assert found == listed
    server = ToolServer(team=team, name="Harbor", address="https://a.test/mcp")
    server.set_headers({"X-Key": SECRET})
    server.save()

    settings.ENCRYPTION_KEYS = [NEW, OLD]
    adopt_keys()
    rotate_keys()
    settings.ENCRYPTION_KEYS = [NEW]

    server.refresh_from_db()
    assert server.open_headers() == {"X-Key": SECRET}


def test_old_key_is_kept_while_something_is_unreadable(settings: Any, upstream: Upstream) -> None:
    Upstream.objects.filter(pk=upstream.pk).update(sealed_options="damaged")
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    adopt_keys()

    state = rotate_keys()

    assert (state.readable, state.unreadable) == (1, 1)
    assert KeyMark.objects.filter(kind=KeyKind.ENCRYPTION).count() == 2


def test_credential_changed_during_a_rotation_is_kept(
    settings: Any, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chat.core import encryption

    settings.ENCRYPTION_KEYS = [NEW, OLD]
    reencrypt = encryption.reencrypt

    def change_meanwhile(sealed: str) -> str:
        other = Upstream.objects.get()
        other.set_key("entered meanwhile")
        Upstream.objects.filter(pk=other.pk).update(sealed_key=other.sealed_key)
        return reencrypt(sealed)

    monkeypatch.setattr(encryption, "reencrypt", change_meanwhile)
    rotate_keys()

    upstream.refresh_from_db()
    assert upstream.open_key() == "entered meanwhile"


def test_lost_keys_are_given_up_only_on_command(settings: Any, upstream: Upstream) -> None:
    settings.ENCRYPTION_KEYS, settings.SECRET_KEY = [FOREIGN], "third"

    with pytest.raises(CommandError, match="same ENCRYPTION_KEYS"):
        call_command("keys", stdout=io.StringIO())
    state = accept_keys()
    adopt_keys()

    assert state.unreadable == 2
    upstream.refresh_from_db()
    with pytest.raises(DecryptionError):
        upstream.open_key()


def test_command_reports_counts_and_no_keys(settings: Any) -> None:
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    output = io.StringIO()

    call_command("keys", "rotate", stdout=output)

    assert "2 readable (0 encrypted with an older key), 0 unreadable" in output.getvalue()
    assert NEW not in output.getvalue()
    assert SECRET not in "".join(KeyMark.objects.values_list("mark", flat=True))
