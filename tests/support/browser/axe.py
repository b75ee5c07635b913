"""What axe-core finds on a page that keeps somebody from using it."""

from pathlib import Path

from playwright.sync_api import Page

SOURCE = (Path(__file__).parent / "vendor" / "axe" / "axe.min.js").read_text()
# By evaluation, which the page's policy lets pass; it would refuse a script element of ours.
IS_MISSING = "() => window.axe === undefined"
# What depends on colors alone: all else is the same in light and in dark.
COLOR_RULES = ("color-contrast", "link-in-text-block")
# Rules of which no violation is serious are not tried.
RUN = """async ([within, only, everything]) => {
  const isSerious = impact => everything || impact === "serious" || impact === "critical";
  const mild = axe._audit.rules.filter(({impact}) => impact && !isSerious(impact));
  const rules = Object.fromEntries(mild.map(({id}) => [id, {enabled: false}]));
  const {violations} = await axe.run(within || document, {
    resultTypes: ["violations"], preload: false, ...(only.length ? {runOnly: only} : {rules})});
  return violations
    .filter(({impact}) => isSerious(impact))
    .flatMap(({id, nodes}) => nodes.map(({target, html, failureSummary}) =>
      `${id} at ${target.join(" ")}: ${html.slice(0, 300)} ${failureSummary}`));
}"""


def findings(
    page: Page, *, within: str = "", only_colors: bool = False, also_mild: bool = False
) -> list[str]:
    """The serious and critical ones or all, one sentence for each element; of the whole page, or
    within the elements that a selector names."""
    if page.evaluate(IS_MISSING):
        page.evaluate(SOURCE)
    return list(page.evaluate(RUN, [within, COLOR_RULES if only_colors else (), also_mild]))
