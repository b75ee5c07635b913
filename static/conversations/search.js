/* Searching conversations: Ctrl K goes to the field, arrows go through the results, Enter opens, Escape
   goes back. Without this script the form leads to a page of results. */
import { announce, emit, hasModifier, isComposing, listen, on } from "../base/dom.js";
import { AFTER_SWAP, BEFORE_SWAP, LIST_LOST, ROOM_GONE, SEARCH_OPEN, SIDEBAR_TOGGLE } from "../base/events.js";

const form = document.getElementById("find");
const field = form.elements.q;
const found = document.getElementById("found");
const list = document.getElementById("conversations");

// Where Ctrl K was pressed, and whether the sidebar came only for it.
let cameFrom = null;
let isSidebarOurs = false;
const links = () => [...found.querySelectorAll("a")];
const query = () => field.value.trim();
const isIn = node => form.contains(node) || found.contains(node);

function show() {
  const isSearching = query() !== "";
  found.hidden = !isSearching;
  list.hidden = isSearching;
  if (!isSearching) found.replaceChildren();
}

function clear() {
  field.value = "";
  show();
}

function putSidebarBack() {
  if (isSidebarOurs && field.checkVisibility()) emit(SIDEBAR_TOGGLE);
  isSidebarOurs = false;
}

listen(SEARCH_OPEN, () => {
  if (!isIn(document.activeElement)) cameFrom = document.activeElement;
  if (!field.checkVisibility()) {
    emit(SIDEBAR_TOGGLE);
    isSidebarOurs = true;
  }
  field.focus();
  field.select();
});

function leave() {
  clear();
  if (!cameFrom) return field.focus();
  const back = cameFrom.isConnected ? cameFrom : document.getElementById("text");
  cameFrom = null;
  putSidebarBack();
  document.activeElement.blur();
  back?.focus({ preventScroll: true });
}

function step(by, { from = field, all = links() } = {}) {
  const at = all.indexOf(document.activeElement) + by;
  if (at < 0) from.focus();
  else all[at]?.focus();
}

// What was found for these words; for others the form leads to the page of results.
function openFirst() {
  const shown = found.querySelector("[data-query]");
  if (shown?.dataset.query !== query()) return false;
  links()[0]?.click();
  return true;
}

const KEYS = {
  Escape: () => (query() || cameFrom ? (leave(), true) : false),
  ArrowDown: () => (step(1), true),
  ArrowUp: () => (step(-1), true),
  Enter: event => event.target === field && (query() === "" || openFirst()),
};

function onKey(event) {
  if (isComposing(event) || hasModifier(event)) return;
  if (KEYS[event.key]?.(event)) event.preventDefault();
}

// On the page of results arrows go from its field through what was found, too.
on("keydown", "[data-search]", (page, event) => {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by || isComposing(event) || hasModifier(event)) return;
  event.preventDefault();
  step(by, { from: page.querySelector("input"), all: [...page.querySelectorAll("li a")] });
});

for (const place of [form, found]) place.addEventListener("keydown", onKey);
found.addEventListener("click", event => { if (event.target.closest("a")) putSidebarBack(); });
field.addEventListener("input", show);
// Whoever goes elsewhere by themselves is not led back.
document.addEventListener("focusin", event => { if (!isIn(event.target)) cameFrom = null; });

// Of a conversation to which access was lost nothing is left, titles of others neither.
listen(ROOM_GONE, clear);

listen(LIST_LOST, () => {
  const address = `${form.action}?${new URLSearchParams({ q: field.value })}`;
  if (query()) htmx.ajax("GET", address, { source: field, target: found, swap: "innerHTML" });
});

listen(BEFORE_SWAP, ({ ctx }, event) => {
  // Words that were deleted meanwhile.
  if (ctx.sourceElement === field && query() === "") event.preventDefault();
});

listen(AFTER_SWAP, ({ ctx }) => {
  if (ctx?.sourceElement !== field) return;
  show();
  const text = found.querySelector("[data-said]")?.dataset.said;
  if (text) announce(text, { about: "found" });
});
