"""Time zones by name, as browsers say them in a cookie (base/shell.js)."""

from __future__ import annotations

import zoneinfo
from functools import cache

COOKIE = "timezone"


@cache
def _names() -> frozenset[str]:
    """Read once: it walks through the whole database of zones."""
    return frozenset(zoneinfo.available_timezones())


def zone_named(name: str) -> zoneinfo.ZoneInfo | None:
    """``None`` for a name that is not known: times are then those of the installation."""
    return zoneinfo.ZoneInfo(name) if name in _names() else None


@cache
def zone_names() -> tuple[str, ...]:
    """The names that people choose from: those of places, without abbreviations and old spellings such as "GB" and
    "US/Eastern"."""
    places = [name for name in _names() if name.partition("/")[0] in _REGIONS and "/" in name]
    return (*sorted(places), "UTC")


_REGIONS = frozenset(
    {
        *("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic"),
        *("Australia", "Europe", "Indian", "Pacific"),
    }
)
