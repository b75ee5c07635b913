"""Two devices of one person: one signs the other out. And a picture, which others see."""

from __future__ import annotations

import io
from collections.abc import Iterator
from uuid import UUID

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import axe, streams
from tests.support.browser.people import DEFAULTS, OpenTab
from tests.support.browser.seed import PASSWORD
from tests.support.browser.site import BrowserSite

PHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"
    " Version/19.0 Mobile/15E148 Safari/604.1"
)
# The time of one check of access, and the time to draw.
WITHIN_MS = 2000


@pytest.fixture
def run(site: BrowserSite) -> UUID:
    site.fake.script(streams.telling("Here."))
    run = site.send("Where am I?")
    site.until_ended(run)
    return run


@pytest.fixture
def phone(browser: Browser, site: BrowserSite) -> Iterator[Page]:
    """Alice's other device, on which she signs in herself."""
    small = {"viewport": {"width": 360, "height": 740}}
    context = browser.new_context(**{**DEFAULTS, **small}, user_agent=PHONE)
    page = context.new_page()
    page.goto(f"{site.url}/accounts/login/")
    page.get_by_label("Email address").fill("alice@example.org")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url(f"{site.url}/")
    yield page
    context.close()


@pytest.mark.smoke
def test_one_device_signs_the_other_out(
    site: BrowserSite, tab: OpenTab, phone: Page, run: UUID
) -> None:
    phone.goto(f"{site.url}{site.room(run)}")
    expect(phone.locator("#text")).to_be_editable()
    phone.locator("#text").fill("Half a sentence")
    desk = tab("Alice", "/settings/sessions/").page
    assert axe.findings(desk) == []

    desk.get_by_role("button", name="Sign out Safari on iPhone").click()

    expect(phone.locator("body")).to_contain_text("You’re signed out", timeout=WITHIN_MS)
    expect(desk.locator("main")).not_to_contain_text("Safari on iPhone")
    expect(desk.locator("main")).to_contain_text("This device")


def test_picture_stands_beside_messages(site: BrowserSite, tab: OpenTab, run: UUID) -> None:
    body = io.BytesIO()
    Image.new("RGB", (300, 300), "teal").save(body, "PNG")
    alice = tab("Alice", "/settings/").page
    file = {"name": "me.png", "mimeType": "image/png", "buffer": body.getvalue()}

    alice.locator("#picture").set_input_files(file)  # type: ignore[arg-type]
    alice.get_by_role("button", name="Upload").click()
    expect(alice.locator(".profile-picture img")).to_be_visible()
    bob = tab("Bob", site.room(run)).until_ended().page
    shown = bob.locator(".person-turn .avatar img").first

    expect(shown).to_be_visible()
    assert shown.evaluate("picture => picture.naturalWidth") == 192
    assert axe.findings(bob) == []
    alice.get_by_role("button", name="Remove picture").click()
    expect(alice.locator(".profile-picture img")).to_have_count(0)


def test_chosen_time_zone_is_that_of_every_time(site: BrowserSite, tab: OpenTab, run: UUID) -> None:
    alice = tab("Alice", "/settings/").page

    alice.get_by_label("Show times in").select_option("Asia/Tokyo")
    alice.locator("form[action$='/time-zone/'] button").click()
    alice.goto(f"{site.url}/settings/sessions/")
    zone = alice.locator("time").first.get_attribute("title")
    alice.goto(f"{site.url}/settings/")
    alice.get_by_label("Show times in").select_option("")
    alice.locator("form[action$='/time-zone/'] button").click()
    expect(alice.locator("html")).not_to_have_attribute("data-time-zone", "Asia/Tokyo")

    assert zone is not None
    assert "GMT+9" in zone or "JST" in zone or "Japan" in zone
