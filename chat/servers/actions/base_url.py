"""Checks the address of a server that a person typed, and normalises it."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from django.utils.translation import gettext

from chat.core.errors import ActionRefused

LENGTH_LIMIT = 500
SCHEMES = ("http", "https")
DEFAULT_PORTS = {"http": 80, "https": 443}

# Whitespace and control characters anywhere, and the backslash, which browsers read as a slash.
_IP_ADDRESS = re.compile(r"[0-9.]+$")
_STRANGE = re.compile(r"[\s\x00-\x1f\x7f\\]")


def normal_base_url(text: str) -> str:
    """``text`` as it is stored: lower-case host, no default port, no slash at the end.

    Raises ``ActionRefused`` with the reason. Only http and https are allowed, and nothing that
    could carry a credential or end up in the middle of a request's address.
    """
    text = text.strip()
    if len(text) > LENGTH_LIMIT:
        raise ActionRefused(
            gettext("The address can have up to %(limit)d characters.") % {"limit": LENGTH_LIMIT}
        )
    if _STRANGE.search(text):
        raise ActionRefused(gettext("An address can’t contain spaces, line breaks or backslashes."))
    parts = _split(text)
    _check(parts, text)
    return f"{parts.scheme}://{_host(parts)}{_port(parts)}{parts.path.rstrip('/')}"


def likely_base_url(text: str) -> str:
    """The address that was probably meant by one that is refused: with a scheme, without a query.
    Empty if that isn't valid either."""
    text = text.strip().partition("?")[0].partition("#")[0]
    if "://" not in text:
        host = text.lstrip("/").partition("/")[0].partition(":")[0]
        is_public = "." in host and not _IP_ADDRESS.match(host)
        text = f"{'https' if is_public else 'http'}://{text.lstrip('/')}"
    try:
        return normal_base_url(text)
    except ActionRefused:
        return ""


def origin(base_url: str) -> tuple[str, str, int]:
    """Scheme, host and port: what a key is bound to."""
    parts = urlsplit(base_url)
    port = parts.port or DEFAULT_PORTS.get(parts.scheme, 0)
    return parts.scheme, (parts.hostname or "").lower(), port


def _split(text: str) -> SplitResult:
    if not text.lower().startswith(("http://", "https://")):
        raise ActionRefused(gettext("Start the address with http:// or https://."))
    try:
        parts = urlsplit(text)
        has_port = parts.port is not None
    except ValueError:
        raise ActionRefused(_not_valid()) from None
    if (has_port and not parts.port) or parts.netloc.endswith(":"):
        raise ActionRefused(gettext("The port must be a number from 1 to 65535."))
    return parts


def _check(parts: SplitResult, text: str) -> None:
    if "@" in parts.netloc:
        raise ActionRefused(
            gettext(
                "Leave the user name and password out of the address. The API key has its own "
                "field."
            )
        )
    if not parts.hostname:
        raise ActionRefused(
            gettext("The address has no host. It should look like http://localhost:1234.")
        )
    if "?" in text or "#" in text:
        raise ActionRefused(gettext("Leave out the ? or # and everything after it."))
    if "%" in parts.netloc:
        raise ActionRefused(_not_valid())


def _not_valid() -> str:
    return gettext("This address isn’t valid. Check the host and the port.")


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").lower()
    return f"[{host}]" if ":" in host else host


def _port(parts: SplitResult) -> str:
    if parts.port in (None, DEFAULT_PORTS[parts.scheme]):
        return ""
    return f":{parts.port}"
