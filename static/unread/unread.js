/* Which conversations have something new for this person: a mark in the list. The server knows what they have
   read, on any device; until it has stored what this tab shows, the tab remembers that. */
import { element, listen, ofTab, onSwapped } from "../base/dom.js";
import { ANSWER_ENDED, COMMENTS_CHANGED, LIST_PATCHED } from "../base/events.js";
import { gettext } from "../base/i18n.js";
import { openChannel } from "../live/channels.js";

const STORED = "shown-rooms";
// By then the server has stored it.
const REMEMBERED_MS = 60000;
const list = document.getElementById("conversations");
const room = document.getElementById("room");
// Conversation → the time of the newest news that the person has seen, where the server has told.
const read = new Map();

// An end raises the conversation's revision by one. The page shows it before it gets what else has
// changed, and may be left in between.
let fetched = 0;
let ends = 0;

function shownRevision() {
  const revision = Number(room.dataset.revision);
  if (revision !== fetched) [fetched, ends] = [revision, 0];
  return revision + ends;
}

const visibleRevision = () => room && !room.dataset.isGone && !document.hidden ? shownRevision() : 0;

function recentlyShown() {
  const shown = Object.entries(JSON.parse(ofTab.get(STORED) ?? "{}"));
  return Object.fromEntries(shown.filter(([, { at }]) => Date.now() - at < REMEMBERED_MS));
}

function remember(revision) {
  const shown = recentlyShown();
  const id = room.dataset.room;
  if (shown[id]?.revision === revision) return;
  ofTab.set(STORED, JSON.stringify({ ...shown, [id]: { revision, at: Date.now() } }));
}

/* --- over the live connection --- */
let told = 0;

const { say } = openChannel("unread", {
  shown() {
    told = visibleRevision();
    // The list is not older than the page.
    return { revision: told, age: Math.ceil(Date.now() - performance.timeOrigin) };
  },

  take(message) {
    for (const [id, at] of Object.entries(message.read)) read.set(id, Math.max(at, read.get(id) ?? 0));
    mark();
  },
});

function tell() {
  const revision = visibleRevision();
  if (revision) remember(revision);
  if (revision !== told) say({ revision });
  told = revision;
}

/* --- the list --- */
function show(place, isNew) {
  if (isNew === "unread" in place.dataset) return;
  place.toggleAttribute("data-unread", isNew);
  place.querySelector(".unread-word")?.remove();
  if (isNew) place.append(element("span", { className: "unread-word visually-hidden" }, gettext(", new")));
}

function isRead({ ariaCurrent, dataset }, shown) {
  if (ariaCurrent === "page" && !document.hidden) return true;
  return Number(dataset.updated) <= (read.get(dataset.room) ?? 0)
    || Number(dataset.revision) <= (shown[dataset.room]?.revision ?? 0);
}

function mark() {
  tell();
  const shown = recentlyShown();
  for (const link of list.querySelectorAll("a[data-room][data-unread]")) if (isRead(link, shown)) show(link, false);
  for (const project of list.querySelectorAll("[data-project]")) {
    show(project.querySelector("summary"), project.querySelector("li [data-unread]") !== null);
  }
}

// A comment is no news of the conversation. A person who sees it come has read it all the same.
listen(COMMENTS_CHANGED, () => { if (visibleRevision()) say({ revision: visibleRevision(), again: true }); });
onSwapped(mark);
listen(LIST_PATCHED, mark);
document.addEventListener("visibilitychange", mark);
listen(ANSWER_ENDED, ({ run }) => {
  // Unless the update has come first, or is being put into the page now.
  const isOpen = document.getElementById(`r${run}`)?.closest(".turn")?.querySelector(":scope > footer[data-open]");
  if (isOpen && Number(room.dataset.revision) === fetched) ends += 1;
  mark();
});
mark();
