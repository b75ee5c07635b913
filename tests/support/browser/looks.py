"""The looks of a page: on a desk and on a phone, in light and in dark."""

from collections.abc import Iterable
from typing import Any

from playwright.sync_api import Page

from tests.support.browser.axe import findings

DESKTOP: dict[str, Any] = {"width": 1280, "height": 800}
PHONE: dict[str, Any] = {"width": 390, "height": 844}
COLOURS = ("light", "dark")
Look = tuple[dict[str, Any], str]
LOOKS: list[Look] = [(screen, colours) for screen in (DESKTOP, PHONE) for colours in COLOURS]
# Each screen and each set of colours, for what comes many times.
TWO_LOOKS: list[Look] = [(DESKTOP, "dark"), (PHONE, "light")]

UNFOLD = """() => {
  for (const fold of document.querySelectorAll("main details:not(.menu)")) fold.open = true;
}"""
# What is out of sight is drawn as well: a browser may leave the colours of the look before there.
DRAWN = """() => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("* { content-visibility: visible !important; }");
  document.adoptedStyleSheets = [sheet];
}"""
UNDRAWN = "() => { document.adoptedStyleSheets = []; }"
# The colours that were switched are on the page with its next picture.
SHOWN = """() => new Promise(done => requestAnimationFrame(() => {
  for (const motion of document.getAnimations()) if (motion instanceof CSSTransition) motion.finish();
  requestAnimationFrame(done);
}))"""
# Of an answer, what is too wide is cut off and makes no page wider. Below the page there may be
# something invisible, by which it can be scrolled into the void.
OVERFLOW = """() => {
  const page = document.scrollingElement;
  const beyond = [page, ...document.querySelectorAll("#turns .answer")]
    .filter(box => box.scrollWidth > box.clientWidth)
    .map(box => `${box.scrollWidth - box.clientWidth} px beside ${box.id || "the page"}`);
  const end = Math.max(innerHeight, Math.round(document.body.offsetHeight));
  return page.scrollHeight > end ? [...beyond, `${page.scrollHeight - end} px below`] : beyond;
}"""


def name_of(look: Look) -> str:
    screen, colours = look
    return f"{screen['width']}-{colours}"


def take_on(page: Page, look: Look) -> None:
    screen, colours = look
    # Told a size again, the browser lays the whole page out again.
    if page.viewport_size != screen:
        page.set_viewport_size(screen)  # type: ignore[arg-type]
    page.emulate_media(color_scheme=colours, reduced_motion="reduce")  # type: ignore[arg-type]


def overflow(page: Page) -> list[str]:
    """What lies outside of the page, or of an answer."""
    return list(page.evaluate(OVERFLOW))


def unfold(page: Page) -> None:
    """What is folded away is looked at as well."""
    page.evaluate(UNFOLD)


def found_in(page: Page, looks: Iterable[Look] = LOOKS, *, within: str = "") -> list[str]:
    """Serious findings of axe in each look."""
    found = []
    for look in looks:
        take_on(page, look)
        found += found_now(page, look, within=within)
    return found


def found_now(page: Page, look: Look, *, within: str = "") -> list[str]:
    """Serious findings of axe in the look that the page has taken on."""
    page.evaluate(DRAWN)
    page.evaluate(SHOWN)
    found = [f"{page.url} {name_of(look)}: {each}" for each in findings(page, within=within)]
    page.evaluate(UNDRAWN)
    return found
