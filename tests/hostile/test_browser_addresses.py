"""Hostile addresses in a real browser: none leads anywhere but to the web and to mail."""

from __future__ import annotations

import pytest

from chat.rendering.safety import host_of, is_safe_link
from tests.hostile.addresses import ADDRESSES
from tests.hostile.breaking import without_url_check
from tests.hostile.page import Inspector, Report
from tests.hostile.places import PLACES

pytest.importorskip("playwright.sync_api")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.needs("chromium"),
    pytest.mark.slow,
]


@pytest.mark.parametrize("has_policy", [True, False], ids=["policy", "no policy"])
def test_addresses_lead_only_to_the_web_and_to_mail(inspector: Inspector, has_policy: bool) -> None:
    # What is harmless without a policy has little left to violate.
    addresses = ADDRESSES[::20] if has_policy else ADDRESSES
    # What a place shows of an address that it refuses is often the same.
    htmls = list(dict.fromkeys(in_place(url) for in_place in PLACES.values() for url in addresses))

    assert inspector.inspect(htmls, has_policy=has_policy) == Report()


@pytest.mark.parametrize("place", ["citation", "medium", "tool result", "tool result in JSON"])
def test_check_finds_addresses_that_nothing_refused(
    inspector: Inspector, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    without_url_check(monkeypatch)

    # Enough to see that the check can fail.
    report = inspector.inspect([PLACES[place](url) for url in ADDRESSES[::3]], has_policy=False)

    kinds = {problem.split(":")[0].split(" <")[0] for problem in report.problems}
    assert {"scheme javascript", "scheme data"} <= kinds
    assert any(kind.startswith("leads into the application") for kind in kinds)
    # With ``rel`` and ``target`` it would run in a page of its own.
    assert "popup" in report.requests


def test_shown_host_is_where_the_browser_goes(inspector: Inspector) -> None:
    links = [url for url in ADDRESSES if is_safe_link(url) and not url.lower().startswith("mail")]

    hosts = inspector.hosts_of(links)

    # What is no URL leads nowhere, and IP addresses are shown as they are written.
    known = [
        (url, host, host_of(url))
        for url, host in zip(links, hosts, strict=True)
        if host is not None
    ]
    assert len(known) > 50
    assert [
        (url, host, shown) for url, host, shown in known if host != shown and not is_number(host)
    ] == []


def is_number(host: str) -> bool:
    return host.startswith("[") or host.replace(".", "").isdecimal()
