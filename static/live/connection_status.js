/* Tells people how the page is connected: not at all, or by the event stream. */
import { announce } from "../base/dom.js";
import { gettext } from "../base/i18n.js";

// A moment without a connection is not worth a word, and the websocket is tried once more before
// anybody is told that it is blocked.
const LOST_MS = 2000;
const FALLBACK_MS = 3000;
const timers = new Map();

// A line that appears is not read out by itself.
function showLine(line) {
  timers.delete(line.id);
  line.hidden = false;
  announce(line.querySelector("span").innerText);
}

/* Repeated while it is so, it is shown no later. */
function setLine(id, isSo, delay) {
  const line = document.getElementById(id);
  if (isSo && line?.hidden && !timers.has(id)) timers.set(id, setTimeout(showLine, delay, line));
  if (isSo) return;
  clearTimeout(timers.get(id));
  timers.delete(id);
  if (line) line.hidden = true;
}

// Without a network, nothing else is to blame.
function showReason() {
  for (const text of document.querySelectorAll("#connection [data-online]")) text.hidden = !navigator.onLine;
  for (const text of document.querySelectorAll("#connection [data-offline]")) text.hidden = navigator.onLine;
}

for (const name of ["online", "offline"]) addEventListener(name, showReason);
showReason();

/* `isStream`: by the event stream; `isStepwise`: which a proxy holds back, so that it is asked in steps. */
export function showStatus({ isConnected, isStream, isStepwise }) {
  const wasLost = document.getElementById("connection")?.hidden === false;
  document.getElementById("carrier")?.classList.toggle("is-in-steps", isStepwise);
  setLine("connection", !isConnected, LOST_MS);
  setLine("carrier", isConnected && isStream, FALLBACK_MS);
  if (wasLost && isConnected) announce(gettext("The connection is back."));
}
