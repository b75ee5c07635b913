"""Checks the address of a server that a person typed, and normalises it."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from chat.core.errors import ActionRefused

LENGTH_LIMIT = 500
SCHEMES = ("http", "https")
DEFAULT_PORTS = {"http": 80, "https": 443}

# Whitespace and control characters anywhere, and the backslash, which browsers read as a slash.
_STRANGE = re.compile(r"[\s\x00-\x1f\x7f\\]")


def normal_base_url(text: str) -> str:
    """``text`` as it is stored: lower-case host, no default port, no slash at the end.

    Raises ``ActionRefused`` with the reason. Only http and https are allowed, and nothing that
    could carry a credential or end up in the middle of a request's address.
    """
    text = text.strip()
    if len(text) > LENGTH_LIMIT:
        raise ActionRefused(f"This address is longer than {LENGTH_LIMIT} characters.")
    if _STRANGE.search(text):
        raise ActionRefused("An address has no spaces, line breaks or backslashes in it.")
    parts = _split(text)
    _check(parts, text)
    return f"{parts.scheme}://{_host(parts)}{_port(parts)}{parts.path.rstrip('/')}"


def origin(base_url: str) -> tuple[str, str, int]:
    """Scheme, host and port: what a key is bound to."""
    parts = urlsplit(base_url)
    port = parts.port or DEFAULT_PORTS.get(parts.scheme, 0)
    return parts.scheme, (parts.hostname or "").lower(), port


def _split(text: str) -> SplitResult:
    if not text.lower().startswith(("http://", "https://")):
        raise ActionRefused("Begin the address with http:// or https://.")
    try:
        parts = urlsplit(text)
        has_port = parts.port is not None
    except ValueError:
        raise ActionRefused("This is not an address: look at the host and the port.") from None
    if (has_port and not parts.port) or parts.netloc.endswith(":"):
        raise ActionRefused("A port is a number from 1 to 65535.")
    return parts


def _check(parts: SplitResult, text: str) -> None:
    if "@" in parts.netloc:
        raise ActionRefused("Leave out the name and password; the key has a field of its own.")
    if not parts.hostname:
        raise ActionRefused("The host is missing, such as in http://localhost:1234.")
    if "?" in text or "#" in text:
        raise ActionRefused("Leave out everything from the ? or # on.")
    if "%" in parts.netloc:
        raise ActionRefused("This is not an address: look at the host and the port.")


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").lower()
    return f"[{host}]" if ":" in host else host


def _port(parts: SplitResult) -> str:
    if parts.port in (None, DEFAULT_PORTS[parts.scheme]):
        return ""
    return f":{parts.port}"
