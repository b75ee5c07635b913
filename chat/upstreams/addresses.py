"""The network addresses that a request may connect to. A name is resolved once, and every address is
checked."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias

from django.utils.translation import gettext_noop

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network
Lookup: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

# A fixed sentence, so that errors cannot be used to map the network behind this server.
REFUSED_TEXT = gettext_noop("Connections to this address aren’t allowed.")

# Addresses of one name that are used; the others are ignored.
MAX_ADDRESSES = 8

# Lookups block a thread each, for as long as the resolver takes. In a pool of their own a dead name
# server does not block other users of the event loop's threads.
_lookup_threads = ThreadPoolExecutor(max_workers=8, thread_name_prefix="name-lookup")


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


# Never a legitimate LLM server: "this host", link-local, multicast, reserved space, and the cloud
# vendors' metadata addresses, which hand out credentials.
NEVER = _networks(
    "0.0.0.0/8",
    "169.254.0.0/16",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "192.0.0.0/24",
    "192.88.99.0/24",
    "100.100.100.200/32",
    "168.63.129.16/32",
    "::/128",
    "100::/64",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
    "fd00:ec2::/32",
    "fd20:ce::254/128",
    "fd00:c1::a9fe:a9fe/128",
    "fd00:42::42/128",
)
LOOPBACK = _networks("127.0.0.0/8", "::1/128")
# Allowed only by the setting. They are listed here, because the answers of ``is_global`` differ
# between Python versions, and some call several of these global.
PRIVATE = (
    *LOOPBACK,
    *_networks(
        "10.0.0.0/8",
        "100.64.0.0/10",
        "172.16.0.0/12",
        "192.0.2.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "2001::/23",
        "2001:db8::/32",
        "3fff::/20",
    ),
)
GLOBAL_UNICAST = IPv6Network("2000::/3")

COMPATIBLE = IPv6Network("::/96")
TRANSLATED = IPv6Network("::ffff:0:0:0/96")
NAT64 = IPv6Network("64:ff9b::/96")
NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")


class AddressRefused(Exception):
    """The policy forbids this address. The text is the same for every reason."""

    def __init__(self) -> None:
        super().__init__(REFUSED_TEXT)


@dataclass(frozen=True, slots=True)
class AddressRule:
    """A network that the setting allows, on one port or (``None``) on all."""

    network: Network
    port: int | None

    def allows(self, address: Address, port: int) -> bool:
        return _is_in(address, self.network) and self.port in (None, port)


async def system_lookup(host: str, port: int) -> list[str]:
    """The addresses of a name, in the system's order of preference; ``OSError`` if none."""
    loop = asyncio.get_running_loop()
    try:
        answers = await loop.run_in_executor(_lookup_threads, _getaddrinfo, host, port)
    except ValueError as error:  # The name is impossible: a label is too long, or it contains NUL.
        raise socket.gaierror(socket.EAI_NONAME, "not a host name") from error
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


def _getaddrinfo(
    host: str, port: int
) -> list[tuple[object, object, object, object, tuple[object, ...]]]:
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressPolicy:
    """The addresses that ``UPSTREAM_PRIVATE_NETWORKS`` allows besides public ones.

    ``own_ports`` are the loopback ports of this installation itself (application, database,
    Redis): no rule opens them.
    """

    allows_private: bool = False
    rules: tuple[AddressRule, ...] = ()
    own_ports: frozenset[int] = frozenset()
    lookup: Lookup = field(default=system_lookup, repr=False)

    @classmethod
    def parse(
        cls, text: str, *, own_ports: frozenset[int] = frozenset(), lookup: Lookup = system_lookup
    ) -> "AddressPolicy":
        """Parses the setting: ``any``, empty, or ``network:port`` entries separated by commas.
        Raises ``ValueError`` with a sentence for the operator."""
        allows_private = text.strip().lower() == "any"
        entries = [] if allows_private else [part.strip() for part in text.split(",")]
        return cls(
            allows_private=allows_private,
            rules=tuple(_read_rule(entry) for entry in entries if entry),
            own_ports=own_ports,
            lookup=lookup,
        )

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses to connect to, all of them checked: a single forbidden one refuses the
        name. Raises ``AddressRefused``, or ``OSError`` if the name has no address."""
        found = literal(host)
        addresses = [str(found)] if found else await self.lookup(host, port)
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        for address in addresses:
            self.check(address, port)
        return addresses[:MAX_ADDRESSES]

    def check(self, address: str, port: int) -> None:
        """Raises ``AddressRefused`` unless a connection to this address is allowed."""
        try:
            parsed = ip_address(address)
        except ValueError as error:
            raise AddressRefused from error
        if not all(self._allows(inner, port) for inner in unwrap(parsed)):
            raise AddressRefused

    def _allows(self, address: Address, port: int) -> bool:
        if _is_in(address, *NEVER):
            return False
        if port in self.own_ports and _is_in(address, *LOOPBACK):
            return False
        if not _is_private(address) or self.allows_private:
            return True
        return any(rule.allows(address, port) for rule in self.rules)


def literal(host: str) -> Address | None:
    """The address that a host name spells out, also in forms that only the system's functions
    parse: ``127.1``, ``2130706433``, ``0x7f.1``."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


def unwrap(address: Address) -> tuple[Address, ...]:
    """The addresses that a packet may reach. IPv6 has many ways to write an IPv4 address."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped:
        return (address.ipv4_mapped,)
    if address.sixtofour:
        return (address.sixtofour,)
    if address.teredo:
        return address.teredo
    low = IPv4Address(int(address) & 0xFFFF_FFFF)
    if address in NAT64 or address in TRANSLATED:
        return (low,)
    if address in COMPATIBLE and int(address) > 1:
        return (low,)
    if address in NAT64_LOCAL:
        return (address, low)
    return (address,)


def _is_private(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in GLOBAL_UNICAST:
        return True
    return _is_in(address, *PRIVATE)


def _is_in(address: Address, *networks: Network) -> bool:
    return any(address.version == net.version and address in net for net in networks)


def _read_rule(entry: str) -> AddressRule:
    network, _, port = entry.rpartition(":")
    try:
        return AddressRule(
            ip_network(network.strip("[]"), strict=False), None if port == "*" else _read_port(port)
        )
    except ValueError as error:
        raise ValueError(
            f"{entry!r} is not a network and a port; write it like 10.0.0.0/8:1234 or "
            "[fd00::/8]:*, separated by commas."
        ) from error


def _read_port(text: str) -> int:
    port = int(text)
    if not 0 < port < 65536:
        raise ValueError("no such port")
    return port
