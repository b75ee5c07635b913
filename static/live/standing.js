/* How the page stands with the server, in words: the connection lost, or by the plain stream. */
(() => {
  "use strict";

  // A moment without a connection is nothing to tell, and the websocket is tried once more before
  // anybody is told that it does not get through.
  const LOST_MS = 2000;
  const PLAIN_MS = 3000;

  const timers = new Map();
  const announce = text => document.dispatchEvent(new CustomEvent("tributary:announce", { detail: { text } }));

  // A line that appears is not read out by itself.
  function show(line) {
    timers.delete(line.id);
    line.hidden = false;
    announce(line.querySelector("span").innerText);
  }

  /* Said again while it is so, it is shown no later. */
  function state(id, isSo, delay) {
    const line = document.getElementById(id);
    if (isSo && line?.hidden && !timers.has(id)) timers.set(id, setTimeout(show, delay, line));
    if (isSo) return;
    clearTimeout(timers.get(id));
    timers.delete(id);
    if (line) line.hidden = true;
  }

  /* `isThere`: something carries; `isPlain`: the stream does; `isStep`: in steps. */
  document.addEventListener("live:standing", ({ detail: { isThere, isPlain, isStep } }) => {
    const wasLost = document.getElementById("connection")?.hidden === false;
    document.getElementById("carrier")?.classList.toggle("is-in-steps", isStep);
    state("connection", !isThere, LOST_MS);
    state("carrier", isThere && isPlain, PLAIN_MS);
    if (wasLost && isThere) announce("The connection is back.");
  });
})();
