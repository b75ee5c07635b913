"""A browser and a site for each worker, tabs for people, screenshots of what failed."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from tests.support.browser.people import OpenTab, People, TabPool
from tests.support.browser.scenes import SPEED, SceneSite
from tests.support.browser.site import BrowserSite, free_port
from tests.support.browser.tab import Tab
from tests.support.chromium import launched
from tests.support.processes.seeded import seeded_once
from tests.support.processes.site import World, site_from
from tests.support.upstream.fake import FakeUpstream

HERE = Path(__file__).parent
# As many as one test file puts in front of the shared site.
PROXIES = 8
LOG_CHARACTERS = 6000


# Before the hook that leaves out slow tests.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All flows of this folder are slow but those marked ``smoke``, which `make test` runs."""
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.browser)
        if item.path.name != "test_other_engines.py":
            item.add_marker(pytest.mark.needs("chromium"))
        if item.get_closest_marker("smoke") is None:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds the server's log to the report of a failure."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.when == "call":
        item.stash[HAS_FAILED] = report.failed
    used = getattr(item, "funcargs", {}) if report.failed else {}
    for site in {each for each in used.values() if isinstance(each, BrowserSite)}:
        report.sections.append(("end of the server's log", site.log[-LOG_CHARACTERS:]))
    return report  # type: ignore[return-value]


HAS_FAILED: pytest.StashKey[bool] = pytest.StashKey()


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
def tab_pool(browser: Browser) -> Iterator[TabPool]:
    pool = TabPool(browser)
    yield pool
    pool.close()


@pytest.fixture(scope="package")
def seeded() -> tuple[Path, World]:
    return seeded_once("tests.support.browser.seed")


@pytest.fixture(scope="package")
def shared_site(
    seeded: tuple[Path, World], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrowserSite]:
    folder, world = seeded
    with site_from(
        folder, tmp_path_factory.mktemp("shared") / "data", world, kind=BrowserSite
    ) as site:
        site.is_shared = True
        site.proxy_ports = [free_port() for _ in range(PROXIES)]
        site.start()
        yield site


@pytest.fixture
def site(shared_site: BrowserSite) -> Iterator[BrowserSite]:
    """A running site, which other tests use, too: a test leaves its people and settings unchanged."""
    yield shared_site
    shared_site.settle()


@pytest.fixture(scope="package")
def scene_site(
    seeded: tuple[Path, World], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SceneSite]:
    """A site with the demo's servers."""
    template, world = seeded
    folder = tmp_path_factory.mktemp("scenes") / "data"
    shutil.copytree(template, folder)
    fake = FakeUpstream.start_in_thread(speed=SPEED)
    site = SceneSite(folder, world, fake)
    site.is_shared = True
    try:
        site.furnish()
        site.start()
        yield site
    finally:
        site.close()
        fake.stop()


@pytest.fixture
def own_site(seeded: tuple[Path, World], tmp_path: Path) -> Iterator[BrowserSite]:
    """A site for one test, not yet started, for a test that kills it or needs other settings."""
    folder, world = seeded
    with site_from(folder, tmp_path / "data", world, kind=BrowserSite) as site:
        yield site


@pytest.fixture
def people(browser: Browser, tab_pool: TabPool, request: pytest.FixtureRequest) -> Iterator[People]:
    people = People(browser, tab_pool)
    yield people
    has_failed = request.node.stash.get(HAS_FAILED, False)
    try:
        people.assert_no_errors(request.node.name, has_failed=has_failed)
    finally:
        people.close(has_failed=has_failed)


@pytest.fixture
def tab(people: People, site: BrowserSite) -> OpenTab:
    """``tab("Alice", "/")``: a tab of the shared site."""

    def open_tab(name: str = "", path: str = "", **options: Any) -> Tab:
        return people.tab(site, name, path, **options)

    return open_tab
