"""The keys of this installation, created at the first start in files of mode 0600."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured


def _load_or_make(path: Path, make: Callable[[], str]) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    value = make()
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(value + "\n")
        file.flush()
        os.fsync(file.fileno())
    # Linking is atomic: if two processes start at once, one creates the key and the other reads it.
    try:
        os.link(draft, path)
    except FileExistsError:
        return path.read_text().strip()
    finally:
        draft.unlink()
    return value


def checked(name: str, keys: list[str]) -> list[str]:
    """The keys, if all are Fernet keys. Otherwise raises ``ImproperlyConfigured``, which quotes
    none."""
    for number, key in enumerate(keys, start=1):
        try:
            Fernet(key)
        except ValueError:
            raise ImproperlyConfigured(
                f"{name}: key {number} is not a Fernet key (32 bytes as URL-safe base64)"
            ) from None
    return keys


def secret_key(data_dir: Path) -> str:
    return _load_or_make(data_dir / "secret-key", lambda: secrets.token_urlsafe(50))


def encryption_keys(data_dir: Path) -> list[str]:
    """Fernet keys, newest first, one per line in the file."""
    return _load_or_make(
        data_dir / "encryption-key", lambda: Fernet.generate_key().decode()
    ).split()


# Secrets in the settings, which must not appear in logs.

# A shorter one would match in the middle of words.
SHORTEST_SECRET = 6


def secrets_of(*texts: str) -> list[str]:
    """The secrets in these settings (whole values, or the password of a URL), longest first."""
    found: set[str] = set()
    for text in texts:
        secret = _password_of(text) if "://" in text else text
        found |= {secret, unquote(secret)}
    return sorted((one for one in found if len(one) >= SHORTEST_SECRET), key=len, reverse=True)


def _password_of(address: str) -> str:
    try:
        return urlsplit(address).password or ""
    except ValueError:
        return ""
