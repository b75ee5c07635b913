"""The device of a session in words: browser and system, from the user agent that the client claims."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from django.utils.translation import gettext

# Most browsers claim to be others, too: the first that is found counts.
BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
)
# Android also says Linux.
SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
)
PHONES = ("Android", "iPhone")
# The part of an IPv6 address that all devices of a network have in common.
_NETWORK_BITS = 64


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    is_phone: bool


def device_of(user_agent: str) -> Device:
    browser = _first(BROWSERS, user_agent)
    system = _first(SYSTEMS, user_agent)
    if browser and system:
        name = gettext("%(browser)s on %(system)s") % {"browser": browser, "system": system}
    else:
        name = browser or system or gettext("Unknown device")
    return Device(name, system in PHONES)


def _first(table: tuple[tuple[str, str], ...], text: str) -> str:
    return next((name for needle, name in table if needle in text), "")


def is_same_network(one: str | None, other: str | None) -> bool:
    """Returns whether two addresses are of one network as far as their texts tell: the same IPv4 address, which a
    household or a company has in common, or IPv6 addresses of one /64."""
    if not one or not other:
        return False
    first, second = ipaddress.ip_address(one), ipaddress.ip_address(other)
    if first.version == second.version == 6:
        return second in ipaddress.ip_network((first, _NETWORK_BITS), strict=False)
    return first == second
