"""A browser and a site for each worker, tabs for people, screenshots of what failed."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright

from tests.support.browser.seed import PASSWORD
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab
from tests.support.chromium import launched
from tests.support.processes.site import World, seed, site_from

HERE = Path(__file__).parent
SCREENSHOTS = HERE.parent / "screenshots"


# Before the hook that leaves out what is slow.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All flows of this folder are slow but those marked ``smoke``, which `make test` runs."""
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.browser)
        item.add_marker(pytest.mark.needs("chromium"))
        if item.get_closest_marker("smoke") is None:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report  # type: ignore[return-value]


FAILED: pytest.StashKey[bool] = pytest.StashKey()


@pytest.fixture(autouse=True)
def _close_connections() -> None:
    """No database in this process, and the browser's event loop would forbid its use."""


# Of the package, not of the session: while it lives, Playwright's event loop counts as running
# in this thread, where other tests want loops and databases of their own.
@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    with launched(playwright) as browser:
        yield browser


@pytest.fixture(scope="package")
def seeded(tmp_path_factory: pytest.TempPathFactory, migrated_database: Path) -> tuple[Path, World]:
    folder = tmp_path_factory.mktemp("seeded")
    shutil.copy(migrated_database, folder / "tributary.sqlite3")
    return folder, seed(folder, module="tests.support.browser.seed")


@pytest.fixture(scope="package")
def shared_site(
    seeded: tuple[Path, World], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrowserSite]:
    folder, world = seeded
    with site_from(
        folder, tmp_path_factory.mktemp("shared") / "data", world, kind=BrowserSite
    ) as site:
        site.start()
        yield site


@pytest.fixture
def site(shared_site: BrowserSite) -> Iterator[BrowserSite]:
    """A running site that other tests use before and after; the people in it stay as they are."""
    yield shared_site
    shared_site.settle()


@pytest.fixture
def own_site(seeded: tuple[Path, World], tmp_path: Path) -> Iterator[BrowserSite]:
    """A site of one's own, not yet started, for a test that kills it or sends people away."""
    folder, world = seeded
    with site_from(folder, tmp_path / "data", world, kind=BrowserSite) as site:
        yield site


class People:
    """Opens tabs: each person has a browser profile of their own, and as many tabs as they like."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: dict[tuple[str, int], BrowserContext] = {}
        self._opened: list[BrowserContext] = []
        self.tabs: list[Tab] = []

    def profile(self, site: BrowserSite, name: str = "", **options: Any) -> BrowserContext:
        """``name`` is signed in there; nobody is without one. ``options`` are Playwright's."""
        key = (name, site.port)
        if key not in self._contexts or options:
            options = {"viewport": {"width": 1280, "height": 800}, "locale": "en-GB", **options}
            context = self._browser.new_context(**options)
            if name:
                cookie = {"name": "sessionid", "value": site.world.sessions[name], "url": site.url}
                context.add_cookies([cookie])  # type: ignore[list-item]
            self._contexts[key] = context
            self._opened.append(context)
        return self._contexts[key]

    def tab(self, site: BrowserSite, name: str = "", path: str = "", **options: Any) -> Tab:
        return self.adopt(self.profile(site, name, **options).new_page(), site, path)

    def adopt(self, page: Page, site: BrowserSite, path: str = "") -> Tab:
        tab = Tab(page, site)
        self.tabs.append(tab)
        return tab.open(path) if path else tab

    def strange_page(self) -> Page:
        """A page in a profile of its own, for a site that is none of ours."""
        context = self._browser.new_context(locale="en-GB")
        self._opened.append(context)
        page = context.new_page()
        self.tabs.append(Tab(page))
        return page

    def sign_in(self, site: BrowserSite, name: str, path: str) -> Tab:
        """By the form: with a session of one's own, which a test may end."""
        tab = self.adopt(self.profile(site).new_page(), site, path)
        self.fill_sign_in(tab, name)
        tab.page.wait_for_url(f"{site.url}{path}")
        return tab

    def fill_sign_in(self, tab: Tab, name: str) -> None:
        tab.page.get_by_label("E-mail address").fill(f"{name.lower()}@example.org")
        tab.page.get_by_label("Password", exact=True).fill(PASSWORD)
        tab.button("Sign in").click()

    def photograph(self, name: str) -> None:
        SCREENSHOTS.mkdir(exist_ok=True)
        safe = re.sub(r"[^\w-]+", "-", name).strip("-")[:120]
        for number, tab in enumerate(self.tabs):
            if not tab.page.is_closed():
                tab.page.screenshot(path=SCREENSHOTS / f"{safe}-{number}.png", timeout=5_000)

    def assert_quiet(self, test: pytest.Item) -> None:
        """No page may break its policy or throw, whatever the test is about."""
        noticed = [each for tab in self.tabs for each in (*tab.violations, *tab.errors)]
        if test.stash.get(FAILED, False) or noticed:
            self.photograph(test.name)
        assert noticed == []

    def close(self) -> None:
        for tab in self.tabs:
            tab.page.close()
        for context in self._opened:
            context.close()


@pytest.fixture
def people(browser: Browser, request: pytest.FixtureRequest) -> Iterator[People]:
    people = People(browser)
    yield people
    try:
        people.assert_quiet(request.node)
    finally:
        people.close()


OpenTab = Callable[..., Tab]


@pytest.fixture
def tab(people: People, site: BrowserSite) -> OpenTab:
    """``tab("Alice", "/")``: a tab of the shared site."""

    def open_tab(name: str = "", path: str = "", **options: Any) -> Tab:
        return people.tab(site, name, path, **options)

    return open_tab
