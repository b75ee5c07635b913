"""Reads settings from the environment, or from the file that ``NAME_FILE`` points to."""

import ipaddress
import os
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured


def text(name: str, default: str = "") -> str:
    path = os.environ.get(f"{name}_FILE")
    if path:
        try:
            return Path(path).read_text().strip()
        except OSError as error:
            raise ImproperlyConfigured(f"{name}_FILE: {path}: {error.strerror}") from None
    return os.environ.get(name, default)


def flag(name: str, default: bool) -> bool:
    value = text(name)
    if not value:
        return default
    return value.lower() in {"1", "true", "yes", "on"}


def number(name: str, default: float) -> float:
    value = text(name)
    try:
        return float(value) if value else default
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a number, not {value!r}") from None


def words(name: str, default: str = "") -> list[str]:
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def networks(name: str, default: str = "") -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Networks, or single addresses. Raises ``ValueError`` for what is neither."""
    return [ipaddress.ip_network(word, strict=False) for word in words(name, default)]


def address(name: str, default: str = "") -> str:
    """A URL of a server, empty where there is none. What is wrong with it is not quoted: that would
    be a piece of its password."""
    url = text(name, default)
    try:
        urlsplit(url).port  # noqa: B018 - reading it is the test
    except ValueError:
        raise ImproperlyConfigured(
            f"{name} cannot be read. Write special characters of its password as %XX."
        ) from None
    return url


def host_of(url: str) -> str:
    """The name or address in a URL, as a Host header has it; empty where there is none."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    return f"[{host}]" if ":" in host else host
