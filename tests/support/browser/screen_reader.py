"""What the page's two live regions have said to a screen reader."""

from itertools import pairwise

from tests.support.browser.tab import Tab

# Least time between two sentences of a region; the page's own is half a second.
LEAST_GAP_MS = 490
# What is in a region after each change, and when it came. An observer is told only when the task
# that changed it is over, which on a busy page is some milliseconds later.
LISTEN = """() => {
  window.heard = [];
  for (const id of ["polite", "assertive"]) {
    const region = document.getElementById(id);
    let at;
    region.replaceChildren = (...nodes) => {
      at = performance.now();
      Element.prototype.replaceChildren.apply(region, nodes);
    };
    new MutationObserver(() => window.heard.push([id, region.textContent, at ?? performance.now()]))
      .observe(region, {childList: true, characterData: true, subtree: true});
  }
}"""


def listen(tab: Tab) -> None:
    """Records the announcements of this page from now on."""
    tab.page.evaluate(LISTEN)


def announced(tab: Tab, region: str = "polite") -> list[str]:
    return [text for id, text, _ in tab.page.evaluate("() => window.heard") if id == region]


def until_announced(tab: Tab, part: str, region: str = "polite") -> None:
    tab.until(lambda: part in "\n".join(announced(tab, region)), f"“{part}” is announced")


def assert_apart(tab: Tab) -> None:
    """No sentence of a region replaces another before that could be spoken."""
    for region in ("polite", "assertive"):
        at = [moment for id, _, moment in tab.page.evaluate("() => window.heard") if id == region]
        assert all(later - earlier >= LEAST_GAP_MS for earlier, later in pairwise(at)), at
