"""Opens the page of a screen at each width, takes its pictures in light and in dark colors, and checks
on each of them that the page is accessible and fits its width."""

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page
from playwright.sync_api import Error as PlaywrightError

from tests.screens.stage import Stage
from tests.screens.states import Missing, settle
from tests.screens.table import Screen
from tests.support.browser.axe import findings
from tests.support.browser.displays import PAINT_ALL, PAINT_AS_USUAL, overflow
from tests.support.browser.people import signed_in_context

# At 360 px as on a phone: what appears under a pointer elsewhere is always shown there.
SIZES: dict[int, dict[str, Any]] = {
    360: {"viewport": {"width": 360, "height": 760}, "is_mobile": True, "has_touch": True},
    1280: {"viewport": {"width": 1280, "height": 800}},
}
COLORS = ("light", "dark")
# Of one action. A state that cannot be opened must not hold up the others for long.
PATIENCE_MS = 8_000
# The views of one page, of which only one is shown at a time.
TABS = "main [role=tablist] [role=tab], main nav.tabs a"


HEIGHT = "() => document.scrollingElement.scrollHeight"
# No page of interest is higher; Chromium draws no picture beyond 16,384.
MOST_PIXELS = 12_000


class Camera:
    def __init__(self, browser: Browser, stage: Stage, folder: Path) -> None:
        self._browser = browser
        self._stage = stage
        self._folder = folder
        self._contexts: dict[tuple[str, int], BrowserContext] = {}
        self.written = 0
        # What is wrong on the screens that were taken, in one sentence for each element.
        self.faults: list[str] = []

    def take(self, screen: Screen) -> list[str]:
        """Writes the pictures of one screen. Returns what is missing of them, with the reason."""
        # An older run's picture must not pass for one of this run.
        for old in (
            *self._folder.glob(f"{screen.name}.*.png"),
            *self._folder.glob(f"{screen.name}-tab*.png"),
        ):
            old.unlink()
        missing = []
        for width in SIZES:
            try:
                self._take_at(screen, width)
            except Exception as error:  # the other screens go on, whatever it is
                missing.append(f"{screen.name}.{width}: {_first_line(error)}")
        return missing

    def _take_at(self, screen: Screen, width: int) -> None:
        address = self._stage.address(screen.path)
        with self._page(screen.who, width) as page:
            answer = page.goto(address)
            status = answer.status if answer else 0
            if status not in screen.statuses:
                raise Missing(f"{address} answered {status}")
            settle(page)
            if screen.open:
                screen.open(page)
                settle(page)
            self._shoot(page, screen, f"{screen.name}.{width}")
            if screen.has_tabs:
                self._take_tabs(page, screen, width)

    def _take_tabs(self, page: Page, screen: Screen, width: int) -> None:
        for number in range(1, page.locator(TABS).count()):
            tab = page.locator(TABS).nth(number)
            if tab.is_visible():
                tab.click()
                settle(page)
                self._shoot(page, screen, f"{screen.name}-tab{number + 1}.{width}")

    def _shoot(self, page: Page, screen: Screen, name: str) -> None:
        self.faults += [f"{name}: {each}" for each in overflow(page)]
        with contextlib.nullcontext() if screen.is_window else whole(page):
            for colors in COLORS:
                page.emulate_media(color_scheme=colors, reduced_motion="reduce")
                # What is out of sight would otherwise keep the colors of the picture before.
                page.evaluate(PAINT_ALL)
                page.screenshot(
                    path=self._folder / f"{name}.{colors}.png", full_page=not screen.is_window
                )
                # All but the colors is the same in both.
                is_known = colors != COLORS[0]
                found = findings(page, only_colors=is_known, also_mild=screen.is_strict)
                self.faults += [f"{name}.{colors}: {each}" for each in found]
                page.evaluate(PAINT_AS_USUAL)
                self.written += 1

    @contextlib.contextmanager
    def _page(self, who: str, width: int) -> Iterator[Page]:
        key = (who, width)
        if key not in self._contexts:
            context = signed_in_context(
                self._browser, self._stage.site, who, reduced_motion="reduce", **SIZES[width]
            )
            # The site has a name, too.
            own = [{**cookie, "domain": "localhost"} for cookie in context.cookies()]
            context.add_cookies(own)  # type: ignore[arg-type]
            self._contexts[key] = context
        page = self._contexts[key].new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.emulate_media(color_scheme=COLORS[0], reduced_motion="reduce")
        try:
            yield page
        finally:
            with contextlib.suppress(PlaywrightError):
                # A draft of one screen must not be in the composer of the next.
                page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
            page.close()


@contextlib.contextmanager
def whole(page: Page) -> Iterator[None]:
    """Meanwhile the window is as high as the page: in a picture of more than the window, what sticks
    to its top or bottom would lie across the middle."""
    before = page.viewport_size
    assert before is not None
    for _ in range(2):
        height = min(page.evaluate(HEIGHT), MOST_PIXELS)
        # What is as high as the window may make the page higher when the window is.
        if height > page.evaluate("() => innerHeight"):
            page.set_viewport_size({"width": before["width"], "height": height})
            page.wait_for_timeout(100)
    try:
        yield
    finally:
        page.set_viewport_size(before)


def _first_line(error: Exception) -> str:
    lines = itertools.islice((line for line in str(error).splitlines() if line.strip()), 1)
    return next(lines, type(error).__name__)
