"""Processes that were given different keys notice it before they seal or sign anything."""

from __future__ import annotations

import io
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command

from chat.actions.keys import WrongKeys, accept_keys, adopt_keys, key_state, rotate_keys
from chat.models import KeyKind, KeyMark, Upstream
from chat.vault import VaultLocked

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


def test_the_same_keys_are_taken_again_and_again(settings: Any) -> None:
    adopt_keys()

    assert KeyMark.objects.count() == 2


def test_another_encryption_key_is_refused(settings: Any) -> None:
    settings.ENCRYPTION_KEYS = [FOREIGN]

    with pytest.raises(WrongKeys, match="same ENCRYPTION_KEYS"):
        adopt_keys()


def test_another_signing_key_is_refused(settings: Any) -> None:
    settings.SECRET_KEY = "second signing key"

    with pytest.raises(WrongKeys, match="another SECRET_KEY"):
        adopt_keys()


def test_a_new_signing_key_beside_the_old_one_is_taken_and_then_alone(
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


def test_a_process_without_the_newest_key_is_refused(settings: Any) -> None:
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    adopt_keys()

    settings.ENCRYPTION_KEYS = [OLD]

    with pytest.raises(WrongKeys):
        adopt_keys()


def test_after_a_rotation_the_newest_key_is_enough(settings: Any, upstream: Upstream) -> None:
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


def test_the_old_key_is_not_forgotten_while_something_cannot_be_read(
    settings: Any, upstream: Upstream
) -> None:
    Upstream.objects.filter(pk=upstream.pk).update(sealed_options="damaged")
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    adopt_keys()

    state = rotate_keys()

    assert (state.readable, state.unreadable) == (1, 1)
    assert KeyMark.objects.filter(kind=KeyKind.ENCRYPTION).count() == 2


def test_a_credential_that_changes_during_a_rotation_is_kept(
    settings: Any, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chat import vault

    settings.ENCRYPTION_KEYS = [NEW, OLD]
    reseal = vault.reseal

    def change_meanwhile(sealed: str) -> str:
        other = Upstream.objects.get()
        other.set_key("entered meanwhile")
        Upstream.objects.filter(pk=other.pk).update(sealed_key=other.sealed_key)
        return reseal(sealed)

    monkeypatch.setattr(vault, "reseal", change_meanwhile)
    rotate_keys()

    upstream.refresh_from_db()
    assert upstream.open_key() == "entered meanwhile"


def test_lost_keys_are_given_up_only_when_somebody_says_so(
    settings: Any, upstream: Upstream
) -> None:
    settings.ENCRYPTION_KEYS, settings.SECRET_KEY = [FOREIGN], "third"

    with pytest.raises(CommandError, match="same ENCRYPTION_KEYS"):
        call_command("keys", stdout=io.StringIO())
    state = accept_keys()
    adopt_keys()

    assert state.unreadable == 2
    upstream.refresh_from_db()
    with pytest.raises(VaultLocked):
        upstream.open_key()


def test_the_command_tells_how_it_stands_and_never_a_key(settings: Any) -> None:
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    said = io.StringIO()

    call_command("keys", "rotate", stdout=said)

    assert "2 readable, 0 of them sealed with an older key, 0 unreadable" in said.getvalue()
    assert NEW not in said.getvalue()
    assert SECRET not in "".join(KeyMark.objects.values_list("mark", flat=True))
