/* Loads the page again, because the server says that it is of another database or version: in a moment in which
   nobody types, clicks or scrolls, and with the focus where it was. */
import { ofTab } from "../base/dom.js";

// A server tells all its pages at once to reload.
const RELOAD_SPREAD_MS = 3000;
// While servers of two versions run, the next page may be the other one's. And a page that is slow to load is
// not asked for again meanwhile.
const RELOAD_MS = 30000;
const QUIET_MS = 2000;
const LOOK_MS = 500;
const RELOADED = "reloaded";
const FOCUS = "focus-before-reload";
// What the page asks for by itself, such as its list, comes again; what somebody sends is waited for.
const BUSY = "dialog[open], :popover-open, form.edit, [hx-post].htmx-request";
const FIELDS = "input, select, textarea";

let isWanted = false;
let actedAt = -QUIET_MS;
let isHolding = false;
let isComposing = false;

const noteAction = () => { actedAt = performance.now(); };
for (const name of ["input", "keydown", "pointerup", "wheel", "touchmove"]) {
  addEventListener(name, noteAction, { passive: true, capture: true });
}
for (const name of ["pointerdown", "pointerup", "pointercancel"]) {
  addEventListener(name, () => { isHolding = name === "pointerdown"; }, { passive: true, capture: true });
}
for (const name of ["compositionstart", "compositionend"]) {
  addEventListener(name, () => { isComposing = name === "compositionstart"; }, { capture: true });
}

// The tab has a copy of each draft (conversations/composer.js), unless it may store nothing.
const isStored = field => field.value === (ofTab.get(`draft:${field.dataset.draft}`) ?? field.defaultValue);
const isSafe = () => [...document.querySelectorAll("textarea[data-draft]")].every(isStored);
const isInForm = () => document.activeElement?.matches(FIELDS) && document.activeElement.id !== "text";
const isPlaying = () => [...document.querySelectorAll("audio, video")].some(media => !media.paused);

function isQuiet() {
  if (!isSafe() || isComposing || isHolding || isInForm() || isPlaying() || document.querySelector(BUSY)) return false;
  return document.hidden || (document.getSelection().isCollapsed && performance.now() - actedAt >= QUIET_MS);
}

export function reload() {
  if (isWanted) return;
  isWanted = true;
  const passed = Date.now() - Number(ofTab.get(RELOADED));
  setTimeout(reloadWhenQuiet, Math.max(RELOAD_MS - passed, Math.random() * RELOAD_SPREAD_MS));
}

function reloadWhenQuiet() {
  if (!isQuiet()) return setTimeout(reloadWhenQuiet, LOOK_MS);
  const { id, selectionStart: start, selectionEnd: end } = document.activeElement ?? {};
  ofTab.set(RELOADED, Date.now());
  ofTab.set(FOCUS, id ? JSON.stringify({ id, start, end }) : null);
  setTimeout(() => { isWanted = false; }, RELOAD_MS);
  location.reload();
}

// After composer.js has put the text back.
addEventListener("pageshow", () => {
  const { id, start, end } = JSON.parse(ofTab.get(FOCUS) ?? "{}");
  ofTab.set(FOCUS, null);
  const place = id && document.getElementById(id);
  if (!place) return;
  place.focus({ preventScroll: true });
  if (start !== undefined && start !== null) place.setSelectionRange(start, end);
});
