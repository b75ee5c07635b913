"""Encrypts credentials at rest; the only user of the encryption keys."""

import hmac
import json

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class VaultLocked(Exception):
    """The stored credential cannot be read with the keys we have, or belongs to another row."""


def _fernet() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.ENCRYPTION_KEYS])


def marks() -> list[str]:
    """A mark of each key, newest first: tells keys apart, and gives nothing of them away."""
    return [
        hmac.new(key.encode(), b"tributary encryption key", "sha256").hexdigest()
        for key in settings.ENCRYPTION_KEYS
    ]


def is_newest(sealed: str) -> bool:
    """Whether the newest key has sealed this."""
    try:
        Fernet(settings.ENCRYPTION_KEYS[0]).decrypt(sealed.encode())
    except InvalidToken:
        return False
    return True


def reseal(sealed: str) -> str:
    """The same secret, sealed with the newest key. Raises ``VaultLocked``."""
    try:
        return _fernet().rotate(sealed.encode()).decode()
    except InvalidToken:
        raise VaultLocked from None


def seal(secret: str, *, context: str) -> str:
    """Ciphertext of ``secret`` that can be opened only under the same ``context``.

    Fernet has no associated data, so the context (table, row, field) travels inside.
    """
    body = json.dumps({"context": context, "secret": secret}).encode()
    return _fernet().encrypt(body).decode()


def open_sealed(sealed: str, *, context: str) -> str:
    """The secret. Raises ``VaultLocked``; never says more than that."""
    try:
        body = json.loads(_fernet().decrypt(sealed.encode()))
    except (InvalidToken, ValueError):
        raise VaultLocked from None
    if body.get("context") != context:
        raise VaultLocked
    return str(body["secret"])
