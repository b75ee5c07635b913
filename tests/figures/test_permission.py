"""Who may read figures: by address, by token, and not by what anybody can write into a header."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from chat.health.permission import Asker, may_see

TOKEN = "figures-7Qx2mWvK"


@pytest.fixture(autouse=True)
def _networks(settings: Any) -> None:
    settings.METRICS_NETWORKS = [
        ipaddress.ip_network(one) for one in ("127.0.0.0/8", "10.0.0.0/8", "::1/128")
    ]
    settings.METRICS_TOKEN = TOKEN
    settings.ALLOWED_HOSTS = ["chat.example.org", ".inner.example.org"]
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 0
    settings.IS_SECURE = False


def asker(peer: str | None = "10.0.0.1", **headers: str) -> Asker:
    sent = {"host": "10.0.0.9:8000", **{k.replace("_", "-"): v for k, v in headers.items()}}
    return Asker(peer, sent)


@pytest.mark.parametrize("peer", ["10.0.0.1", "127.0.0.1", "::1", "::ffff:10.0.0.1"])
def test_an_address_of_a_network_may(peer: str) -> None:
    assert may_see(asker(peer))


@pytest.mark.parametrize("peer", ["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1", "", None, "web"])
def test_another_address_may_not(peer: str | None) -> None:
    assert not may_see(asker(peer))


@pytest.mark.parametrize("name", ["x-forwarded-for", "forwarded", "x-real-ip", "via"])
def test_what_came_through_a_proxy_that_nobody_told_us_of_may_not(name: str) -> None:
    assert not may_see(asker(**{name: "10.0.0.1"}))


@pytest.mark.parametrize(
    ("count", "forwarded", "allowed"),
    [
        (1, "10.0.0.1", True),
        (1, "192.0.2.1", False),
        (1, "10.0.0.1, 192.0.2.1", False),
        (1, "192.0.2.1, 10.0.0.1", True),
        (2, "10.0.0.1, 192.0.2.1", True),
        (2, "10.0.0.1", False),
        (1, "nonsense", False),
        (1, "", False),
    ],
)
def test_behind_proxies_of_ours_the_address_counts_that_they_saw(
    settings: Any, count: int, forwarded: str, *, allowed: bool
) -> None:
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = count

    assert may_see(asker("10.0.0.99", x_forwarded_for=forwarded)) is allowed


def test_behind_proxies_of_ours_a_request_that_came_past_them_has_its_own_address(
    settings: Any,
) -> None:
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1

    assert may_see(asker("10.0.0.1"))
    assert not may_see(asker("192.0.2.1"))


@pytest.mark.parametrize(("count", "allowed"), [(0, False), (1, True)])
def test_where_people_come_by_https_a_proxy_is_there_even_if_it_says_nothing(
    settings: Any, count: int, *, allowed: bool
) -> None:
    settings.IS_SECURE = True
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = count

    assert may_see(asker("127.0.0.1")) is allowed


@pytest.mark.parametrize(("forwarded", "allowed"), [("", True), ("10.0.0.1", False)])
def test_at_a_port_without_a_proxy_the_peer_counts_and_no_header(
    settings: Any, forwarded: str, *, allowed: bool
) -> None:
    settings.IS_SECURE = True
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    headers = {"host": "runner-1:9100"} | ({"x-forwarded-for": forwarded} if forwarded else {})

    assert may_see(Asker("10.0.0.1", headers, is_direct=True)) is allowed


@pytest.mark.parametrize(
    "host",
    [
        "10.0.0.9",
        "[::1]:8000",
        "localhost:8000",
        "web-1:8000",
        "chat.example.org",
        "a.inner.example.org",
    ],
)
def test_names_that_no_stranger_can_have_may_ask(host: str) -> None:
    assert may_see(asker(host=host))


@pytest.mark.parametrize("host", ["evil.example.com", "evil.example.com:8000", "a b", "10.0.0.9,x"])
def test_a_page_of_a_stranger_that_has_our_address_may_not(settings: Any, host: str) -> None:
    settings.ALLOWED_HOSTS = ["*"]

    assert not may_see(asker(host=host))


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_may_not(site: str) -> None:
    assert not may_see(asker(sec_fetch_site=site))


@pytest.mark.parametrize("value", [f"Bearer {TOKEN}", f"bearer  {TOKEN} "])
def test_the_token_may_from_anywhere(value: str) -> None:
    assert may_see(asker("192.0.2.1", host="evil.example.com", authorization=value))


@pytest.mark.parametrize(
    "value", ["Bearer ", "Bearer x", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer é"]
)
def test_anything_else_is_no_token(value: str) -> None:
    assert not may_see(asker("192.0.2.1", authorization=value))


def test_an_empty_token_is_none(settings: Any) -> None:
    settings.METRICS_TOKEN = ""

    assert not may_see(asker("192.0.2.1", authorization="Bearer "))
