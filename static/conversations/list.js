/* The list of conversations beside a page: fetched when the server says that it has changed. */
(() => {
  "use strict";

  const list = document.getElementById("conversations");
  if (!list) return;
  const room = document.getElementById("room");
  // For where nothing live gets through.
  const EVERY_MS = 30000;
  // After a message of one's own: its answer comes first.
  const SOON_MS = 1000;
  const AGAIN_MS = 3000;

  const shownVersion = () => list.querySelector("[data-list-version]")?.dataset.listVersion ?? "";
  // As in chat.live.list_version: it differs where something was taken away.
  const accessOf = version => version.split("-")[0];

  // The version that the server told of, until a list is asked for.
  let told = "";
  let access = accessOf(shownVersion());
  let isFetching = false;
  let hasOlder = false;

  const isSignedOut = () => list.dataset.isGone === "signed-out";
  // A list that is being pointed at or tabbed through does not move, and nobody sees that of a hidden tab.
  const isAtRest = () => !document.hidden && !list.matches(":hover") && !list.querySelector(":focus-visible");

  async function fetchList() {
    if (isSignedOut()) return;
    const asked = told;
    told = "";
    isFetching = true;
    let isFetched = false;
    const note = ({ detail: { ctx } }) => { isFetched ||= ctx.sourceElement === list && ctx.response?.status === 200; };
    document.addEventListener("htmx:before:swap", note);
    await htmx.ajax("GET", list.dataset.list, { source: list, swap: "innerHTML" });
    document.removeEventListener("htmx:before:swap", note);
    isFetching = false;
    if (isFetched) hasOlder = false;
    else told ||= asked;
    if (told) setTimeout(catchUp, isFetched ? 0 : AGAIN_MS * (0.5 + Math.random()));
  }

  function refresh() {
    if (isAtRest() && !isFetching) fetchList();
  }

  function catchUp() {
    if (told === shownVersion()) told = "";
    if (!told) return;
    if (accessOf(told) !== accessOf(shownVersion())) fetchList();
    // Older lines, for which somebody has asked, would go.
    else if (!hasOlder) refresh();
  }

  /* A list that was fetched for another reason may know it before the server has told. */
  function noteAccess(version) {
    if (accessOf(version) === access) return;
    access = accessOf(version);
    document.dispatchEvent(new CustomEvent("list:lost"));
  }

  document.addEventListener("list:changed", ({ detail: { version } }) => {
    told = version;
    noteAccess(version);
    catchUp();
  });

  // A response that was made before something was taken away, and comes after it.
  document.addEventListener("htmx:after:swap", ({ target, detail: { ctx } }) => {
    if (target.id === "live" || !shownVersion()) return;
    if (ctx?.sourceElement === list) noteAccess(shownVersion());
    else if (accessOf(shownVersion()) !== access) fetchList();
  });

  for (const name of ["mouseleave", "focusout"]) list.addEventListener(name, () => setTimeout(catchUp));
  document.addEventListener("visibilitychange", catchUp);
  list.addEventListener("click", event => { if (event.target.closest(".nav-more")) hasOlder = true; });
  setInterval(refresh, EVERY_MS);

  document.addEventListener("htmx:before:swap", ({ detail: { ctx } }) => {
    if (ctx.response?.headers.get("X-Room-List") !== "later") return;
    const shown = shownVersion();
    setTimeout(() => { if (shownVersion() === shown) refresh(); }, SOON_MS);
  });

  // The other places of such a page where titles are.
  document.addEventListener("list:lost", () => { if (document.querySelector("[data-titles]")) location.reload(); });

  /* --- the room was taken away: with it go its title and by whom it was shared --- */

  function removeLine() {
    for (const link of list.querySelectorAll(`[data-room="${room.dataset.room}"]`)) link.closest("li").remove();
  }

  document.addEventListener("room:gone", ({ detail: { reason } }) => {
    if (!isSignedOut()) list.dataset.isGone = reason;
    if (reason === "signed-out") {
      list.replaceChildren();
      if (!room) document.dispatchEvent(new CustomEvent("tributary:notice", { detail: { text: "You are signed out. Reload the page to sign in; a draft is kept." } }));
      return;
    }
    if (!room) return;
    removeLine();
    // Whoever has left a team sees none of its other conversations either.
    fetchList();
  });

  // A list that was made before the room was taken away comes too late to bring its line back.
  document.addEventListener("htmx:after:swap", () => {
    if (room && list.dataset.isGone) removeLine();
  });
})();
