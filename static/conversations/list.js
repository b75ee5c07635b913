/* The list of conversations beside a page: the server sends the lines that have changed, or says that it has
   changed; then it is fetched. */
import { announce, emit, listen, notify } from "../base/dom.js";
import { AFTER_SWAP, BEFORE_SETTLE, BEFORE_SWAP, CONNECTION_STATE, LIST_LOST, LIST_PATCHED, LIST_STALE, ROOM_GONE } from "../base/events.js";
import { gettext } from "../base/i18n.js";
import { openChannel } from "../live/channels.js";
import { putLines } from "./list_lines.js";

const list = document.getElementById("conversations");
const room = document.getElementById("room");
// For networks in which nothing live works.
const EVERY_MS = 30000;
const AGAIN_MS = 3000;
// In place of a version: a list that could not be shown is fetched again, whatever its version is.
const HELD = "held";
const shownVersion = () => list.querySelector("[data-list-version]")?.dataset.listVersion ?? "";
// As in chat.conversations.list_version: it differs where access was lost.
const accessOf = version => version.split("-")[0];

// The version that the server told of, until a list is asked for.
let told = "";
let access = accessOf(shownVersion());
let isFetching = false;
const isSignedOut = () => list.dataset.isGone === "signed-out";
// A list that is being pointed at or tabbed through does not move.
const isUnused = () => !list.matches(":hover") && !list.querySelector(":focus-visible");
// A click or a drag that has begun on a line would be lost with the line.
let isPressed = false;
const isHeld = () => isPressed || list.matches(".is-dragging");
// Nobody sees the list of a hidden tab.
const isAtRest = () => !document.hidden && isUnused();

// As many lines as are there: those that have come as the list was scrolled stay.
const countLines = () => list.querySelectorAll("[data-recent] > li").length;

function address() {
  const { pathname, searchParams } = new URL(list.dataset.list, location.origin);
  searchParams.set("lines", countLines());
  return `${pathname}?${searchParams}`;
}

/* The same place in the new list; of a line that is gone, the list's beginning. */
function focusAgain({ className, dataset, parentElement }) {
  const project = list.querySelector(`[data-project="${parentElement?.dataset.project}"] > summary`);
  if (project) return project.focus();
  const room = dataset.room ?? parentElement?.querySelector("[data-room]")?.dataset.room;
  const line = list.querySelector(`[data-room="${room}"]`)?.closest("li");
  (line?.querySelector(`.${className.split(" ").at(-1)}`) ?? list.querySelector("a"))?.focus();
}

// The response to a message contains a list, too.
let focused = null;
listen(BEFORE_SWAP, ({ tasks }) => {
  const isWhole = tasks?.some(({ target }) => target === list);
  if (isWhole) focused = list.contains(document.activeElement) ? document.activeElement : null;
});
listen(BEFORE_SETTLE, (_, { target }) => {
  if (target !== list) return;
  if (focused && !focused.isConnected && document.activeElement === document.body) focusAgain(focused);
  focused = null;
});

async function fetchList() {
  if (isSignedOut()) return;
  let asked = told;
  told = "";
  isFetching = true;
  let isFetched = false;
  const note = event => {
    const { ctx } = event.detail;
    if (ctx.sourceElement !== list || ctx.response?.status !== 200) return;
    isFetched = !isHeld();
    if (isFetched) return;
    event.preventDefault();
    asked ||= HELD;
  };
  document.addEventListener(BEFORE_SWAP, note);
  await htmx.ajax("GET", address(), { source: list, swap: "innerHTML" });
  document.removeEventListener(BEFORE_SWAP, note);
  isFetching = false;
  if (!isFetched) told ||= asked;
  if (told) setTimeout(catchUp, isFetched ? 0 : AGAIN_MS * (0.5 + Math.random()));
}

const refresh = () => { if (isAtRest() && !isFetching) fetchList(); };

function catchUp() {
  if (told === shownVersion()) told = "";
  if (!told) return;
  if (accessOf(told) !== accessOf(shownVersion())) fetchList();
  else refresh();
}

/* A list that was fetched for another reason may know it before the server has told. */
function noteAccess(version) {
  if (accessOf(version) === access) return;
  access = accessOf(version);
  emit(LIST_LOST);
}

// The version that the server knows this page by.
let known = "";

function shown() {
  known = shownVersion();
  return known ? { version: known } : undefined;
}

const { say } = openChannel("list", { shown, take: onChange });

/* `list` and `after`: versions of the list, now and before `lines`; all but the first are there where lines say
   what has changed. */
function onChange(change) {
  known = change.list;
  noteAccess(change.list);
  // Lines fit the list that they were made for; where they can't say everything, the rest is fetched.
  const isFitting = change.lines && change.after === shownVersion() && !isFetching && isUnused();
  if (isFitting && putLines(list, change)) {
    list.querySelector("[data-list-version]").dataset.listVersion = change.list;
    emit(LIST_PATCHED);
    return;
  }
  // A late change left the version as it was.
  told = change.late ? `${change.list}-late` : change.list;
  catchUp();
}

listen(LIST_STALE, ({ text }) => {
  announce(text);
  fetchList();
});

listen(AFTER_SWAP, ({ ctx }, { target }) => {
  // A list that was made before access was lost comes too late to bring a line back.
  if (room && list.dataset.isGone) removeLine();
  if (target.id === "live" || !shownVersion()) return;
  if (shownVersion() !== known) say(shown());
  if (ctx?.sourceElement === list) noteAccess(shownVersion());
  else if (accessOf(shownVersion()) !== access) fetchList();
});

list.addEventListener("pointerdown", () => { isPressed = true; });
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => { isPressed = false; });
for (const name of ["mouseleave", "focusout"]) list.addEventListener(name, () => setTimeout(catchUp));
document.addEventListener("visibilitychange", catchUp);

// The headings say "Today": at midnight a list grows old by itself.
let isLive = false;
let day = new Date().toDateString();
listen(CONNECTION_STATE, ({ isConnected }) => { isLive = isConnected; });
setInterval(() => {
  const today = new Date().toDateString();
  if (isLive && today === day) return;
  day = today;
  refresh();
}, EVERY_MS);

// The other places of such a page where titles are.
listen(LIST_LOST, () => { if (document.querySelector("[data-titles]")) location.reload(); });

/* --- access to the conversation was lost: with it go its title and who shared it --- */
function removeLine() {
  for (const link of list.querySelectorAll(`[data-room="${room.dataset.room}"]`)) link.closest("li").remove();
}

listen(ROOM_GONE, ({ reason }) => {
  if (!isSignedOut()) list.dataset.isGone = reason;
  if (reason === "signed-out") {
    list.replaceChildren();
    if (!room) notify(gettext("You’re signed out. Your draft is kept. Reload the page to sign in."));
    return;
  }
  if (!room) return;
  removeLine();
  // Somebody who has left a team sees none of its other conversations either.
  fetchList();
});
