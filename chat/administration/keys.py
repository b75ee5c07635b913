"""Keeps an installation and its keys together: no process works with other keys than the others.

Processes that made keys of their own would not read what another one sealed, nor believe a session
that another one signed. So the database holds a mark of each key in use, and a process whose keys
do not fit is told before it serves.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import connection, transaction

from chat.core import encryption
from chat.core.encryption import DecryptionError
from chat.models import AuditEvent, KeyKind, KeyMark, Upstream

# Any number that nobody else uses: two processes that start at once take turns.
_LOCK = 7_482_001

MISSING_ENCRYPTION_KEY = (
    "This process lacks an encryption key of this installation. All processes need the same "
    "ENCRYPTION_KEYS (or the file encryption-key of the same DATA_DIR). If the key is lost, "
    "`manage.py keys accept` goes on with the present one; stored credentials of servers must "
    "then be entered again."
)
OTHER_SIGNING_KEY = (
    "This process has another SECRET_KEY than this installation. All processes need the same one "
    "(or the file secret-key of the same DATA_DIR). To change it, put the old one into "
    "SECRET_KEY_FALLBACKS; if it is lost, `manage.py keys accept` goes on with the present one, "
    "and everybody signs in again."
)


class WrongKeys(Exception):
    """``str()`` says which keys, and what to do; never a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """``readable`` and ``unreadable`` count stored secrets; ``outdated`` those among the readable
    that are not sealed with the newest key."""

    encryption_keys: int
    readable: int
    unreadable: int
    outdated: int
    problem: str


def adopt_keys() -> None:
    """Checks that this process has the installation's keys, and records them if it has none yet.

    Raises ``WrongKeys``. Every process calls it before it serves or executes anything.
    """
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
    """Takes this process's keys for the installation's, whatever was recorded before."""
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
    """Seals every stored secret anew with the newest key, so that the older ones can be dropped.

    What cannot be read stays as it is. The older keys are forgotten only where nothing is left
    that needs them.
    """
    for upstream in Upstream.objects.order_by("pk"):
        for column in ("sealed_key", "sealed_options"):
            _reseal(upstream, column)
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
    """What the keys of this process are known by, those of both kinds."""
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
    """What is wrong with the keys of this process, in words; empty where nothing is."""
    if not _recorded(KeyKind.ENCRYPTION) <= set(encryption.marks()):
        return MISSING_ENCRYPTION_KEY
    signing = _recorded(KeyKind.SIGNING)
    if signing and not signing & set(_signing_marks()):
        return OTHER_SIGNING_KEY
    return ""


def _recorded(kind: KeyKind) -> set[str]:
    return set(KeyMark.objects.filter(kind=kind).values_list("mark", flat=True))


def _signing_marks() -> Sequence[str]:
    """Of the key that signs, and of the older ones that are still believed."""
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return [hmac.new(key.encode(), b"tributary secret key", "sha256").hexdigest() for key in keys]


def _all_sealed() -> list[str]:
    rows = Upstream.objects.values_list("sealed_key", "sealed_options")
    return [sealed for row in rows for sealed in row if sealed]


def _can_read(sealed: str) -> bool:
    try:
        encryption.reencrypt(sealed)
    except DecryptionError:
        return False
    return True


def _reseal(upstream: Upstream, column: str) -> None:
    """Unless somebody changed the column meanwhile: theirs is sealed with the newest key."""
    sealed = getattr(upstream, column)
    if not sealed or encryption.is_newest(sealed):
        return
    try:
        renewed = encryption.reencrypt(sealed)
    except DecryptionError:
        return
    Upstream.objects.filter(pk=upstream.pk, **{column: sealed}).update(**{column: renewed})
