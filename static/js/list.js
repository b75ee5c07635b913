/* The list of conversations beside a room: other rooms change without a word to this page. */
(() => {
  "use strict";

  const room = document.getElementById("room");
  const list = document.getElementById("conversations");
  const EVERY_MS = 30000;
  // After a message of one's own: its answer comes first.
  const SOON_MS = 1000;

  function fetchList() {
    if (room.dataset.isGone === "signed-out") return;
    htmx.ajax("GET", room.dataset.list, { source: list, swap: "innerHTML" });
  }

  function refresh() {
    if (!document.hidden && !list.matches(":hover")) fetchList();
  }

  setInterval(refresh, EVERY_MS);

  document.addEventListener("htmx:before:swap", ({ detail: { ctx } }) => {
    if (ctx.response?.headers.get("X-Room-List") === "later") setTimeout(refresh, SOON_MS);
  });

  /* --- the room was taken away: with it go its title and by whom it was shared --- */

  function removeLine() {
    for (const link of list.querySelectorAll(`[data-room="${room.dataset.room}"]`)) link.closest("li").remove();
  }

  document.addEventListener("room:gone", () => {
    if (room.dataset.isGone === "signed-out") return list.replaceChildren();
    removeLine();
    // Whoever has left a team sees none of its other conversations either.
    fetchList();
  });

  // A list that was made before the room was taken away comes too late to bring its line back.
  document.addEventListener("htmx:after:swap", () => {
    if (room.dataset.isGone) removeLine();
  });
})();
