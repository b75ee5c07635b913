/* Commenting on what was selected: a button beside the selection, and the action of the turn, which does the same
   for the keyboard. */
import { element, listen, on } from "../base/dom.js";
import { PANEL_SHOWN } from "../base/events.js";
import { gettext } from "../base/i18n.js";
import { anchorOf } from "./anchors.js";
import { activate } from "./passages.js";

// A selection that is still being made is left alone.
const PAUSE_MS = 200;
const GAP = 8;
const PARTS = ".item[id], .answer[id], .turn-body[id]";
const turns = document.getElementById("turns");
const isCoarse = matchMedia("(pointer: coarse)");
let pending = null;  // {turn, anchor, range} for the form that the panel is about to show
let timer = null;
let isPressed = false;

/* --- the selection --- */
const elementAt = node => node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement;

/* The selected passage of one turn, or null. */
function selected() {
  const selection = document.getSelection();
  if (selection.isCollapsed || !selection.rangeCount) return null;
  const range = selection.getRangeAt(0).cloneRange();
  const within = elementAt(range.commonAncestorContainer).closest(PARTS);
  const part = within ?? elementAt(range.startContainer).closest(PARTS);
  const turn = part?.closest("#turns > .turn");
  if (!turn) return null;
  // A click on a paragraph three times also selects the place where the next one begins.
  if (!within) range.setEnd(part, part.childNodes.length);
  const anchor = anchorOf(part, range);
  return anchor && { turn, anchor, range };
}

/* --- the button --- */
const button = element("button", { type: "button", className: "button button-small comment-float", hidden: true });
button.append(element("span", {}, gettext("Comment")));
document.body.append(button);

function hide() {
  clearTimeout(timer);
  if (!button.hidden) button.hidden = true;
}

function offer() {
  const found = isPressed ? null : selected();
  const action = found?.turn.querySelector(":scope > footer > [data-comment]");
  if (!action) return hide();
  if (button.childElementCount === 1) button.prepend(action.querySelector("svg").cloneNode(true));
  button.hidden = false;
  place(found.range);
}

// Above the selection; below it where fingers and the browser's own menu are above.
function place(range) {
  const rects = range.getClientRects();
  const [first, last] = [rects[0], rects[rects.length - 1]];
  if (!first || last.bottom < 0 || first.top > innerHeight) return hide();
  const { offsetWidth: width, offsetHeight: height } = button;
  const isBelow = isCoarse.matches || first.top < height + 8 * GAP;
  const top = isBelow ? last.bottom + (isCoarse.matches ? 3 : 1) * GAP : first.top - height - GAP;
  const left = isBelow ? last.right - width / 2 : first.left;
  button.style.top = `${Math.min(Math.max(top, GAP), innerHeight - height - GAP)}px`;
  button.style.left = `${Math.min(Math.max(left, GAP), document.documentElement.clientWidth - width - GAP)}px`;
}

function offerSoon() {
  hide();
  timer = setTimeout(offer, PAUSE_MS);
}

document.addEventListener("selectionchange", event => { if (event.target === document) offerSoon(); });
addEventListener("pointerdown", event => {
  isPressed = !button.contains(event.target);
  if (isPressed) hide();
}, { capture: true, passive: true });
for (const type of ["pointerup", "pointercancel"]) {
  addEventListener(type, () => {
    if (isPressed) offerSoon();
    isPressed = false;
  }, { capture: true, passive: true });
}
addEventListener("scroll", () => { if (!button.hidden) offerSoon(); }, { passive: true });
addEventListener("resize", hide);
document.addEventListener("keydown", event => { if (event.key === "Escape") hide(); });

// The selection stays while it is pressed.
button.addEventListener("mousedown", event => event.preventDefault());
button.addEventListener("click", () => {
  const found = selected();
  hide();
  found?.turn.querySelector(":scope > footer > [data-comment]").click();
});

/* --- the form --- */
on("click", "#turns a[data-comment]", link => {
  const found = selected();
  pending = found?.turn === link.closest(".turn") ? found : null;
}, true);

listen(PANEL_SHOWN, () => {
  const form = document.querySelector("#panel-body .comment-new");
  const passage = pending;
  pending = null;
  if (!form || passage?.turn.dataset.turn !== form.dataset.ofTurn) return;
  for (const [name, value] of Object.entries(passage.anchor)) form.elements.namedItem(name).value = value;
  const quote = form.querySelector(".comment-quote");
  quote.textContent = passage.anchor.quote;
  quote.hidden = false;
  form.querySelector(".label").textContent = gettext("Comment on this passage");
  activate(passage.range);
});
