/* The right panel: pages about the conversation, shown beside it, one at a time. Without this script,
   and with Ctrl or the middle button, the same links open them as pages of their own. */
import { emit, isPlainClick, listen, notify, ofBrowser, on } from "./dom.js";
import { AFTER_SWAP, BEFORE_SWAP, CONFIG_REQUEST, PANEL_SHOWN, REQUEST_ERROR, RESPONSE_ERROR, ROOM_GONE } from "./events.js";
import { unreachable } from "./network.js";

const panel = document.getElementById("panel");
const body = document.getElementById("panel-body");
const edge = panel.querySelector(".panel-edge");
// As in the style sheet: below this it lies over everything else.
const narrow = matchMedia("(width < 64rem)");
const WIDTHS = { least: 25, usual: 45, most: 65, step: 2 };
const STORED = "panel-width";
let opener = null;
let wanted = "";
let place = "";
let isTab = false;
const isOpen = () => !panel.hidden;
const isWanted = ctx => ctx?.sourceElement === panel && isOpen() && new URL(ctx.request.action, location.href).href === wanted;

/* --- opening: any link with data-panel --- */
function open(link) {
  // A link inside the panel goes from one page of it to another.
  if (!panel.contains(link)) opener = link;
  isTab = Boolean(link.closest(".tabs"));
  if (!isOpen()) {
    panel.hidden = false;
    history.pushState({ panel: true }, "");
    layOver();
  }
  [wanted, place = ""] = link.href.split("#");
  body.setAttribute("aria-busy", "true");
  htmx.ajax("GET", wanted, { source: "#panel", target: "#panel-body", swap: "innerHTML" });
}

on("click", "a[data-panel]", (link, event) => {
  if (!isPlainClick(event)) return;
  event.preventDefault();
  open(link);
});

listen(CONFIG_REQUEST, ({ ctx }) => { if (ctx.sourceElement === panel) ctx.request.headers["X-Panel"] = "1"; });

listen(BEFORE_SWAP, ({ ctx }, event) => {
  // Closed, or another page was asked for meanwhile.
  if (ctx.sourceElement === panel && !isWanted(ctx)) event.preventDefault();
});

listen(AFTER_SWAP, ({ ctx }) => {
  if (ctx.sourceElement !== panel) return;
  body.removeAttribute("aria-busy");
  body.scrollTop = 0;
  // From tab to tab by keyboard: the focus stays where it is.
  const tab = isTab && body.querySelector(".tabs [aria-current]");
  (tab || document.getElementById("panel-title"))?.focus({ preventScroll: true });
  if (place) body.querySelector(`#${CSS.escape(place)}`)?.scrollIntoView();
  emit(PANEL_SHOWN, { address: wanted });
});

listen(RESPONSE_ERROR, ({ ctx }) => { if (isWanted(ctx)) close(); });

// No answer at all: nobody waits beside a panel that stays empty.
listen(REQUEST_ERROR, ({ ctx }) => {
  if (!isWanted(ctx)) return;
  close();
  notify(unreachable(), { isLost: true });
});

/* --- closing --- */
function hide() {
  if (!isOpen()) return;
  panel.hidden = true;
  wanted = "";
  body.replaceChildren();
  layOver();
  const back = opener?.isConnected ? opener : document.getElementById("text");
  back?.focus({ preventScroll: true });
  opener = null;
}

// Back, of the browser or of a phone, closes it as well.
function close() {
  hide();
  if (history.state?.panel) history.back();
}

// A link to a turn of this conversation is read beside the panel, where there is room for both.
let hash = location.hash;

addEventListener("popstate", () => {
  const isElsewhere = location.hash !== hash;
  hash = location.hash;
  if (!isElsewhere || narrow.matches) hide();
});

on("click", "[data-panel-close]", close);

document.addEventListener("keydown", event => {
  if (event.key !== "Escape" || event.defaultPrevented || event.isComposing || !isOpen()) return;
  if (document.querySelector("dialog[open], details.menu[open], [popover]:popover-open:not(.toasts)")) return;
  event.preventDefault();
  close();
});

// People who lost access must not read on beside it.
listen(ROOM_GONE, hide);

/* --- over everything else: nothing behind it is reached by keyboard --- */
function layOver() {
  // A style sheet that asked for it (`:has`) would have the browser look anew at the whole page with
  // each word and each key.
  panel.parentElement.classList.toggle("has-panel", isOpen());
  const isOver = isOpen() && narrow.matches;
  for (const part of document.querySelectorAll(".app > .sidebar, .app > .centre")) part.inert = isOver;
}

narrow.addEventListener("change", layOver);

/* --- width, in hundredths of the window --- */
function widen(percent) {
  const width = Math.round(Math.min(WIDTHS.most, Math.max(WIDTHS.least, percent)));
  document.documentElement.style.setProperty("--panel", `${width}vw`);
  edge.setAttribute("aria-valuenow", String(width));
  return width;
}

widen(Number(ofBrowser.get(STORED)) || WIDTHS.usual);
const widthAt = event => 100 * (getComputedStyle(panel).direction === "rtl" ? event.clientX : innerWidth - event.clientX) / innerWidth;

function move(event) { widen(widthAt(event)); }

edge.addEventListener("pointerdown", event => {
  event.preventDefault();
  edge.setPointerCapture(event.pointerId);
  edge.addEventListener("pointermove", move);
});

edge.addEventListener("lostpointercapture", event => {
  edge.removeEventListener("pointermove", move);
  ofBrowser.set(STORED, widen(widthAt(event)));
});

edge.addEventListener("keydown", event => {
  // With these, arrows are the browser's: back and forward.
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const now = Number(edge.getAttribute("aria-valuenow"));
  const width = { ArrowLeft: now + WIDTHS.step, ArrowRight: now - WIDTHS.step, Home: WIDTHS.least, End: WIDTHS.most }[event.key];
  if (width === undefined) return;
  event.preventDefault();
  ofBrowser.set(STORED, widen(width));
});
