"""The HTTP clients and the address policy with this installation's settings."""

import httpx
from django.conf import settings

from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.client import open_client


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
