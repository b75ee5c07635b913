"""Which network addresses a request may go to, in every spelling."""

import random
import socket
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.upstreams.addresses import (
    MAX_ADDRESSES,
    REFUSED_TEXT,
    AddressPolicy,
    AddressRefused,
    literal,
    unwrap,
)
from tests.upstreams.conftest import lookup_in

PUBLIC = AddressPolicy.parse("")
ANY = AddressPolicy.parse("any")

# Refused whatever the setting says.
NEVER_ALLOWED = [
    "0.0.0.0",
    "0.1.2.3",
    "169.254.169.254",
    "169.254.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "224.0.0.1",
    "239.255.255.250",
    "255.255.255.255",
    "240.0.0.1",
    "::",
    "fe80::1",
    "fe80::1%lo",
    "fec0::1",
    "ff02::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::169.254.169.254",
    "::ffff:0:169.254.169.254",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "2001:0:a9fe:a9fe::5601:5601",  # Teredo: server and (inverted) client
    "2001:0:808:808::5601:5601",
]
# Refused unless the setting allows it.
PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.5",
    "100.64.0.1",
    "198.18.0.1",
    "203.0.113.9",
    "::1",
    "fd12:3456::1",
    "fc00::1",
    "2001:db8::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "2002:c0a8:105::1",
    "64:ff9b::10.0.0.1",
    "4000::1",
]
GLOBAL = [
    "8.8.8.8",
    "172.15.255.255",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::1",
]
# Spellings that the system's functions read as 127.0.0.1, and as 169.254.169.254.
LOOPBACK_SPELLINGS = [
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
]
METADATA_SPELLINGS = [
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "[::ffff:a9fe:a9fe]",
]


@pytest.mark.parametrize("setting", ["", "any", "0.0.0.0/0:*,[::/0]:*"])
def test_never_allowed_address_is_refused(setting, subtests):
    policy = AddressPolicy.parse(setting)
    for address in NEVER_ALLOWED:
        with (
            subtests.test(msg=address),
            pytest.raises(AddressRefused, match=REFUSED_TEXT),
        ):
            policy.check(address, 443)


def test_private_address_needs_the_setting(subtests):
    for address in PRIVATE:
        with subtests.test(msg=address):
            ANY.check(address, 1234)
            with pytest.raises(AddressRefused):
                PUBLIC.check(address, 1234)


@pytest.mark.parametrize("setting", ["", "any", "10.0.0.0/8:1234"])
def test_public_address_is_always_allowed(setting, subtests):
    policy = AddressPolicy.parse(setting)
    for address in GLOBAL:
        with subtests.test(msg=address):
            policy.check(address, 443)


async def test_every_spelling_of_loopback_is_loopback(subtests):
    for spelling in LOOPBACK_SPELLINGS:
        with subtests.test(msg=spelling):
            assert await ANY.resolve(spelling, 80) == ["127.0.0.1"]
            with pytest.raises(AddressRefused):
                await PUBLIC.resolve(spelling, 80)


async def test_every_spelling_of_metadata_is_refused(subtests):
    for spelling in METADATA_SPELLINGS:
        with subtests.test(msg=spelling), pytest.raises(AddressRefused):
            await ANY.resolve(spelling, 80)


LISTED = "10.0.0.0/8:1234, 192.168.1.5:*,[fd00:1::/32]:8080, fd00:2::7:9, 127.0.0.1/32:11434"
# (address, port)
ON_THE_LIST = [
    ("10.9.8.7", 1234),
    ("192.168.1.5", 1),
    ("192.168.1.5", 65535),
    ("fd00:1::99", 8080),
    ("fd00:2::7", 9),
    ("127.0.0.1", 11434),
    ("::ffff:10.0.0.1", 1234),
    ("64:ff9b::10.0.0.1", 1234),
    ("11.0.0.1", 1234),  # public, and so in no private network
]
OFF_THE_LIST = [
    ("10.9.8.7", 1235),
    ("192.168.1.6", 80),
    ("fd00:1::99", 80),
    ("fd00:3::1", 8080),
    ("127.0.0.1", 5432),
    ("::ffff:10.0.0.1", 80),
    ("::1", 11434),
]


def test_listed_network_is_allowed_on_its_port(subtests):
    policy = AddressPolicy.parse(LISTED)
    for address, port in ON_THE_LIST:
        with subtests.test(msg=f"{address} port {port}"):
            policy.check(address, port)


def test_unlisted_network_or_port_is_refused(subtests):
    policy = AddressPolicy.parse(LISTED)
    for address, port in OFF_THE_LIST:
        with subtests.test(msg=f"{address} port {port}"), pytest.raises(AddressRefused):
            policy.check(address, port)


MALFORMED = [
    "10.0.0.0/8",
    "10.0.0.0/40:80",
    "example.org:80",
    "10.0.0.1:0",
    "10.0.0.1:70000",
    "all",
    ":80",
]


def test_malformed_setting_is_explained(subtests):
    for setting in MALFORMED:
        with subtests.test(msg=setting), pytest.raises(ValueError, match="network and a port"):
            AddressPolicy.parse(setting)


def test_own_ports_on_loopback_stay_closed():
    policy = AddressPolicy.parse("any", own_ports=frozenset({5432}))

    policy.check("127.0.0.1", 1234)
    policy.check("10.0.0.1", 5432)
    with pytest.raises(AddressRefused):
        policy.check("::ffff:127.0.0.1", 5432)


async def test_one_forbidden_answer_refuses_the_name():
    policy = AddressPolicy.parse("", lookup=lookup_in({"mixed.test": ["8.8.8.8", "10.0.0.1"]}))

    with pytest.raises(AddressRefused):
        await policy.resolve("mixed.test", 443)


async def test_answers_beyond_the_used_ones_are_checked():
    many = [f"8.8.8.{n}" for n in range(MAX_ADDRESSES)] + ["10.0.0.1"]
    policy = AddressPolicy.parse("", lookup=lookup_in({"many.test": many}))

    with pytest.raises(AddressRefused):
        await policy.resolve("many.test", 443)


async def test_rebinding_never_yields_a_forbidden_address():
    choice = random.Random(7)

    async def rebind(host, port):
        return [choice.choice(["8.8.8.8", "127.0.0.1", "169.254.169.254"])]

    policy = AddressPolicy.parse("", lookup=rebind)
    allowed = []
    for _ in range(1000):
        try:
            allowed += await policy.resolve("rebind.test", 80)
        except AddressRefused:
            continue

    assert set(allowed) == {"8.8.8.8"}


async def test_name_without_an_address_is_an_os_error(subtests):
    for host in ["nowhere.invalid", "a" * 70 + ".test", "nul\0.test", ""]:
        with subtests.test(msg=host), pytest.raises(OSError):
            await ANY.resolve(host, 80)


async def test_empty_answer_is_an_os_error():
    policy = AddressPolicy.parse("any", lookup=lookup_in({"empty.test": []}))

    with pytest.raises(socket.gaierror):
        await policy.resolve("empty.test", 80)


async def test_localhost_resolves_through_the_system():
    assert "127.0.0.1" in await ANY.resolve("localhost", 80)


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_wrapped_address_is_unwrapped(number):
    inner = IPv4Address(number)
    wrapped = [
        IPv6Address(0xFFFF << 32 | number),
        IPv6Address((0x2002 << 112) | number << 80),
        IPv6Address((0x64FF9B << 96) | number),
        IPv6Address((0xFFFF << 48) | number),
    ]

    assert all(unwrap(address) == (inner,) for address in wrapped)


@given(st.text(max_size=30))
def test_literal_raises_for_no_text(text):
    literal(text)
