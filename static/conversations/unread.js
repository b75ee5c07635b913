/* Which conversations have something new since this browser showed them: a mark in the list. */
import { element, listen, ofBrowser, onSwapped } from "../base/dom.js";
import { ANSWER_ENDED, LIST_PATCHED } from "../base/events.js";
import { gettext } from "../base/i18n.js";

const STORED = "seen-rooms";
const list = document.getElementById("conversations");
const room = document.getElementById("room");
// So many are remembered; of others the moment from which this browser knows anything tells.
const MAX_ROOMS = 300;

function write(seen) {
  seen.shown = Object.fromEntries(Object.entries(seen.shown).slice(-MAX_ROOMS));
  seen.rooms = Object.fromEntries(Object.entries(seen.rooms).sort(([, one], [, two]) => two - one).slice(0, MAX_ROOMS));
  const text = JSON.stringify(seen);
  if (ofBrowser.get(STORED) !== text) ofBrowser.set(STORED, text);
}

// An end raises the conversation's revision by one. The page shows it before it gets what else has
// changed, and may be left in between.
let fetched = 0;
let ends = 0;

function shownRevision() {
  const revision = Number(room.dataset.revision);
  if (revision !== fetched) [fetched, ends] = [revision, 0];
  return revision + ends;
}

function say(place, isNew) {
  if (isNew === "unread" in place.dataset) return;
  place.toggleAttribute("data-unread", isNew);
  place.querySelector(".unread-word")?.remove();
  if (isNew) place.append(element("span", { className: "unread-word visually-hidden" }, gettext(", new")));
}

function mark() {
  const links = [...list.querySelectorAll("a[data-updated]")];
  if (!links.length) return;
  const since = Math.max(...links.map(link => Number(link.dataset.updated)));
  const seen = { since, rooms: {}, shown: {}, ...JSON.parse(ofBrowser.get(STORED)) };
  for (const link of links) {
    const { room: id, updated, revision } = link.dataset;
    const isHere = link.ariaCurrent === "page" && !document.hidden;
    if (isHere || Number(revision) <= seen.shown[id]) seen.rooms[id] = Math.max(seen.rooms[id] ?? 0, Number(updated));
    say(link, Number(updated) > (seen.rooms[id] ?? seen.since));
  }
  for (const project of list.querySelectorAll("[data-project]")) {
    say(project.querySelector("summary"), project.querySelector("li [data-unread]") !== null);
  }
  // Also before a list knows of it: this page's, or that of the page to which its reader leaves. What is
  // stored only ever grows: otherwise two windows side by side would undo each other's for ever.
  if (room && !room.dataset.isGone && !document.hidden) {
    const id = room.dataset.room;
    seen.shown[id] = Math.max(seen.shown[id] ?? 0, shownRevision());
  }
  write(seen);
}

onSwapped(mark);
listen(LIST_PATCHED, mark);
document.addEventListener("visibilitychange", mark);
listen(ANSWER_ENDED, ({ run }) => {
  shownRevision();
  // Unless the update has come first.
  if (document.getElementById(`r${run}`)?.closest(".turn")?.querySelector(":scope > footer[data-open]")) ends += 1;
  mark();
});
// Read in another tab of this browser.
addEventListener("storage", event => { if (event.key === STORED) mark(); });
mark();
