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


def test_allowed_network_may_read(subtests: pytest.Subtests) -> None:
    for peer in ["10.0.0.1", "127.0.0.1", "::1", "::ffff:10.0.0.1"]:
        with subtests.test(msg=peer):
            assert may_see(asker(peer))


def test_other_addresses_may_not_read(subtests: pytest.Subtests) -> None:
    for peer in ["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1", "", None, "web"]:
        with subtests.test(msg=repr(peer)):
            assert not may_see(asker(peer))


# --- proxies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x-forwarded-for", "forwarded", "x-real-ip", "via"])
def test_unannounced_proxy_may_not_read(name: str) -> None:
    assert not may_see(asker(**{name: "10.0.0.1"}))


# (number of our proxies, X-Forwarded-For, whether it may read)
FORWARDED = [
    (1, "10.0.0.1", True),
    (1, "192.0.2.1", False),
    (1, "10.0.0.1, 192.0.2.1", False),
    (1, "192.0.2.1, 10.0.0.1", True),
    (2, "10.0.0.1, 192.0.2.1", True),
    (2, "10.0.0.1", False),
    (1, "nonsense", False),
    (1, "", False),
]


def test_address_seen_by_our_proxies_counts(settings: Any, subtests: pytest.Subtests) -> None:
    for count, forwarded, allowed in FORWARDED:
        settings.ALLAUTH_TRUSTED_PROXY_COUNT = count
        with subtests.test(msg=f"{forwarded!r} behind {count}"):
            assert may_see(asker("10.0.0.99", x_forwarded_for=forwarded)) is allowed


def test_request_past_our_proxies_has_its_own_address(settings: Any) -> None:
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1

    assert may_see(asker("10.0.0.1"))
    assert not may_see(asker("192.0.2.1"))


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


# --- pages of strangers ---------------------------------------------------------------------------


def test_host_that_no_stranger_can_have_may_read(subtests: pytest.Subtests) -> None:
    for host in [
        "10.0.0.9",
        "[::1]:8000",
        "localhost:8000",
        "web-1:8000",
        "chat.example.org",
        "a.inner.example.org",
    ]:
        with subtests.test(msg=host):
            assert may_see(asker(host=host))


@pytest.mark.parametrize("host", ["evil.example.com", "evil.example.com:8000", "a b", "10.0.0.9,x"])
def test_foreign_host_may_not_read(settings: Any, host: str) -> None:
    settings.ALLOWED_HOSTS = ["*"]

    assert not may_see(asker(host=host))


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_page_of_another_site_may_not_read(site: str) -> None:
    assert not may_see(asker(sec_fetch_site=site))


# --- tokens ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [f"Bearer {TOKEN}", f"bearer  {TOKEN} "])
def test_token_may_read_from_anywhere(value: str) -> None:
    assert may_see(asker("192.0.2.1", host="evil.example.com", authorization=value))


def test_wrong_token_may_not_read(subtests: pytest.Subtests) -> None:
    for value in ["Bearer ", "Bearer x", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer é"]:
        with subtests.test(msg=value):
            assert not may_see(asker("192.0.2.1", authorization=value))


def test_empty_token_may_not_read(settings: Any) -> None:
    settings.METRICS_TOKEN = ""

    assert not may_see(asker("192.0.2.1", authorization="Bearer "))
