/* How the page stands with the server, in words: the connection lost, or by the plain stream. */
(() => {
  "use strict";

  // A moment without a connection is nothing to tell, and the websocket is tried once more before
  // anybody is told that it does not get through.
  const LOST_MS = 2000;
  const PLAIN_MS = 3000;

  const timers = new Map();

  function show(id, isShown, delay) {
    clearTimeout(timers.get(id));
    const line = document.getElementById(id);
    if (!line) return;
    if (!isShown) line.hidden = true;
    else if (line.hidden) timers.set(id, setTimeout(() => { line.hidden = false; }, delay));
  }

  /* `isThere`: something carries; `isPlain`: the stream does; `isStep`: in steps. */
  document.addEventListener("live:standing", ({ detail: { isThere, isPlain, isStep } }) => {
    show("connection", !isThere, LOST_MS);
    show("carrier", isPlain, PLAIN_MS);
    document.getElementById("carrier")?.classList.toggle("is-in-steps", isStep);
  });
})();
