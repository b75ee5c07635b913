"""People at their browsers: a profile for each of them, and as many tabs as they like."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

from tests.support.browser.displays import DESKTOP
from tests.support.browser.seed import PASSWORD
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab
from tests.support.processes.site import World

SCREENSHOTS = Path(__file__).parents[2] / "screenshots"
# Of the tabs of one person: what a test with more of them opens is closed behind it.
MOST_KEPT = 3
# Without animations, whose frames take a quarter of the browser's work, and during which no test should look.
DEFAULTS: dict[str, Any] = {"viewport": DESKTOP, "locale": "en-GB", "reduced_motion": "reduce"}

OpenTab = Callable[..., Tab]


class SignedInSite(Protocol):
    """A site in which people have sessions."""

    world: World

    @property
    def url(self) -> str: ...


# Site, person, and what is special about the profile.
Key = tuple[str, str, str]


def signed_in_context(
    browser: Browser, site: SignedInSite, name: str, **options: Any
) -> BrowserContext:
    """A browser profile; without a name nobody is signed in. ``options`` are Playwright's."""
    context = browser.new_context(**{**DEFAULTS, **options})
    if name:
        add_session(context, site, site.world.sessions[name])
    return context


def add_session(context: BrowserContext, site: SignedInSite, session: str) -> None:
    cookie = {"name": "sessionid", "value": session, "url": site.url}
    context.add_cookies([cookie])  # type: ignore[list-item]


class TabPool:
    """Tabs that are handed from test to test, each reset in between.

    A page loads three times as fast in a tab that has shown the same site before. Only sites that
    outlive a test (``is_shared``) have tabs here. Nobody is signed in where the name is empty. There
    are profiles for each set of options, and for tabs with a clock, because it stays in its profile.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: dict[Key, BrowserContext] = {}
        self._free: dict[Key, list[Tab]] = defaultdict(list)

    def take(
        self, site: BrowserSite, name: str, *, has_clock: bool, options: dict[str, Any]
    ) -> tuple[Key, Tab]:
        key = (site.url, name, f"{has_clock} {sorted(options.items())}")
        if key not in self._contexts:
            self._contexts[key] = signed_in_context(self._browser, site, name, **options)
        tab = self._free[key].pop() if self._free[key] else self._open(key, site)
        if has_clock:
            tab.start_clock()
        return key, tab

    def _open(self, key: Key, site: BrowserSite) -> Tab:
        return Tab(self._contexts[key].new_page(), site)

    def take_back(self, taken: list[tuple[Key, Tab]], *, has_failed: bool) -> None:
        for key in dict(taken):
            tabs = [tab for each, tab in taken if each == key]
            if has_failed or not self._reset(key, tabs):
                # Nobody knows what state the profile is in.
                self._free[key].clear()
                self._contexts.pop(key).close()

    def _reset(self, key: Key, taken: list[Tab]) -> bool:
        """Returns whether the profile is as good as new, and its tabs, too."""
        # The network belongs to the profile: a test may have taken it away and closed its own tab.
        self._contexts[key].set_offline(False)
        left = [tab for tab in taken if tab.leave()]
        idle = [*self._free[key], *left]
        if not idle:
            # The profile has the files of the site in its cache, without which a page takes three times as
            # long.
            fresh = self._open(key, taken[0].site)
            if not fresh.leave():
                # The site has stopped.
                return False
            left = idle = [fresh]
        # Before the storage that they share is emptied: each page could write into it.
        for page in self._contexts[key].pages:
            if page not in {tab.page for tab in idle}:
                page.close()
        self._restore_session(key, idle[0].site)
        for tab in left or idle[:1]:
            tab.reset()
        self._free[key] = idle[:MOST_KEPT]
        for tab in idle[MOST_KEPT:]:
            tab.page.close()
        return True

    def _restore_session(self, key: Key, site: BrowserSite) -> None:
        """A test may have signed out, or in as another."""
        context, name = self._contexts[key], key[1]
        session = site.world.sessions.get(name)
        kept = {cookie.get("name"): cookie.get("value") for cookie in context.cookies(site.url)}
        if kept.get("sessionid") != session or not session:
            context.clear_cookies()
            if session:
                add_session(context, site, session)

    def close(self) -> None:
        for context in self._contexts.values():
            context.close()


class People:
    """What one test does in the browser. ``tab`` gives one of the people a tab."""

    def __init__(self, browser: Browser, pool: TabPool | None = None) -> None:
        self._browser = browser
        self._pool = pool
        self._taken: list[tuple[Key, Tab]] = []
        self._contexts: dict[tuple[str, str], BrowserContext] = {}
        self._opened: list[BrowserContext] = []
        self.tabs: list[Tab] = []

    def tab(
        self,
        site: BrowserSite,
        name: str = "",
        path: str = "",
        *,
        viewport: ViewportSize = DESKTOP,
        has_clock: bool = False,
        is_new: bool = False,
        **options: Any,
    ) -> Tab:
        """With a clock, time passes as ``page.clock`` is told. A new profile has nothing in its cache.
        ``options`` are those of a Playwright context."""
        if self._pool and site.is_shared and not is_new:
            key, tab = self._pool.take(site, name, has_clock=has_clock, options=options)
            self._taken.append((key, tab))
        else:
            tab = Tab(self.profile(site, name, **options).new_page(), site)
            if has_clock:
                tab.start_clock()
        self.tabs.append(tab)
        if viewport != DESKTOP:
            tab.page.set_viewport_size(viewport)
        return tab.open(path) if path else tab

    def profile(self, site: BrowserSite, name: str = "", **options: Any) -> BrowserContext:
        key = (site.url, name)
        if key not in self._contexts or options:
            self._contexts[key] = signed_in_context(self._browser, site, name, **options)
            self._opened.append(self._contexts[key])
        return self._contexts[key]

    def adopt(self, page: Page, site: BrowserSite, path: str = "") -> Tab:
        """A tab for a page that something else has opened."""
        tab = Tab(page, site)
        self.tabs.append(tab)
        return tab.open(path) if path else tab

    def foreign_page(self) -> Page:
        """A page in a profile of its own, for a site that is none of ours."""
        context = self._browser.new_context(locale="en-GB")
        self._opened.append(context)
        page = context.new_page()
        self.tabs.append(Tab(page))
        return page

    def sign_in(self, site: BrowserSite, name: str, path: str = "/") -> Tab:
        """In the profile of nobody, with a session of its own, which a test may end."""
        tab = self.tab(site)
        add_session(tab.page.context, site, site.new_session(name))
        return tab.open(path)

    def fill_sign_in(self, tab: Tab, name: str) -> None:
        tab.page.get_by_label("Email address").fill(f"{name.lower()}@example.org")
        tab.page.get_by_label("Password", exact=True).fill(PASSWORD)
        tab.button("Sign in").click()

    @contextmanager
    def screenshots_on_failure(self, name: str) -> Iterator[None]:
        """For one case of a test with many; a whole test has this by itself."""
        try:
            yield
        except BaseException:
            self._take_screenshots(name)
            raise

    def assert_no_errors(self, test: str, *, has_failed: bool) -> None:
        """No page may break its policy or throw, whatever the test is about."""
        noticed = [each for tab in self.tabs for each in (*tab.violations, *tab.errors)]
        if has_failed or noticed:
            self._take_screenshots(test)
        assert noticed == []

    def _take_screenshots(self, name: str) -> None:
        SCREENSHOTS.mkdir(exist_ok=True)
        safe = re.sub(r"[^\w-]+", "-", name).strip("-")[:120]
        for number, tab in enumerate(self.tabs):
            if not tab.page.is_closed():
                tab.page.screenshot(path=SCREENSHOTS / f"{safe}-{number}.png", timeout=5_000)

    def close(self, *, has_failed: bool = False) -> None:
        for context in self._opened:
            context.close()
        if self._pool:
            self._pool.take_back(self._taken, has_failed=has_failed)
