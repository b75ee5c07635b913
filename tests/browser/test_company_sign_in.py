"""An administrator sets up a real provider; a person comes from it, loses a group there, and is signed out by it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.identity.provider.programs import CLIENT, SECRET, RealProvider, real_provider
from tests.support.browser import axe, streams
from tests.support.browser.people import OpenTab, People
from tests.support.browser.site import BrowserSite

TABLES = ("providersignin", "providersession", "managedmembership", "grouprule", "identity")


@pytest.fixture
def home(site: BrowserSite) -> str:
    """The site by the name that people come back to."""
    return site.url.replace("127.0.0.1", "localhost")


@pytest.fixture
def provider(site: BrowserSite, home: str) -> Iterator[RealProvider]:
    with real_provider(home) as provider:
        provider.describe(
            "zoe", email="zoe@example.org", email_verified=True, name="Zoe", groups=["/river"]
        )
        yield provider
    for table in (*TABLES, "identityprovider"):
        site.rows(f"DELETE FROM chat_{table}")
    zoe = "(SELECT id FROM chat_user WHERE email = 'zoe@example.org')"
    site.rows(f"DELETE FROM chat_membership WHERE user_id IN {zoe}")
    site.rows("UPDATE chat_user SET is_active = 0 WHERE email = 'zoe@example.org'")


def set_up(ada: Page, site: BrowserSite, provider: RealProvider) -> None:
    """All of it in the interface."""
    ada.get_by_label("Name", exact=True).fill("Keycloak")
    ada.get_by_label("Discovery address").fill(provider.issuer)
    ada.get_by_label("Client ID").fill(CLIENT)
    ada.get_by_label("Client secret").first.fill(SECRET)
    ada.get_by_label("Scopes").fill("openid email profile groups")
    ada.get_by_label("People without an account").select_option("open")
    ada.get_by_label("Claim with groups or roles").fill("groups")
    assert axe.findings(ada, within="main") == []
    ada.get_by_role("button", name="Add provider").click()
    ada.get_by_label("Group or role at the provider").fill("/river")
    ada.get_by_label("Team", exact=True).select_option(index=1)
    ada.get_by_role("button", name="Add group").click()
    expect(ada.locator("#groups table")).to_contain_text("/river")
    ada.get_by_role("button", name="Test connection").click()
    expect(ada.locator("#test .step-ok")).to_have_count(6)
    assert axe.findings(ada, within="main") == []
    ada.get_by_role("button", name="Turn on").click()
    expect(ada.get_by_role("button", name="Turn off")).to_be_visible()


def come(page: Page, home: str, path: str) -> None:
    page.goto(f"{home}/accounts/login/?next={path}")
    page.get_by_role("button", name="Continue with Keycloak").click()
    page.get_by_placeholder("Enter any login").fill("zoe")
    page.get_by_placeholder("and password").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.wait_for_url(f"{home}{path}")


def test_person_comes_and_goes_with_the_company(
    site: BrowserSite, tab: OpenTab, people: People, home: str, provider: RealProvider
) -> None:
    site.fake.script(streams.telling("Below the mill."))
    run = site.send("Where is the spring?")
    site.until_ended(run)
    set_up(tab("Ada", "/settings/company-sign-in/add/").page, site, provider)
    room = site.room(run)

    first = people.profile(site, locale="en-US").new_page()
    come(first, home, room)
    expect(first.locator("#turns")).to_contain_text("Below the mill.")

    # Without the group, at the next sign-in in another browser: the open page ends, too.
    provider.describe("zoe", groups=[])
    second = people.profile(site, locale="en-AU").new_page()
    come(second, home, "/people/")
    expect(second.locator("main")).to_contain_text("You’re not on a team yet")
    expect(first.locator("main")).to_contain_text("This conversation is no longer shared with you")

    provider.describe("zoe", groups=["/river"])
    third = people.profile(site, locale="en-NZ").new_page()
    come(third, home, room)
    expect(third.locator("#turns")).to_contain_text("Below the mill.")
    away = third.context.new_page()
    away.goto(f"{provider.issuer}/session/end")
    away.get_by_role("button", name="Yes, sign me out").click()
    expect(third.locator("main")).to_contain_text("You’re signed out")
