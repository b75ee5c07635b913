"""The HTTP clients and the address policy with this installation's settings."""

import asyncio
from urllib.parse import urlsplit

import httpx
from django.conf import settings

from chat.upstreams.addresses import AddressPolicy, AddressRefused, literal
from chat.upstreams.client import open_client

# A name server that takes longer has no answer: ``TimeoutError`` is an ``OSError``.
LOOKUP_SECONDS = 5.0


def configured_policy() -> AddressPolicy:
    """The addresses that ``UPSTREAM_PRIVATE_NETWORKS`` allows, except the ports of this installation itself."""
    return AddressPolicy.parse(
        settings.UPSTREAM_PRIVATE_NETWORKS, own_ports=frozenset(settings.OWN_PORTS)
    )


def configured_client(policy: AddressPolicy | None = None) -> httpx.AsyncClient:
    """A client for one event loop; the caller closes it."""
    return open_client(policy or configured_policy(), proxy=settings.UPSTREAM_PROXY)


def picture_policy() -> AddressPolicy:
    """Stricter: the address of an upstream comes from an administrator, that of a picture from a
    model."""
    return AddressPolicy.parse(
        settings.PICTURE_PRIVATE_NETWORKS, own_ports=frozenset(settings.OWN_PORTS)
    )


def public_client() -> httpx.AsyncClient:
    """A client for public addresses only; the caller closes it."""
    return configured_client(AddressPolicy(own_ports=frozenset(settings.OWN_PORTS)))


async def client_for_found(server: str) -> httpx.AsyncClient:
    """A client for addresses that the server at this address names; the caller closes it. A stranger's server leads to
    public addresses only: an administrator has allowed the private ones for what people enter themselves."""
    return configured_client() if await is_at_private_address(server) else public_client()


async def is_at_private_address(url: str) -> bool:
    """Returns whether the host of this URL has an address that is not public. Behind an egress proxy, which resolves
    names, only an address that stands in the URL is one."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if settings.UPSTREAM_PROXY and literal(host) is None:
        return False
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            await AddressPolicy().resolve(host, port)
    except AddressRefused:
        return True
    except OSError:
        return False
    return False
