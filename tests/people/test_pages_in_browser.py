"""The pages about people in a real browser: the first start, a way in, and no broken policy."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.chromium import launched
from tests.support.processes.site import ROOT, Site, environment

playwright = pytest.importorskip("playwright.sync_api")

PASSWORD = "seven willow rivers"
PAGES = ("/people/", "/settings/", "/accounts/password/change/", "/accounts/reauthenticate/")
PAGES_FOR_STRANGERS = ("/accounts/login/", "/accounts/password/reset/", "/accounts/signup/")
# The browser reports every refused request; a page that is not there is meant to be refused.
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation",
    event => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.process,
    pytest.mark.needs("chromium"),
]

Page = Any
Browser = Any


@pytest.fixture(autouse=True)
def _close_connections() -> None:
    """No database here, and the browser's event loop would forbid its use."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, migrated_database: Path) -> Path:
    folder = tmp_path_factory.mktemp("people")
    shutil.copy(migrated_database, folder / "tributary.sqlite3")
    return folder


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[Site]:
    site = Site(folder, None, None)  # type: ignore[arg-type]  # nothing is seeded
    site.start()
    yield site
    site.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with playwright.sync_playwright() as runner, launched(runner) as browser:
        yield browser


class Person:
    """Somebody at a browser of their own; remembers what the browser complained about."""

    def __init__(self, browser: Browser, site: Site, **options: object) -> None:
        self._context = browser.new_context(
            base_url=f"http://localhost:{site.port}", reduced_motion="reduce", **options
        )
        self.page: Page = self._context.new_page()
        self.complaints: list[str] = []
        self.page.add_init_script(WATCH)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, path: str) -> Page:
        self.page.goto(path)
        self.complaints.extend(self.page.evaluate("window.violations"))
        return self.page

    def fill(self, **fields: str) -> None:
        for name, value in fields.items():
            self.page.fill(f"[name={name}]", value)

    def press(self, words: str) -> None:
        self.page.click(f"button:has-text('{words}') >> visible=true")
        self.page.wait_for_load_state()

    def state(self) -> Any:
        return self._context.storage_state()

    def too_wide_by(self) -> int:
        root = "document.documentElement"
        return int(self.page.evaluate(f"{root}.scrollWidth - {root}.clientWidth"))


@pytest.fixture(scope="module")
def setup_path(site: Site, folder: Path) -> str:
    """Where the command says that the first account is made."""
    made = subprocess.run(
        [sys.executable, "manage.py", "setup_link"],
        cwd=ROOT,
        env=environment(folder),
        check=True,
        capture_output=True,
        text=True,
    )
    return urlsplit(made.stdout.strip()).path


@pytest.fixture(scope="module")
def first_person(browser: Browser, site: Site, setup_path: str) -> Person:
    """The first administrator, just come in by the setup link."""
    ada = Person(browser, site, viewport={"width": 1280, "height": 800})
    ada.open(setup_path)
    ada.fill(name="Ada Moreno", email="ada@example.org", password=PASSWORD, team_name="River")
    ada.press("Create and begin")
    return ada


@pytest.fixture
def ada(browser: Browser, site: Site, first_person: Person) -> Person:
    viewport = {"width": 1280, "height": 800}
    return Person(browser, site, viewport=viewport, storage_state=first_person.state())


def _invite(ada: Person) -> str:
    """The path of a new invitation's link."""
    ada.open("/people/").click("summary:has-text('Invite by link')")
    ada.press("Make the link")
    return urlsplit(ada.page.input_value("#secret")).path


def _join(browser: Browser, site: Site, path: str, name: str) -> Person:
    person = Person(browser, site, viewport={"width": 360, "height": 740})
    person.open(path)
    person.fill(name=name, email=f"{name.split()[0].lower()}@example.org", password=PASSWORD)
    person.press("Create my account and join")
    return person


def test_the_first_person_lets_another_in(browser: Browser, site: Site, ada: Person) -> None:
    nora = _join(browser, site, _invite(ada), "Nora Lind")

    assert urlsplit(nora.page.url).path == "/"
    assert "Nora Lind" in ada.open("/people/").inner_text("main")
    assert "River" in nora.open("/people/").inner_text("main")
    assert ada.complaints == nora.complaints == []


def test_password_can_be_shown_and_hidden(browser: Browser, site: Site, ada: Person) -> None:
    stranger = Person(browser, site)
    page = stranger.open("/accounts/login/")
    button = page.locator("[data-reveal]")

    button.click()
    shown = page.get_attribute("[name=password]", "type")
    button.click()

    assert shown == "text"
    assert page.get_attribute("[name=password]", "type") == "password"
    assert button.get_attribute("aria-pressed") == "false"


def test_removal_asks_first(browser: Browser, site: Site, ada: Person) -> None:
    _join(browser, site, _invite(ada), "Rufus Beck")
    page = ada.open("/people/")
    row = page.locator(".person-row:has-text('Rufus Beck')").first

    row.locator("summary").click()
    ada.press("Remove from the team")
    asked = page.inner_text("#confirm-text")
    ada.press("Cancel")
    kept = "Rufus Beck" in ada.open("/people/").inner_text("section >> nth=0")
    page.locator(".person-row:has-text('Rufus Beck')").first.locator("summary").click()
    ada.press("Remove from the team")
    page.click("#confirm-go")
    page.wait_for_selector(".notice-good")

    assert "Remove Rufus Beck from River?" in asked
    assert kept
    assert "Rufus Beck is no longer in River" in page.inner_text("#notices")
    assert ada.complaints == []


def test_role_changes_with_the_choice(browser: Browser, site: Site, ada: Person) -> None:
    _join(browser, site, _invite(ada), "Vera Okafor")
    page = ada.open("/people/")

    page.select_option("select[aria-label='Role of Vera Okafor']", "viewer")
    page.wait_for_selector(".notice-good")

    assert "Vera Okafor is now a viewer of River" in page.inner_text("#notices")


def test_drawer_and_forms_work_without_scripts(browser: Browser, site: Site, ada: Person) -> None:
    plain = Person(
        browser,
        site,
        viewport={"width": 360, "height": 740},
        java_script_enabled=False,
        storage_state=ada.state(),
    )
    plain.page.goto("/people/")
    drawer = plain.page.locator("#sidebar")

    hidden = not drawer.is_visible()
    plain.page.click(".topbar [popovertarget=sidebar]")
    drawer.locator("a:has-text('Profile and security')").click()
    plain.fill(name="Ada Moreno")
    plain.press("Save")

    assert hidden
    assert "Saved." in plain.page.inner_text("#notices")


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_pages_fit_and_keep_the_policy(
    browser: Browser, site: Site, ada: Person, width: int
) -> None:
    viewport = {"width": width, "height": 800}
    signed_in = Person(browser, site, viewport=viewport, storage_state=ada.state())
    stranger = Person(browser, site, viewport=viewport)
    wide = {}

    for person, paths in ((signed_in, PAGES), (stranger, PAGES_FOR_STRANGERS)):
        for path in paths:
            person.open(path)
            wide[path] = person.too_wide_by()

    assert {path: by for path, by in wide.items() if by > 0} == {}
    assert signed_in.complaints == stranger.complaints == []


def test_menu_closes_with_escape_and_gives_the_focus_back(ada: Person) -> None:
    page = ada.open("/settings/")
    page.click(".person summary")
    opened = page.locator(".person[open]").count()

    page.keyboard.press("Escape")

    assert opened == 1
    assert page.locator(".person[open]").count() == 0
    assert page.evaluate("document.activeElement.closest('.person') !== null")
