/* Find in conversation: the panel of hits. A hit in a turn that is on the page is shown beside it; others
   lead to a page that has the turn, where the panel opens again with the same search. */
import { isPlainClick, listen, ofTab, on } from "../base/dom.js";
import { PANEL_SHOWN } from "../base/events.js";
import { showHitOf } from "./marks.js";

const AGAIN = "find-again";
const opener = document.getElementById("to-find");
// As in base/panel.js: where the panel would lie over the turn.
const narrow = matchMedia("(width < 64rem)");

on("click", "#to-find", link => { link.closest("details")?.removeAttribute("open"); });

const field = () => document.querySelector("#panel-body [data-find-here] input");

listen(PANEL_SHOWN, () => { field()?.focus(); });

on("click", "#panel-body a[data-turn-link]", (link, event) => {
  if (!isPlainClick(event)) return;
  if (!document.querySelector(`#turns ${CSS.escape(link.hash).replace("\\#", "#")}`)) {
    ofTab.set(AGAIN, `${opener.pathname}?${new URLSearchParams({ q: field().value })}`);
    return;
  }
  event.preventDefault();
  // By its place: a window that has no room for both closes the panel.
  location.hash = link.hash;
  showHitOf(new URL(link.href));
});

const again = ofTab.get(AGAIN);
ofTab.set(AGAIN, null);
if (again?.startsWith(opener.pathname) && !narrow.matches) {
  document.addEventListener("DOMContentLoaded", () => {
    const { href } = opener;
    opener.href = again;
    opener.click();
    opener.href = href;
  });
}
