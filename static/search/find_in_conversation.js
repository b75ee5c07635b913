/* Find in conversation: the panel of hits. A hit in a turn that is on the page is shown beside it; others
   lead to a page that has the turn. */
import { isPlainClick, listen, on } from "../base/dom.js";
import { PANEL_SHOWN } from "../base/events.js";
import { showHitOf } from "./marks.js";

on("click", "#to-find", link => { link.closest("details").open = false; });

listen(PANEL_SHOWN, () => { document.querySelector("#panel-body [data-find-here] input")?.focus(); });

on("click", "#panel-body a[data-turn-link]", (link, event) => {
  if (!isPlainClick(event) || !document.querySelector(`#turns ${CSS.escape(link.hash).replace("\\#", "#")}`)) return;
  event.preventDefault();
  // By its place: a window that has no room for both closes the panel.
  location.hash = link.hash;
  showHitOf(new URL(link.href));
});
