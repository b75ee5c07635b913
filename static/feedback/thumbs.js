/* The thumbs below each answer, in the place of a link: pressed as this person has rated. What happens after a click
   is loaded when it is needed. */
import { listen, on, onSwapped } from "../base/dom.js";
import { BEFORE_SWAP, PANEL_SHOWN } from "../base/events.js";

const thumbs = document.getElementById("thumbs");
// As the page names people who have rated (chat/feedback/lines.py).
const reader = document.getElementById("palette").dataset.person.slice(0, 8);
let focused = null;  // the thumb with the focus, while its turn may be rendered again

function show() {
  for (const link of document.querySelectorAll("a[data-rate]")) {
    const raters = link.parentElement.querySelector("[data-raters]")?.dataset.raters ?? "";
    const pair = thumbs.content.cloneNode(true);
    for (const button of pair.children) {
      button.dataset.thumb = link.href;
      button.ariaPressed = String(raters.includes(reader + (button.value > 0 ? "+" : "-")));
    }
    link.replaceWith(pair);
  }
}

function focusAgain() {
  if (!focused || focused.isConnected || document.activeElement !== document.body) return;
  const { dataset: { thumb }, value } = focused;
  document.querySelector(`[data-thumb="${CSS.escape(thumb)}"][value="${value}"]`)?.focus({ preventScroll: true });
}

show();
listen(BEFORE_SWAP, () => { focused = document.activeElement.closest("[data-thumb]"); });
onSwapped(async () => {
  show();
  focusAgain();
  if (!document.getElementById("feedback-list")) return;
  const { refresh } = await import("./rating.js");
  refresh();
});

on("click", "[data-thumb]", async button => {
  const { rate } = await import("./rating.js");
  rate(button);
});

listen(PANEL_SHOWN, () => { if (document.querySelector("#panel-body .feedback-form")) import("./rating.js"); });
