"""What a browser loads for a page, and what it does not load again."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.support.browser import streams
from tests.support.browser.people import OpenTab, People
from tests.support.browser.site import BrowserSite

# Scripts and style sheets, compressed, at the first visit.
MOST_BYTES = {"conversation": 250_000, "home": 170_000}


class Loaded:
    """The static files that a navigation brings over the network, with their compressed sizes."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._network = page.context.new_cdp_session(page)
        self._network.send("Network.enable")
        self._addresses: dict[str, str] = {}
        self._sizes: dict[str, float] = {}
        self._cached: set[str] = set()
        self._network.on("Network.responseReceived", self._on_response)
        self._network.on("Network.requestServedFromCache", self._on_cached)
        self._network.on("Network.loadingFinished", self._on_finished)

    def _on_response(self, event: dict[str, Any]) -> None:
        response = event["response"]
        if "/static/" in response["url"]:
            self._addresses[event["requestId"]] = response["url"]
        if response.get("fromDiskCache"):
            self._cached.add(event["requestId"])

    def _on_cached(self, event: dict[str, Any]) -> None:
        self._cached.add(event["requestId"])

    def _on_finished(self, event: dict[str, Any]) -> None:
        self._sizes[event["requestId"]] = event["encodedDataLength"]

    def by(self, address: str) -> dict[str, float]:
        self._addresses.clear()
        self._page.goto(address)
        self._page.wait_for_load_state("networkidle")
        return {
            url: self._sizes[one]
            for one, url in self._addresses.items()
            if one in self._sizes and one not in self._cached
        }


@pytest.mark.smoke
@pytest.mark.parametrize("kind", MOST_BYTES)
def test_second_navigation_loads_no_unchanged_file(
    site: BrowserSite, people: People, kind: str
) -> None:
    site.fake.script(streams.telling("First."))
    path = site.room(site.send("Tell us.")) if kind == "conversation" else "/"
    loaded = Loaded(people.tab(site, "Alice", is_new=True).page)

    first, again = loaded.by(f"{site.url}{path}"), loaded.by(f"{site.url}{path}")

    code = {url: size for url, size in first.items() if url.endswith((".js", ".css"))}
    assert any("/pages/" in url for url in code)
    assert sum(code.values()) <= MOST_BYTES[kind]
    assert again == {}


# As Django writes it for three plural forms.
POLISH = """async () => {
  document.documentElement.lang = "pl";
  const messages = document.createElement("script");
  Object.assign(messages, {type: "application/json", id: "script-messages"});
  messages.textContent = JSON.stringify({catalog: {
    "Copied": "Skopiowano",
    "%(count)s word": ["%(count)s słowo", "%(count)s słowa", "%(count)s słów"],
  }});
  document.body.append(messages);
  // By its plain name it is another module than the page's own.
  const i18n = await import("/static/base/i18n.js");
  return [
    i18n.gettext("Copied"),
    i18n.gettext("Not copied"),
    i18n.interpolate("%(a)s of %(b)s", {a: 1, b: "$&"}),
    ...[1, 3, 5, 12000].map(count => i18n.ngettext("%(count)s word", "%(count)s words", count)),
    i18n.ngettext("%(count)s line", "%(count)s lines", 2),
    i18n.elapsed(61500),
    i18n.percent(25),
  ];
}"""


def test_texts_and_numbers_are_in_the_language_of_the_page(tab: OpenTab) -> None:
    said = tab("Alice", "/").page.evaluate(POLISH)

    assert [text.replace("\xa0", " ") for text in said] == [
        "Skopiowano",
        "Not copied",
        "1 of $&",
        *("1 słowo", "3 słowa", "5 słów", "12 000 słów"),
        "2 lines",
        "1 min 1 s",
        "25%",
    ]
