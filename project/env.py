"""Reads settings from the environment, or from the file that ``NAME_FILE`` points to."""

import ipaddress
import math
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

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
        found = float(value) if value else default
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a number, not {value!r}") from None
    if not math.isfinite(found) or found < 0:
        raise ImproperlyConfigured(f"{name} must be a number from 0 on, not {value!r}")
    return found


def port(name: str, default: int) -> int:
    found = number(name, default)
    if found > 65535:
        raise ImproperlyConfigured(f"{name} must be a port from 0 to 65535, not {found:.0f}")
    return int(found)


def choice(name: str, default: str, choices: Sequence[str]) -> str:
    value = text(name) or default
    if value not in choices:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return value


def time_zone(name: str, default: str) -> str:
    value = text(name) or default
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ImproperlyConfigured(f"{name}: there is no time zone {value!r}") from None
    return value


def words(name: str, default: str = "") -> list[str]:
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def networks(name: str, default: str = "") -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Networks, or single addresses."""
    try:
        return [ipaddress.ip_network(word, strict=False) for word in words(name, default)]
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}") from None


def address(name: str, default: str = "", *, schemes: Sequence[str]) -> str:
    """A URL of a server, empty where there is none. What is wrong with it is not quoted: that would
    be a piece of its password."""
    url = text(name, default)
    try:
        urlsplit(url).port  # noqa: B018 - reading it is the test
    except ValueError:
        raise ImproperlyConfigured(
            f"{name} cannot be read. Write special characters of its password as %XX."
        ) from None
    if url and urlsplit(url).scheme not in schemes:
        begins = " or ".join(f"{scheme}://" for scheme in schemes)
        raise ImproperlyConfigured(f"{name} must begin with {begins}")
    return url


_USUAL_PORTS = {"postgres": 5432, "postgresql": 5432, "redis": 6379, "rediss": 6379}


def port_of(url: str) -> int | None:
    """At which port a server of ours listens; ``None`` where there is none."""
    parts = urlsplit(url)
    return parts.port or _USUAL_PORTS.get(parts.scheme)


def host_of(url: str) -> str:
    """The name or address in a URL, as a Host header has it; empty where there is none."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    return f"[{host}]" if ":" in host else host
