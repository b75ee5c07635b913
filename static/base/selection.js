/* The tools beside a passage that is selected in a turn (templates/conversations/_selection_tools.html). Features add
   what they do with it. */

// A selection that is still being made is left alone.
const PAUSE_MS = 200;
const GAP = 8;
const PARTS = ".item[id], .answer[id], .turn-body[id]";
const bar = document.getElementById("selection-tools");
const isCoarse = matchMedia("(pointer: coarse)");
const tools = [];
let offered = null;  // the passage beside which the bar is shown
let timer = null;
let isPressed = false;

const elementAt = node => node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement;

/* The selected passage of one turn, {turn, part, range}, or null. */
export function selectedPassage() {
  const selection = document.getSelection();
  if (selection.isCollapsed || !selection.rangeCount) return null;
  const range = selection.getRangeAt(0).cloneRange();
  const within = elementAt(range.commonAncestorContainer).closest(PARTS);
  const part = within ?? elementAt(range.startContainer).closest(PARTS);
  const turn = part?.closest("#turns > .turn");
  if (!turn) return null;
  // A click on a paragraph three times also selects the place where the next one begins.
  if (!within) range.setEnd(part, part.childNodes.length);
  return String(range).trim() ? { turn, part, range } : null;
}

function hide() {
  clearTimeout(timer);
  if (bar && !bar.hidden) bar.hidden = true;
}

/* `isFor(passage)`: returns whether the button with this selector is offered. `use(passage)` is called by a click on it. */
export function addTool(selector, isFor, use) {
  const button = bar?.querySelector(selector);
  if (!button) return;
  tools.push({ button, isFor });
  button.addEventListener("click", () => {
    // Some browsers end the selection with a touch.
    const passage = selectedPassage() ?? offered;
    hide();
    if (passage) use(passage);
  });
}

function offer() {
  offered = isPressed ? null : selectedPassage();
  for (const { button, isFor } of tools) button.hidden = !offered || !isFor(offered);
  if (tools.every(({ button }) => button.hidden)) return hide();
  bar.hidden = false;
  place(offered.range);
}

// Above the selection; below it where fingers and the browser's own menu are above.
function place(range) {
  const rects = range.getClientRects();
  const [first, last] = [rects[0], rects[rects.length - 1]];
  if (!first || last.bottom < 0 || first.top > innerHeight) return hide();
  const { offsetWidth: width, offsetHeight: height } = bar;
  const isBelow = isCoarse.matches || first.top < height + 8 * GAP;
  const top = isBelow ? last.bottom + (isCoarse.matches ? 3 : 1) * GAP : first.top - height - GAP;
  const left = isBelow ? last.right - width / 2 : first.left;
  bar.style.top = `${Math.min(Math.max(top, GAP), innerHeight - height - GAP)}px`;
  bar.style.left = `${Math.min(Math.max(left, GAP), document.documentElement.clientWidth - width - GAP)}px`;
}

export function offerSoon() {
  hide();
  timer = setTimeout(offer, PAUSE_MS);
}

if (bar) {
  document.addEventListener("selectionchange", event => { if (event.target === document) offerSoon(); });
  addEventListener("pointerdown", event => {
    isPressed = !bar.contains(event.target);
    if (isPressed) hide();
  }, { capture: true, passive: true });
  for (const type of ["pointerup", "pointercancel"]) {
    addEventListener(type, () => {
      if (isPressed) offerSoon();
      isPressed = false;
    }, { capture: true, passive: true });
  }
  addEventListener("scroll", () => { if (!bar.hidden) offerSoon(); }, { passive: true });
  addEventListener("resize", hide);
  document.addEventListener("keydown", event => { if (event.key === "Escape") hide(); });
  // The selection stays while a button is pressed.
  bar.addEventListener("mousedown", event => event.preventDefault());
}
