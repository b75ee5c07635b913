/* Brings back what the virtual list has put away for people who follow a link, press Tab, copy or print. */
import { on } from "../base/dom.js";
import { bringBack, elementsOf, farSections } from "./virtual_list.js";

const turns = document.getElementById("turns");
const FOCUSABLE = "a[href], button, input, select, textarea, summary, iframe, [tabindex='0']";

// What stands above the place to which somebody was led may have been written out of sight and find
// its height only now: for so many frames that does not push it out of the window.
const LEAD_FRAMES = 30;
let aim = null;

function lead(target) {
  aim = target;
  let left = LEAD_FRAMES;
  requestAnimationFrame(function look() {
    if (aim !== target) return;
    const { top, bottom } = target.getBoundingClientRect();
    if (bottom <= 0 || top >= innerHeight) target.scrollIntoView({ block: "center", behavior: "instant" });
    left -= 1;
    if (left) requestAnimationFrame(look);
  });
}

for (const name of ["wheel", "touchmove", "pointerdown", "keydown"]) {
  addEventListener(name, () => { aim = null; }, { passive: true, capture: true });
}

// A link to a place in the answer, a note for instance: it must be there when the browser looks.
on("click", "#turns a[href^='#']", link => {
  const id = link.hash.slice(1);
  if (!id || document.getElementById(id)) return;
  const section = [...farSections()].find(each => elementsOf(each).getElementById(id));
  if (!section) return;
  bringBack(section);
  lead(document.getElementById(id));
}, true);

// Tab leads to the next that can be used, also where that is far.
document.addEventListener("keydown", event => {
  if (event.key !== "Tab" || event.ctrlKey || event.altKey || event.metaKey) return;
  document.addEventListener("focusin", ({ target }) => { if (turns.contains(target)) lead(target); }, { once: true });
  const { activeElement, body } = document;
  const from = activeElement === body ? document.getSelection().anchorNode : activeElement;
  if (!from) return;
  const place = event.shiftKey ? Node.DOCUMENT_POSITION_PRECEDING : Node.DOCUMENT_POSITION_FOLLOWING;
  const liesAhead = (node, of = from) => of.compareDocumentPosition(node) & place;
  const ahead = [...farSections()].filter(each => liesAhead(each) && each.checkVisibility() && elementsOf(each).querySelector(FOCUSABLE));
  const section = event.shiftKey ? ahead.at(-1) : ahead[0];
  if (!section) return;
  const isNearer = node => liesAhead(node) && liesAhead(section, node) && node.checkVisibility();
  if (![...document.querySelectorAll(FOCUSABLE)].some(isNearer)) bringBack(section);
});

document.addEventListener("copy", () => {
  const selection = document.getSelection();
  if (selection.isCollapsed) return;
  for (const section of farSections()) if (selection.containsNode(section, true)) bringBack(section);
}, true);

addEventListener("beforeprint", () => farSections().forEach(bringBack));
