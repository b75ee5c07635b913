/* From a thread of the panel to its passage in the text, and the address of a comment, which opens both. */
import { element, isPlainClick, listen, on, onSwapped } from "../base/dom.js";
import { PANEL_SHOWN } from "../base/events.js";
import { rangeOf } from "./anchors.js";
import { focusOn } from "./panel.js";

const ACTIVE = "comment-active";
const ADDRESS = /^#comment-[0-9a-f]{32}$/;
// The comment that the panel was opened for, and whether its turn is to be shown, too.
let place = "";
let isFromAddress = false;

/* --- the panel --- */

/* The address of the panel, of this conversation. */
export const panelAddress = () => `${location.pathname.match(/^\/c\/[^/]+\//)[0]}comments/`;

/* Opens a page in the panel by a link, to which the focus returns. */
export function openBy(link, href) {
  const { href: usual } = link;
  link.href = href;
  link.click();
  link.href = usual;
}

on("click", "a[data-panel]", link => { place = ADDRESS.test(link.hash) ? link.hash.slice(1) : ""; }, true);

listen(PANEL_SHOWN, () => {
  const list = document.getElementById("comments");
  activate(null);
  if (!list) return;
  showLost();
  const comment = place && document.getElementById(place);
  if (comment) return lead(comment);
  // A resolved one.
  const resolved = list.querySelector("#comments-tabs a:not([aria-current])[href*=resolved]");
  if (place && resolved) openBy(resolved, `${resolved.href}#${place}`);
});

function lead(comment) {
  focusOn(comment);
  if (isFromAddress) showPassage(comment.closest(".comment-thread"));
  isFromAddress = false;
}

/* --- the address of a comment --- */
function followAddress() {
  if (!ADDRESS.test(location.hash)) return;
  const link = element("a", { hidden: true });
  link.dataset.panel = "";
  document.body.append(link);
  isFromAddress = true;
  openBy(link, `${panelAddress()}${location.hash}`);
  link.remove();
}

addEventListener("hashchange", followAddress);
document.addEventListener("DOMContentLoaded", followAddress);

/* --- the passage --- */
const turnOf = ({ dataset: { ofTurn } }) => document.getElementById(`m${ofTurn}`);

function passageOf(thread) {
  const quote = thread.querySelector(".comment-quote")?.textContent;
  const { part, prefix, suffix, start } = thread.dataset;
  const element = quote && turnOf(thread) && document.getElementById(part);
  return element ? rangeOf(element, { quote, prefix, suffix, start: Number(start) }) : null;
}

/* Marks one range more clearly than the others. */
export function activate(range) {
  if (!CSS.highlights) return;
  if (range) CSS.highlights.set(ACTIVE, Object.assign(new Highlight(range), { priority: 1 }));
  else CSS.highlights.delete(ACTIVE);
}

function showPassage(thread) {
  const range = passageOf(thread);
  activate(range);
  const target = range?.startContainer.parentElement ?? turnOf(thread);
  target?.scrollIntoView({ block: range ? "center" : "start", behavior: "instant" });
}

on("focusin", ".comment-thread", thread => activate(passageOf(thread)));

on("click", "#comments a[data-to-turn]", (link, event) => {
  if (!isPlainClick(event) || !document.getElementById(link.hash.slice(1))) return;
  event.preventDefault();
  // By its place: a window that has no room for both closes the panel.
  location.hash = link.hash;
  const thread = link.closest(".comment-thread");
  requestAnimationFrame(() => showPassage(thread));
});

/* --- passages that a text no longer has, as far as the page has all of it --- */
function isLost(thread) {
  const turn = turnOf(thread);
  return turn !== null && !turn.querySelector("[data-live], .is-far, .later") && !passageOf(thread);
}

function showLost() {
  for (const note of document.querySelectorAll("#comments .comment-lost")) note.hidden = !isLost(note.closest(".comment-thread"));
}

onSwapped(showLost);
