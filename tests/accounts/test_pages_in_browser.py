"""The pages about people in a real browser: first start, invitations, roles, no broken policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser

from tests.support.processes.site import Site
from tests.support.visitor import MARKS, Visitor, chromium, new_site, run_python

PASSWORD = "seven willow rivers"


DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}}

pytestmark = MARKS


@pytest.fixture(autouse=True)
def _close_connections() -> None:
    """No database here, and the browser's event loop would forbid its use."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, migrated_database: Path) -> Iterator[Site]:
    with new_site(tmp_path_factory.mktemp("people"), migrated_database) as site:
        site.start()
        yield site


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def first_person(browser: Browser, site: Site) -> Visitor:
    """The first administrator, who has just used the setup link."""
    link = run_python(site, "manage.py", "setup_link")
    ada = Visitor(browser, site, **DESKTOP)
    ada.open(urlsplit(link.strip()).path)
    ada.fill(name="Ada Moreno", email="ada@example.org", password=PASSWORD, team_name="River")
    ada.press("Create account")
    return ada


@pytest.fixture
def ada(browser: Browser, site: Site, first_person: Visitor) -> Visitor:
    return Visitor(browser, site, storage_state=first_person.state(), **DESKTOP)


def join(browser: Browser, site: Site, ada: Visitor, name: str) -> Visitor:
    """Ada invites somebody, who joins on a phone."""
    ada.open("/people/").click("main a:has-text('Invite')")
    ada.press("Invite")
    person = Visitor(browser, site, **PHONE)
    person.open(urlsplit(ada.page.input_value("#secret")).path)
    person.fill(name=name, email=f"{name.split()[0].lower()}@example.org", password=PASSWORD)
    person.press("Create account and join")
    return person


def test_password_can_be_shown_and_hidden(browser: Browser, site: Site, ada: Visitor) -> None:
    page = Visitor(browser, site).open("/accounts/login/")
    button = page.locator("[data-reveal]")

    button.click()
    shown = page.get_attribute("[name=password]", "type")
    button.click()

    assert shown == "text"
    assert page.get_attribute("[name=password]", "type") == "password"
    assert button.get_attribute("aria-pressed") == "false"


def test_removal_asks_for_confirmation(browser: Browser, site: Site, ada: Visitor) -> None:
    join(browser, site, ada, "Rufus Beck")
    page = ada.open("/people/")
    row = page.locator("tr:has-text('Rufus Beck')")

    row.locator("summary").click()
    ada.press("Remove from team")
    question = page.inner_text("#confirm-text")
    ada.press("Cancel")
    kept = "Rufus Beck" in ada.open("/people/").inner_text("table")
    row.locator("summary").click()
    ada.press("Remove from team")
    page.click("#confirm-go")
    page.wait_for_selector(".notice-good")

    assert "Remove Rufus Beck from River?" in question
    assert kept
    assert "Rufus Beck was removed from River." in page.inner_text("#notices")
    assert ada.complaints == []


def test_role_is_changed_by_save_alone(browser: Browser, site: Site, ada: Visitor) -> None:
    join(browser, site, ada, "Vera Okafor")
    page = ada.open("/people/")

    row = page.locator("tr:has-text('Vera Okafor')")
    hidden = not row.get_by_role("button", name="Save").is_visible()
    row.get_by_label("Role of Vera Okafor in River").select_option("viewer")
    chosen = page.locator("#notices").inner_text()
    row.get_by_role("button", name="Save").click()
    page.wait_for_selector(".notice-good")

    assert hidden
    assert chosen == ""
    assert "Vera Okafor’s role in River is now Viewer." in page.inner_text("#notices")


def test_drawer_and_forms_work_without_scripts(browser: Browser, site: Site, ada: Visitor) -> None:
    options = {"java_script_enabled": False, "storage_state": ada.state(), **PHONE}
    plain = Visitor(browser, site, **options)
    plain.page.goto("/people/")
    drawer = plain.page.locator("#sidebar")

    hidden = not drawer.is_visible()
    plain.page.click(".topbar [popovertarget=sidebar]")
    drawer.locator("a:has-text('Profile and sign-in')").click()
    plain.fill(name="Ada Moreno")
    plain.press("Save")

    assert hidden
    assert "Saved" in plain.page.inner_text("#notices")


def test_escape_closes_the_menu_and_restores_the_focus(ada: Visitor) -> None:
    page = ada.open("/settings/")
    page.click(".person summary")
    opened = page.locator(".person[open]").count()

    page.keyboard.press("Escape")

    assert opened == 1
    assert page.locator(".person[open]").count() == 0
    assert page.evaluate("document.activeElement.closest('.person') !== null")
