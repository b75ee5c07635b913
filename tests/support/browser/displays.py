"""The displays on which pages are looked at: a desktop and a phone, in light and in dark colors."""

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from playwright.sync_api import Page, ViewportSize

from tests.support.browser.axe import findings

DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}


HAS_COLORS = """colors => matchMedia(`(prefers-color-scheme: ${colors})`).matches
  && matchMedia("(prefers-reduced-motion: reduce)").matches"""


@dataclass(frozen=True)
class Display:
    name: str
    viewport: ViewportSize
    colors: str

    def __str__(self) -> str:
        return self.name

    def show(self, page: Page) -> None:
        # Told a size or colors again, the browser lays the whole page out or styles it again.
        if page.viewport_size != self.viewport:
            page.set_viewport_size(self.viewport)
        if not page.evaluate(HAS_COLORS, self.colors):
            page.emulate_media(color_scheme=self.colors, reduced_motion="reduce")  # type: ignore[arg-type]


DESKTOP_LIGHT = Display("desktop light", DESKTOP, "light")
DESKTOP_DARK = Display("desktop dark", DESKTOP, "dark")
PHONE_LIGHT = Display("phone light", PHONE, "light")
PHONE_DARK = Display("phone dark", PHONE, "dark")
# In this order only one step changes the size.
ALL_DISPLAYS = (DESKTOP_LIGHT, DESKTOP_DARK, PHONE_DARK, PHONE_LIGHT)
# Each size and each set of colors once, for what comes many times.
TWO_DISPLAYS = (DESKTOP_DARK, PHONE_LIGHT)

OPEN_DETAILS = """() => {
  for (const fold of document.querySelectorAll("main details:not(.menu)")) fold.open = true;
}"""
# What is out of sight is painted as well: a browser may leave it in the colors of the display
# before. The colors that were switched are on the page with its next frame.
PAINT_ALL = """() => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("* { content-visibility: visible !important; }");
  document.adoptedStyleSheets = [sheet];
  return new Promise(done => requestAnimationFrame(() => {
    for (const motion of document.getAnimations()) if (motion instanceof CSSTransition) motion.finish();
    requestAnimationFrame(done);
  }));
}"""
PAINT_AS_USUAL = "() => { document.adoptedStyleSheets = []; }"
# In an answer, what is too wide is cut off and makes no page wider. Below the page there may be
# something invisible, by which it can be scrolled into the void.
OVERFLOW = """() => {
  const page = document.scrollingElement;
  const beyond = [page, ...document.querySelectorAll("#turns .answer")]
    .filter(box => box.scrollWidth > box.clientWidth)
    .map(box => `${box.scrollWidth - box.clientWidth} px beside ${box.id || "the page"}`);
  const end = Math.max(innerHeight, Math.round(document.body.offsetHeight));
  return page.scrollHeight > end ? [...beyond, `${page.scrollHeight - end} px below`] : beyond;
}"""


def overflow(page: Page) -> list[str]:
    """What lies outside of the page, or of an answer."""
    return list(page.evaluate(OVERFLOW))


def open_details(page: Page) -> None:
    """Opens everything that is folded away."""
    page.evaluate(OPEN_DETAILS)


def display_of(page: Page) -> Display:
    """A desktop, in light colors for some pages and in dark ones for others."""
    name = re.sub(r"[0-9a-f-]{32,}", "", urlsplit(page.url).path)
    return (DESKTOP_LIGHT, DESKTOP_DARK)[zlib.crc32(name.encode()) % 2]


def serious_findings(
    page: Page, displays: Iterable[Display] = (), *, within: str = ""
) -> list[str]:
    """Serious findings of axe on each display, beginning with the size that the page has; without
    displays on one that the address of the page decides about. All of them are for `make screenshots`."""
    found = []
    sizes: list[ViewportSize] = []
    for display in sorted(
        displays or (display_of(page),), key=lambda each: each.viewport != page.viewport_size
    ):
        display.show(page)
        is_known = display.viewport in sizes
        found += serious_findings_now(page, display, within=within, only_colors=is_known)
        sizes.append(display.viewport)
    return found


def serious_findings_now(
    page: Page,
    display: Display,
    *,
    within: str = "",
    only_colors: bool = False,
    also_mild: bool = False,
) -> list[str]:
    """Serious findings of axe, or all, on the display on which the page is."""
    page.evaluate(PAINT_ALL)
    found = findings(page, within=within, only_colors=only_colors, also_mild=also_mild)
    page.evaluate(PAINT_AS_USUAL)
    return [f"{page.url} {display.name}: {each}" for each in found]
