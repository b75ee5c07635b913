"""Which texts of the settings must be seen nowhere."""

from urllib.parse import unquote, urlsplit

# A shorter one would be found in the middle of words.
SHORTEST_SECRET = 6


def secrets_of(*texts: str) -> list[str]:
    """What must not be seen of these settings: whole values, or the password of an address."""
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
