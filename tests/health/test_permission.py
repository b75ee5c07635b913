"""Who may read metrics: by address or token, and not by what anybody can write into a header."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from chat.health.permission import Requester, may_see
from tests.health.helpers import TOKEN


@pytest.fixture(autouse=True)
def _networks(settings: Any) -> None:
    settings.METRICS_NETWORKS = [
        ipaddress.ip_network(one) for one in ("127.0.0.0/8", "10.0.0.0/8", "::1/128")
    ]
    settings.METRICS_TOKEN = TOKEN
    settings.ALLOWED_HOSTS = ["chat.example.org", ".inner.example.org"]
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 0
    settings.IS_SECURE = False


def asker(peer: str | None = "10.0.0.1", **headers: str) -> Requester:
    sent = {"host": "10.0.0.9:8000", **{k.replace("_", "-"): v for k, v in headers.items()}}
    return Requester(peer, sent)


def with_token(authorization: str, host: str = "10.0.0.9:8000") -> Requester:
    """From an address that may read nothing."""
    return asker("192.0.2.1", host=host, authorization=authorization)


ALLOWED = [
    *(asker(peer) for peer in ("10.0.0.1", "127.0.0.1", "::1", "::ffff:10.0.0.1")),
    # Hosts that no stranger can have.
    *(asker(host=host) for host in ("10.0.0.9", "[::1]:8000", "localhost:8000", "web-1:8000")),
    *(asker(host=host) for host in ("chat.example.org", "a.inner.example.org")),
    *(with_token(value, "evil.example.com") for value in (f"Bearer {TOKEN}", f"bearer  {TOKEN} ")),
]
REFUSED = [
    *(asker(peer) for peer in ("192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1", "", None, "web")),
    # A proxy that no setting names.
    *(asker(**{name: "10.0.0.1"}) for name in ("x-forwarded-for", "forwarded", "x-real-ip", "via")),
    *(asker(sec_fetch_site=site) for site in ("cross-site", "same-site")),
    *(with_token(value) for value in ("Bearer ", "Bearer x", f"Basic {TOKEN}", TOKEN)),
    *(with_token(value) for value in (f"Bearer {TOKEN}x", "Bearer é")),
]


@pytest.mark.parametrize(("requesters", "is_allowed"), [(ALLOWED, True), (REFUSED, False)])
def test_address_host_and_token_decide(
    requesters: list[Requester], subtests: pytest.Subtests, *, is_allowed: bool
) -> None:
    for one in requesters:
        with subtests.test(msg=repr(one)):
            assert may_see(one) is is_allowed


# (number of our proxies, peer, X-Forwarded-For, whether it may read)
FORWARDED = [
    (1, "10.0.0.99", "10.0.0.1", True),
    (1, "10.0.0.99", "192.0.2.1", False),
    (1, "10.0.0.99", "10.0.0.1, 192.0.2.1", False),
    (1, "10.0.0.99", "192.0.2.1, 10.0.0.1", True),
    (2, "10.0.0.99", "10.0.0.1, 192.0.2.1", True),
    (2, "10.0.0.99", "10.0.0.1", False),
    (1, "10.0.0.99", "nonsense", False),
    (1, "10.0.0.99", "", False),
    # A request past our proxies has its own address.
    (1, "10.0.0.1", None, True),
    (1, "192.0.2.1", None, False),
]


def test_address_seen_by_our_proxies_counts(settings: Any, subtests: pytest.Subtests) -> None:
    for count, peer, forwarded, allowed in FORWARDED:
        settings.ALLAUTH_TRUSTED_PROXY_COUNT = count
        headers = {} if forwarded is None else {"x_forwarded_for": forwarded}
        with subtests.test(msg=f"{forwarded!r} from {peer} behind {count}"):
            assert may_see(asker(peer, **headers)) is allowed


@pytest.mark.parametrize(("count", "allowed"), [(0, False), (1, True)])
def test_https_site_is_behind_a_proxy(settings: Any, count: int, *, allowed: bool) -> None:
    settings.IS_SECURE = True
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = count

    assert may_see(asker("127.0.0.1")) is allowed


@pytest.mark.parametrize(("forwarded", "allowed"), [("", True), ("10.0.0.1", False)])
def test_peer_counts_at_a_port_without_a_proxy(
    settings: Any, forwarded: str, *, allowed: bool
) -> None:
    settings.IS_SECURE = True
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    headers = {"host": "runner-1:9100"} | ({"x-forwarded-for": forwarded} if forwarded else {})

    assert may_see(Requester("10.0.0.1", headers, is_direct=True)) is allowed


@pytest.mark.parametrize("host", ["evil.example.com", "evil.example.com:8000", "a b", "10.0.0.9,x"])
def test_foreign_host_may_not_read(settings: Any, host: str) -> None:
    settings.ALLOWED_HOSTS = ["*"]

    assert not may_see(asker(host=host))


def test_empty_token_may_not_read(settings: Any) -> None:
    settings.METRICS_TOKEN = ""

    assert not may_see(asker("192.0.2.1", authorization="Bearer "))
