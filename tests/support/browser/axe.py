"""What axe-core finds on a page that keeps somebody from using it."""

from pathlib import Path

from playwright.sync_api import Page

SOURCE = (Path(__file__).parent / "vendor" / "axe" / "axe.min.js").read_text()
# By evaluation, which the page's policy lets pass: a script element of ours it would refuse.
IS_MISSING = "() => window.axe === undefined"
# A rule that knows how grave it is when it is broken, and is not, need not be tried.
RUN = """async within => {
  const isGrave = impact => impact === "serious" || impact === "critical";
  const mild = axe._audit.rules.filter(({impact}) => impact && !isGrave(impact));
  const rules = Object.fromEntries(mild.map(({id}) => [id, {enabled: false}]));
  const {violations} = await axe.run(
    within || document, {resultTypes: ["violations"], preload: false, rules});
  return violations
    .filter(({impact}) => isGrave(impact))
    .flatMap(({id, nodes}) => nodes.map(({target, html, failureSummary}) =>
      `${id} at ${target.join(" ")}: ${html.slice(0, 300)} ${failureSummary}`));
}"""


def findings(page: Page, *, within: str = "") -> list[str]:
    """The serious and critical ones, one sentence for each element; of the whole page, or within
    the elements that a selector names."""
    if page.evaluate(IS_MISSING):
        page.evaluate(SOURCE)
    return list(page.evaluate(RUN, within))
