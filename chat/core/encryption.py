"""Encryption of credentials at rest. The only user of the encryption keys."""

import hmac
import json

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class DecryptionError(Exception):
    """The ciphertext cannot be decrypted with the current keys, or belongs to another row."""


def _fernet() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.ENCRYPTION_KEYS])


def marks() -> list[str]:
    """A fingerprint of each key, newest first. It does not reveal the key."""
    return [
        hmac.new(key.encode(), b"tributary encryption key", "sha256").hexdigest()
        for key in settings.ENCRYPTION_KEYS
    ]


def is_newest(ciphertext: str) -> bool:
    try:
        Fernet(settings.ENCRYPTION_KEYS[0]).decrypt(ciphertext.encode())
    except InvalidToken:
        return False
    return True


def reencrypt(ciphertext: str) -> str:
    """The same secret, encrypted with the newest key. Raises ``DecryptionError``."""
    try:
        return _fernet().rotate(ciphertext.encode()).decode()
    except InvalidToken:
        raise DecryptionError from None


def encrypt(secret: str, *, context: str) -> str:
    """Ciphertext of ``secret`` that decrypts only with the same ``context``.

    Fernet has no associated data, so the context (table, row, field) is part of the plaintext.
    """
    body = json.dumps({"context": context, "secret": secret}).encode()
    return _fernet().encrypt(body).decode()


def decrypt(ciphertext: str, *, context: str) -> str:
    """The secret. Raises ``DecryptionError``, without details."""
    try:
        body = json.loads(_fernet().decrypt(ciphertext.encode()))
    except (InvalidToken, ValueError):
        raise DecryptionError from None
    if body.get("context") != context:
        raise DecryptionError
    return str(body["secret"])
