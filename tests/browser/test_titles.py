"""A model writes the title of a conversation, and people who look at it or at a list see that."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.browser import streams
from tests.support.browser.displays import serious_findings
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite


@pytest.fixture
def titled_site(site: BrowserSite) -> Iterator[BrowserSite]:
    models = site.value("SELECT model_list FROM chat_upstream")
    site.rows("""UPDATE chat_upstream SET model_list = '[{"id": "small", "label": "Small"}]'""")
    yield site
    site.rows("DELETE FROM chat_titlesetting")
    site.rows("UPDATE chat_upstream SET model_list = ?", models)


@pytest.mark.slow
def test_title_arrives_where_the_conversation_is_seen(
    titled_site: BrowserSite, tab: OpenTab
) -> None:
    site = titled_site
    adas = tab("Ada", "/settings/titles/").page
    adas.locator(".combobox-button").click()
    adas.get_by_role("option", name="Small").click()
    assert serious_findings(adas) == []
    adas.get_by_role("button", name="Save").click()
    expect(adas.get_by_text("Saved", exact=True)).to_be_visible()
    site.fake.script(
        streams.telling("With flour."),
        streams.telling("Baking ", streams.gate("title"), "bread"),
    )

    run = site.send("How do I bake bread?", by="Alice")
    alice = tab("Alice", site.room(run)).until_ended()
    bob = tab("Bob", "/").page
    line = bob.locator("#conversations [data-room]").filter(has_text="How do I bake bread?")
    expect(line).to_have_count(1)
    site.fake.release("title")

    alice.has_title("Baking bread · Tributary")
    expect(alice.page.locator("#room-head")).to_contain_text("Baking bread")
    expect(bob.locator("#conversations [data-room]").filter(has_text="Baking bread")).to_have_count(
        1
    )
    details = tab("Alice", f"/r/{run}/details/").page
    row = details.get_by_role("row").filter(has_text="Baking bread")
    expect(row).to_contain_text("Completed")
    assert serious_findings(details) == []
