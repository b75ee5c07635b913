/* Which conversations have something new since this browser showed them: a mark in the list. */
(() => {
  "use strict";

  const STORED = "seen-rooms";
  const list = document.getElementById("conversations");
  const room = document.getElementById("room");
  // So many rooms are remembered; of others the moment from which this browser knows anything tells.
  const KEPT = 300;

  function read() {
    try { return JSON.parse(localStorage.getItem(STORED)) ?? {}; } catch { return {}; }
  }

  function write(seen) {
    seen.shown = Object.fromEntries(Object.entries(seen.shown).slice(-KEPT));
    seen.rooms = Object.fromEntries(Object.entries(seen.rooms).sort(([, one], [, two]) => two - one).slice(0, KEPT));
    const text = JSON.stringify(seen);
    try {
      if (localStorage.getItem(STORED) !== text) localStorage.setItem(STORED, text);
    } catch { /* Nothing is marked. */ }
  }

  // An end raises the room's revision by one. The page sees it before it fetches what else has changed,
  // and may be left in between.
  let fetched = 0;
  let ends = 0;

  function shownRevision() {
    const revision = Number(room.dataset.revision);
    if (revision !== fetched) [fetched, ends] = [revision, 0];
    return revision + ends;
  }

  function mark() {
    const links = [...list.querySelectorAll("a[data-updated]")];
    if (!links.length) return;
    const seen = { since: Math.max(...links.map(link => Number(link.dataset.updated))), rooms: {}, shown: {}, ...read() };
    for (const link of links) {
      const { room: id, updated, revision } = link.dataset;
      const isHere = link.ariaCurrent === "page" && !document.hidden;
      if (isHere || Number(revision) <= seen.shown[id]) seen.rooms[id] = Math.max(seen.rooms[id] ?? 0, Number(updated));
      const isNew = Number(updated) > (seen.rooms[id] ?? seen.since);
      if (isNew === "unread" in link.dataset) continue;
      link.toggleAttribute("data-unread", isNew);
      link.querySelector(".unread-word")?.remove();
      if (isNew) link.append(Object.assign(document.createElement("span"), { className: "unread-word visually-hidden", textContent: ", new" }));
    }
    // Also before a list knows of it: this page's, or that of the page to which its reader leaves. What is
    // stored only ever grows: two windows side by side would take back each other's for ever.
    if (room && !room.dataset.isGone && !document.hidden) {
      const id = room.dataset.room;
      seen.shown[id] = Math.max(seen.shown[id] ?? 0, shownRevision());
    }
    write(seen);
  }

  if (!list) return;
  // Not with each frame of a live answer.
  document.addEventListener("htmx:after:swap", event => { if (event.target.id !== "live") mark(); });
  document.addEventListener("visibilitychange", mark);
  document.addEventListener("live:ended", () => {
    shownRevision();
    ends += 1;
    mark();
  });
  // Read in another tab of this browser.
  addEventListener("storage", event => { if (event.key === STORED) mark(); });
  mark();
})();
