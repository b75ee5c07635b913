/* Which conversations have something new since this browser showed them: a mark in the list. */
(() => {
  "use strict";

  const STORED = "seen-rooms";
  const list = document.getElementById("conversations");
  // So many rooms are remembered; of others the moment from which this browser knows anything tells.
  const KEPT = 300;

  function read() {
    try { return JSON.parse(localStorage.getItem(STORED)) ?? {}; } catch { return {}; }
  }

  function write(seen) {
    seen.rooms = Object.fromEntries(Object.entries(seen.rooms).sort(([, one], [, two]) => two - one).slice(0, KEPT));
    const text = JSON.stringify(seen);
    try {
      if (localStorage.getItem(STORED) !== text) localStorage.setItem(STORED, text);
    } catch { /* Nothing is marked. */ }
  }

  function mark() {
    const links = [...list.querySelectorAll("a[data-updated]")];
    if (!links.length) return;
    const seen = { since: Math.max(...links.map(link => Number(link.dataset.updated))), rooms: {}, ...read() };
    for (const link of links) {
      const { room, updated } = link.dataset;
      if (link.ariaCurrent === "page" && !document.hidden) seen.rooms[room] = Number(updated);
      const isNew = Number(updated) > (seen.rooms[room] ?? seen.since);
      if (isNew === "unread" in link.dataset) continue;
      link.toggleAttribute("data-unread", isNew);
      link.querySelector(".unread-word")?.remove();
      if (isNew) link.append(Object.assign(document.createElement("span"), { className: "unread-word visually-hidden", textContent: ", new" }));
    }
    write(seen);
  }

  if (!list) return;
  // Not with each frame of a live answer.
  document.addEventListener("htmx:after:swap", event => { if (event.target.id !== "live") mark(); });
  document.addEventListener("visibilitychange", mark);
  // Read in another tab of this browser.
  addEventListener("storage", event => { if (event.key === STORED) mark(); });
  mark();
})();
