"""A passkey in the browser: added, used to sign in, blocked when it was copied, removed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.test import override_settings
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.conftest import PASSWORD
from tests.support.browser import axe
from tests.support.browser.site import BrowserSite


class Device:
    """Chromium's virtual authenticator, with a counter as security keys have it."""

    def __init__(self, context: BrowserContext, page: Page) -> None:
        self._session = context.new_cdp_session(page)
        self._session.send("WebAuthn.enable")
        options = {
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": True,
            "hasUserVerification": True,
            "isUserVerified": True,
            "automaticPresenceSimulation": True,
        }
        self.id = self._session.send("WebAuthn.addVirtualAuthenticator", {"options": options})[
            "authenticatorId"
        ]

    def passkey(self) -> dict[str, Any]:
        held = self._session.send("WebAuthn.getCredentials", {"authenticatorId": self.id})
        [credential] = held["credentials"]
        return credential

    def put(self, credential: dict[str, Any]) -> None:
        self._session.send("WebAuthn.clearCredentials", {"authenticatorId": self.id})
        self._session.send(
            "WebAuthn.addCredential", {"authenticatorId": self.id, "credential": credential}
        )


def sign_in(page: Page, address: str, email: str) -> None:
    page.goto(f"{address}/accounts/login/")
    page.get_by_label("Email address").fill(email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


def let_time_pass(context: BrowserContext, site: BrowserSite) -> None:
    """The session was confirmed long ago."""
    [key] = [each["value"] for each in context.cookies() if each["name"] == "sessionid"]
    stored = site.value("SELECT session_data FROM django_session WHERE session_key = ?", key)
    with override_settings(SECRET_KEY=(site.folder / "secret-key").read_text().strip()):
        data = SessionStore().decode(stored)
        for record in data["account_authentication_methods"]:
            record["at"] = 0
        changed = SessionStore().encode(data)
    site.rows("UPDATE django_session SET session_data = ? WHERE session_key = ?", changed, key)


@pytest.fixture
def address(own_site: BrowserSite) -> str:
    """Browsers allow passkeys at localhost, and not at an IP address."""
    own_site.start()
    return f"http://localhost:{own_site.port}"


def test_passkey_signs_in_until_it_is_copied(
    browser: Browser, own_site: BrowserSite, address: str
) -> None:
    context = browser.new_context()
    page = context.new_page()
    device = Device(context, page)
    email = own_site.value("SELECT email FROM chat_user WHERE name = 'Bob'")
    sign_in(page, address, email)
    page.goto(f"{address}/settings/two-step/")
    assert axe.findings(page, within="main") == []

    page.get_by_role("link", name="Add passkey").click()
    assert axe.findings(page) == []
    page.get_by_label("Name").fill("Laptop")
    page.get_by_role("button", name="Add passkey").click()
    expect(page.locator(".recovery-codes li")).to_have_count(10)
    assert axe.findings(page) == []
    page.get_by_role("link", name="Done").click()
    expect(page.locator(".two-step-list")).to_contain_text("Laptop")
    assert axe.findings(page, within="main") == []
    copy = device.passkey()

    # The password alone is not enough any more; the passkey alone is.
    context.clear_cookies()
    sign_in(page, address, email)
    expect(page.get_by_role("heading", name="Two-step verification")).to_be_visible()
    assert axe.findings(page) == []
    page.goto(f"{address}/settings/")
    expect(page).to_have_url(f"{address}/accounts/login/two-step/")
    page.get_by_role("button", name="Back to sign-in").click()
    expect(page.get_by_role("heading", name="Sign in to Tributary")).to_be_visible()
    assert axe.findings(page) == []
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.locator("#composer, textarea").first).to_be_visible()

    # As the second step, it raises its counter again.
    context.clear_cookies()
    sign_in(page, address, email)
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.locator("#composer, textarea").first).to_be_visible()

    # The copy has an older counter.
    context.clear_cookies()
    device.put(copy)
    sign_in(page, address, email)
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_text("seems to have been copied")).to_be_visible()
    page.goto(f"{address}/settings/")
    expect(page).to_have_url(f"{address}/accounts/login/two-step/")
    copied = "SELECT count(*) FROM chat_auditevent WHERE verb = 'second_factor.copied'"
    assert own_site.value(copied) == 1
    context.close()


def test_passkey_is_removed(browser: Browser, own_site: BrowserSite, address: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    Device(context, page)
    email = own_site.value("SELECT email FROM chat_user WHERE name = 'Bob'")
    sign_in(page, address, email)
    page.goto(f"{address}/settings/two-step/passkeys/add/")
    page.get_by_role("button", name="Add passkey").click()
    page.get_by_role("link", name="Done").click()

    page.get_by_role("link", name="Remove").click()
    assert axe.findings(page) == []
    page.get_by_role("button", name="Remove").click()

    expect(page.get_by_role("heading", name="Passkeys")).to_be_visible()
    expect(page.locator(".two-step-list")).to_have_count(0)
    context.clear_cookies()
    sign_in(page, address, email)
    expect(page.locator("#composer, textarea").first).to_be_visible()
    context.close()


def test_form_goes_on_after_the_confirmation(
    browser: Browser, own_site: BrowserSite, address: str
) -> None:
    context = browser.new_context()
    page = context.new_page()
    Device(context, page)
    sign_in(page, address, own_site.value("SELECT email FROM chat_user WHERE name = 'Bob'"))
    page.goto(f"{address}/settings/two-step/passkeys/add/")
    page.get_by_role("button", name="Add passkey").click()
    expect(page.locator(".recovery-codes li")).to_have_count(10)

    page.goto(f"{address}/settings/tokens/")
    page.get_by_label("Name").fill("nightly")
    let_time_pass(context, own_site)
    page.get_by_role("button", name="Create token").click()
    page.get_by_role("link", name="Use a passkey").click()
    page.get_by_role("button", name="Use a passkey").click()

    expect(page).to_have_url(re.compile("/settings/tokens/"))
    expect(page.get_by_text("nightly").first).to_be_visible()
    assert own_site.value("SELECT name FROM chat_accesstoken") == "nightly"
    context.close()
