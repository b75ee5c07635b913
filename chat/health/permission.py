"""Permission to read metrics and details of health: by address or by token.

Signed-in administrators may, too; the web process checks that, because it has the sessions.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings
from django.http.request import validate_host

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Requests that come through a proxy have one of these headers.
_FORWARDED = ("x-forwarded-for", "forwarded", "x-real-ip", "via")
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]*)?")


@dataclass(frozen=True, slots=True)
class Requester:
    """The sender: the address at the other end of the socket (``None`` if there is none), and the
    headers with names in lower case, repeated ones joined by commas. ``is_direct``: no proxy of
    ours is in front of this port, whatever is in front of others."""

    peer: str | None
    headers: Mapping[str, str]
    is_direct: bool = False


def may_see(requester: Requester) -> bool:
    return has_token(requester) or is_near(requester)


def has_token(requester: Requester) -> bool:
    scheme, _, given = requester.headers.get("authorization", "").partition(" ")
    wanted = settings.METRICS_TOKEN
    if not wanted or scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(given.strip().encode(), wanted.encode())


def is_near(requester: Requester) -> bool:
    """Returns whether the request comes from one of `METRICS_NETWORKS`.

    A page in a browser of that network could point its own name at our address (DNS rebinding) and
    read the response. So the Host header must be one that such a page cannot have.
    """
    address = real_address(requester)
    if address is None or not _is_own_name(requester.headers.get("host", "")):
        return False
    if requester.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return False
    return any(
        address.version == network.version and address in network
        for network in settings.METRICS_NETWORKS
    )


def real_address(requester: Requester) -> Address | None:
    """The address of the client behind our proxies; ``None`` if it cannot be known.

    If no proxy is configured, a request that some proxy has forwarded may come from anywhere: its
    peer is only that proxy, which may well run on this machine. With https there is always a proxy,
    whether or not it sends such headers, because this server does not speak TLS.
    """
    proxies = 0 if requester.is_direct else settings.ALLAUTH_TRUSTED_PROXY_COUNT
    if proxies and "x-forwarded-for" in requester.headers:
        forwarded = [word.strip() for word in requester.headers["x-forwarded-for"].split(",")]
        return _address(forwarded[-proxies]) if len(forwarded) >= proxies else None
    if any(name in requester.headers for name in _FORWARDED):
        return None
    if settings.IS_SECURE and not proxies and not requester.is_direct:
        return None
    return _address(requester.peer or "")


def _address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address


def _is_own_name(host: str) -> bool:
    """An IP address, a name without a dot (another container's), or one of `ALLOWED_HOSTS`."""
    match = _HOST.fullmatch(host.lower())
    if match is None:
        return False
    name = match["name"]
    is_local = "." not in name and ":" not in name
    return is_local or _address(name.strip("[]")) is not None or _is_allowed(name)


def _is_allowed(name: str) -> bool:
    # "*" allows every name, so a foreign name could not be told apart.
    return validate_host(name, [host for host in settings.ALLOWED_HOSTS if host != "*"])
