/* Follows the end of the text while the reader is there, and yields to the reader at once. */
import { hasModifier, isComposing, listen, ofTab, on, onSwapped, setText } from "../base/dom.js";
import { AFTER_REQUEST, BEFORE_SWAP, ROOM_ACCEPTED } from "../base/events.js";
import { gettext } from "../base/i18n.js";

const page = document.scrollingElement;
const button = document.getElementById("to-end");
const label = button.querySelector("span");
const usualLabel = label.textContent;
const turns = document.getElementById("turns");
// Within this many pixels of the end the reader is at the end.
const NEAR = 48;
// A scroll bar that is pulled moves the page up with each frame; the page itself does so now and then.
const PULLS = 3;
// By then the page has its place again after it changed, on a slow machine, too.
const SETTLED_MS = 1000;
const HAS_ANCHORS = CSS.supports("overflow-anchor", "auto");
let isFollowing = true;
let isAsked = false;
let lastTop = page.scrollTop;
let changedAt = performance.now();
// How often in a row the page was moved up.
let pulls = 0;
const distance = () => page.scrollHeight - page.clientHeight - page.scrollTop;

function toEnd() {
  isAsked = false;
  if (!isFollowing) return;
  page.scrollTop = page.scrollHeight;
  noteTop();
}

const noteTop = () => { lastTop = page.scrollTop; };

// One write per frame, however much arrived.
function follow() {
  if (isAsked || !isFollowing) return;
  isAsked = true;
  requestAnimationFrame(toEnd);
}
const yieldToReader = () => { isFollowing = false; };

function showButton() {
  const isHidden = isFollowing || distance() < NEAR;
  // Only what changes: an attribute that is set has the browser style the button anew with every word.
  if (button.hidden !== isHidden) button.hidden = isHidden;
  if (isHidden) setText(label, usualLabel);
}

/* --- the reader's hands --- */
addEventListener("wheel", event => { if (event.deltaY < 0) yieldToReader(); }, { passive: true });
addEventListener("touchmove", yieldToReader, { passive: true });
addEventListener("keydown", event => {
  const isUp = ["ArrowUp", "PageUp", "Home"].includes(event.key);
  // The first hit of a find in the page is one jump.
  const isFind = (event.ctrlKey || event.metaKey) && ["f", "g"].includes(event.key);
  const isUpBySpace = event.key === " " && event.shiftKey && !event.target.closest?.("button, summary");
  if (isFind) yieldToReader();
  if ((isUp || isUpBySpace) && !event.target.closest?.("input, textarea, select")) yieldToReader();
});
// The composer has the focus when a page begins. Keys that have nothing to do in one line scroll the page.
const SCROLLS = {
  PageUp: step => page.scrollTop - step,
  PageDown: step => page.scrollTop + step,
  Home: () => 0,
  End: () => page.scrollHeight,
};
const isOneLine = field => field.clientHeight < 2.5 * parseFloat(getComputedStyle(field).lineHeight);

on("keydown", "#text", (field, event) => {
  const { key } = event;
  if (!(key in SCROLLS) || hasModifier(event) || isComposing(event)) return;
  if (key.startsWith("Page") ? !isOneLine(field) : field.value) return;
  event.preventDefault();
  if (key === "PageUp" || key === "Home") yieldToReader();
  page.scrollTop = SCROLLS[key](0.85 * document.getElementById("dock").getBoundingClientRect().top);
});
document.addEventListener("selectionchange", event => {
  // Typing is no selecting, and to ask for a selection has the browser lay out the page at once.
  if (event.target !== document) return;
  const selection = document.getSelection();
  if (!selection.isCollapsed && turns.contains(selection.anchorNode)) yieldToReader();
});
addEventListener("scroll", () => {
  const isUp = page.scrollTop < lastTop - 2 && distance() > NEAR;
  pulls = isUp ? pulls + 1 : 0;
  if (isUp && isOwnDoing()) follow();
  // Up without a hand of ours: a scroll bar, a find in the page.
  else if (isUp) yieldToReader();
  else if (distance() < 4 && document.getSelection().isCollapsed) isFollowing = true;
  noteTop();
  showButton();
}, { passive: true });

// WebKit, which has no scroll anchoring, lays out the page also while something is being replaced: it
// is shorter for a moment, which moves its end up, and is longer again when this is told.
function isOwnDoing() {
  return !HAS_ANCHORS && isFollowing && pulls < PULLS && performance.now() - changedAt < SETTLED_MS;
}

button.addEventListener("click", () => {
  document.getSelection().removeAllRanges();
  isFollowing = true;
  button.hidden = true;
  follow();
});

/* --- what moves the end --- */
const noteChange = () => { changedAt = performance.now(); };
if (!HAS_ANCHORS) new MutationObserver(noteChange).observe(turns, { childList: true, subtree: true });
let height = turns.offsetHeight;

new ResizeObserver(([entry]) => {
  const isGrowing = entry.contentRect.height > height && turns.querySelector(".answer[data-live]");
  // What somebody unfolds is not new.
  if (!isFollowing && isGrowing) setText(label, gettext("New text below"));
  height = entry.contentRect.height;
  noteChange();
  // Now, while the page is laid out and not painted yet: a frame later would cost another frame, and
  // show the new words below the edge first.
  toEnd();
  showButton();
}).observe(turns);
// The composer grows with what is typed, at the cost of the text above it.
new ResizeObserver(toEnd).observe(document.getElementById("dock"));
addEventListener("resize", follow);
// People who asked for an answer want to see it. Before the swap: afterwards the form may be gone.
listen(AFTER_REQUEST, ({ ctx }, { target }) => {
  if (target.matches?.("#composer, .edit, [data-asks]") && ctx.hx.trigger === ROOM_ACCEPTED) isFollowing = true;
});

/* --- what is put in above must not move what is being read --- */
let anchor = null;

listen(BEFORE_SWAP, (_, { target }) => {
  if (target.id === "live" || isFollowing) return;
  const turn = [...turns.children].find(each => each.getBoundingClientRect().bottom > 0);
  anchor = turn && { id: turn.id, top: turn.getBoundingClientRect().top };
});

onSwapped((_, { target }) => {
  const turn = anchor && document.getElementById(anchor.id);
  if (turn) {
    page.scrollTop += turn.getBoundingClientRect().top - anchor.top;
    noteTop();
  } else if (turns.contains(target)) {
    toEnd();
  }
  anchor = null;
});

/* --- where a page begins --- */
// Not left to the browser: it knows where on the page a reader was, and not that this was its end,
// which is elsewhere after a reload.
history.scrollRestoration = "manual";
const PLACE = `place:${location.pathname}`;
addEventListener("pagehide", () => ofTab.set(PLACE, isFollowing ? null : page.scrollTop));

function placeBefore() {
  const isReturning = performance.getEntriesByType("navigation")[0]?.type !== "navigate";
  return isReturning ? ofTab.get(PLACE) : null;
}

function goBack(top) {
  yieldToReader();
  page.scrollTop = Number(top);
  noteTop();
}

const place = placeBefore();
if (location.hash && document.getElementById(location.hash.slice(1))) yieldToReader();
else if (place !== null) goBack(place);
else follow();
