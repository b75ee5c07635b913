"""Checks that all processes of an installation use the same keys.

A process with other keys could not decrypt what the others stored, nor accept their sessions. So
the database has a fingerprint of each key in use, and a process whose keys do not match is refused
before it serves.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Model, QuerySet
from django.utils.translation import gettext_lazy

from chat.core import encryption
from chat.core.encryption import DecryptionError
from chat.models import (
    AuditEvent,
    IdentityProvider,
    KeyKind,
    KeyMark,
    OAuthClient,
    ProviderSignIn,
    ToolAccount,
    ToolCall,
    ToolRequest,
    ToolServer,
    ToolSignIn,
    Upstream,
)

# A number that nothing else uses as a lock: two processes that start at once wait for each other.
_LOCK = 7_482_001

# Every column with a stored secret.
SEALED_COLUMNS: Mapping[type[Model], Sequence[str]] = {
    Upstream: ("sealed_key", "sealed_options"),
    ToolServer: ("sealed_headers",),
    ToolRequest: ("sealed_headers",),
    OAuthClient: ("sealed_secret",),
    ToolAccount: ("sealed_tokens",),
    ToolSignIn: ("sealed_verifier",),
    IdentityProvider: ("sealed_secret",),
    ProviderSignIn: ("sealed_verifier",),
    ToolCall: ("sealed_state", "sealed_task"),
}

# The members of allauth's JSON column that are stored secrets.
FACTOR_MEMBERS = ("secret", "seed")

MISSING_ENCRYPTION_KEY = gettext_lazy(
    "One of this installation’s encryption keys is missing. All processes need the same "
    "ENCRYPTION_KEYS (or the file encryption-key of the same DATA_DIR). If the key is lost, run "
    "`manage.py keys accept` to continue with the current key, then enter the servers’ "
    "credentials again."
)
OTHER_SIGNING_KEY = gettext_lazy(
    "SECRET_KEY differs from the one that this installation uses. All processes need the same "
    "SECRET_KEY (or the file secret-key of the same DATA_DIR). To change the key, put the old one "
    "in SECRET_KEY_FALLBACKS. If the old key is lost, run `manage.py keys accept` to continue with "
    "the current one; everyone then has to sign in again."
)


class WrongKeys(Exception):
    """``str()`` says which keys do not match and what to do; it never contains a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """``readable`` and ``unreadable`` count stored secrets; ``outdated`` those of the readable ones
    that are not encrypted with the newest key."""

    encryption_keys: int
    readable: int
    unreadable: int
    outdated: int
    problem: str


def adopt_keys() -> None:
    """Checks that this process has the installation's keys, and records them if there are none yet.
    Raises ``WrongKeys``. Every process calls this before it serves or executes anything."""
    with transaction.atomic():
        _take_turns()
        problem = _problem()
        if problem:
            raise WrongKeys(problem)
        newest, *_ = encryption.marks()
        KeyMark.objects.get_or_create(kind=KeyKind.ENCRYPTION, mark=newest)
        current, *_ = _signing_marks()
        KeyMark.objects.filter(kind=KeyKind.SIGNING).exclude(mark=current).delete()
        KeyMark.objects.get_or_create(kind=KeyKind.SIGNING, mark=current)


def accept_keys() -> KeyState:
    """Records this process's keys as those of the installation, whatever was recorded before."""
    with transaction.atomic():
        _take_turns()
        KeyMark.objects.all().delete()
        for kind, marks in (
            (KeyKind.ENCRYPTION, encryption.marks()),
            (KeyKind.SIGNING, _signing_marks()[:1]),
        ):
            KeyMark.objects.bulk_create(KeyMark(kind=kind, mark=mark) for mark in marks)
        AuditEvent.objects.record(None, "keys.accept")
    return key_state()


def rotate_keys() -> KeyState:
    """Encrypts every stored secret with the newest key, so that the older keys can be removed.

    Secrets that cannot be decrypted stay as they are. The fingerprints of the older keys are
    deleted only if no secret needs them any more.
    """
    for model, columns in SEALED_COLUMNS.items():
        for row in _sealed_rows(model, columns).only(*columns).order_by("pk"):
            for column in columns:
                _reseal(row, column)
    _reseal_factors()
    state = key_state()
    with transaction.atomic():
        _take_turns()
        if not state.outdated and not state.unreadable:
            newest, *_ = encryption.marks()
            KeyMark.objects.filter(kind=KeyKind.ENCRYPTION).exclude(mark=newest).delete()
        AuditEvent.objects.record(
            None, "keys.rotate", sealed=state.readable, unreadable=state.unreadable
        )
    return state


def current_marks() -> list[str]:
    """The fingerprints of this process's keys, of both kinds."""
    return [*encryption.marks(), *_signing_marks()]


def key_state() -> KeyState:
    readable = unreadable = outdated = 0
    for sealed in _all_sealed():
        if not _can_read(sealed):
            unreadable += 1
            continue
        readable += 1
        outdated += not encryption.is_newest(sealed)
    return KeyState(
        encryption_keys=len(settings.ENCRYPTION_KEYS),
        readable=readable,
        unreadable=unreadable,
        outdated=outdated,
        problem=_problem(),
    )


# --- steps -----------------------------------------------------------------------


def _take_turns() -> None:
    """On SQLite every transaction is the only writer anyway."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


def _problem() -> str:
    """The problem with the keys of this process; empty if there is none."""
    if not _recorded(KeyKind.ENCRYPTION) <= set(encryption.marks()):
        return str(MISSING_ENCRYPTION_KEY)
    signing = _recorded(KeyKind.SIGNING)
    if signing and not signing & set(_signing_marks()):
        return str(OTHER_SIGNING_KEY)
    return ""


def _recorded(kind: KeyKind) -> set[str]:
    return set(KeyMark.objects.filter(kind=kind).values_list("mark", flat=True))


def _signing_marks() -> Sequence[str]:
    """The marks of the signing key, and of the older keys that are still accepted."""
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return [hmac.new(key.encode(), b"tributary secret key", "sha256").hexdigest() for key in keys]


def _sealed_rows(model: type[Model], columns: Sequence[str]) -> QuerySet[Any]:
    """The rows with any secret: most calls of tools have none."""
    return model._default_manager.exclude(**dict.fromkeys(columns, ""))


def _all_sealed() -> list[str]:
    return [
        sealed
        for model, columns in SEALED_COLUMNS.items()
        for row in _sealed_rows(model, columns).values_list(*columns)
        for sealed in row
        if sealed
    ] + [
        data[member]
        for data in Authenticator.objects.values_list("data", flat=True)
        for member in FACTOR_MEMBERS
        if data.get(member)
    ]


def _can_read(sealed: str) -> bool:
    try:
        encryption.reencrypt(sealed)
    except DecryptionError:
        return False
    return True


def _reseal_factors() -> None:
    """One at a time and locked, because a code that is used meanwhile changes the same column."""
    for key in Authenticator.objects.order_by("pk").values_list("pk", flat=True):
        with transaction.atomic():
            row = Authenticator.objects.select_for_update().filter(pk=key).first()
            for member in FACTOR_MEMBERS if row else ():
                with suppress(DecryptionError):
                    if row.data.get(member):
                        row.data[member] = encryption.reencrypt(row.data[member])
            if row:
                row.save(update_fields=["data"])


def _reseal(row: Model, column: str) -> None:
    """Encrypts the column with the newest key, unless a change in the meantime has done so."""
    sealed = getattr(row, column)
    if not sealed or encryption.is_newest(sealed):
        return
    try:
        renewed = encryption.reencrypt(sealed)
    except DecryptionError:
        return
    same = type(row)._default_manager.filter(pk=row.pk, **{column: sealed})
    same.update(**{column: renewed})
