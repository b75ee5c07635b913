/* Who has this conversation open, and who is writing in it. The server is told that this person does something,
   and that they are writing; that the page is open it knows by its connection. */
import { announce, csrfToken, listen, on, onSwapped, request, setText } from "../base/dom.js";
import { AFTER_REQUEST, CONNECTION_STATE, ROOM_ACCEPTED, ROOM_GONE } from "../base/events.js";
import { gettext, interpolate } from "../base/i18n.js";
import { openChannel } from "../live/channels.js";

// Five minutes without a sign are idle (chat/presence/records.py).
const ACTIVE_EVERY_MS = 60000;
const TYPING_EVERY_MS = 3000;
// Who writes no more for so long has stopped.
const PAUSE_MS = 5000;
const room = document.getElementById("room");
const line = document.getElementById("typing");

let isOnStream = false;
let activeAt = performance.now();
let typedAt = -TYPING_EVERY_MS;
let isTyping = false;
let pause = null;

/* --- what this person does --- */
const { say } = openChannel("presence", { shown: () => ({ is_active: !document.hidden }), take: show });

function tell(words) {
  if (room.dataset.isGone) return;
  if (!isOnStream) return say(words);
  const body = new URLSearchParams({ csrfmiddlewaretoken: csrfToken() });
  if ("is_typing" in words) body.set("typing", words.is_typing ? "1" : "0");
  // A sign that is lost is followed by others.
  request(`${location.pathname}presence/`, { method: "POST", body }).catch(() => {});
}

function noteActivity() {
  const now = performance.now();
  if (document.hidden || now - activeAt < ACTIVE_EVERY_MS) return;
  activeAt = now;
  tell({ is_active: true });
}

for (const type of ["pointerdown", "pointermove", "keydown", "wheel", "touchmove", "visibilitychange"]) {
  document.addEventListener(type, noteActivity, { passive: true });
}

on("input", "#text", field => {
  clearTimeout(pause);
  if (!field.value.trim()) return stopTyping();
  pause = setTimeout(stopTyping, PAUSE_MS);
  const now = performance.now();
  if (isTyping && now - typedAt < TYPING_EVERY_MS) return;
  [isTyping, typedAt, activeAt] = [true, now, now];
  tell({ is_active: true, is_typing: true });
});

function stopTyping() {
  clearTimeout(pause);
  if (isTyping) tell({ is_typing: false });
  isTyping = false;
}

listen(AFTER_REQUEST, ({ ctx }) => { if (ctx.hx.trigger === ROOM_ACCEPTED) stopTyping(); });
listen(CONNECTION_STATE, ({ isStream }) => { isOnStream = isStream; });

/* --- what the others do --- */
let people = "";
// A screen reader says once of each person that they write, and never again on this page.
const announced = new Set();

function show({ html, typing, writers }) {
  people = html;
  showPeople();
  setText(line, typing);
  const fresh = writers.filter(name => !announced.has(name));
  for (const name of fresh) announced.add(name);
  if (fresh.length) announce(interpolate(gettext("%(name)s is writing…"), { name: fresh[0] }), { about: "typing", kind: "state" });
}

// A list that is open stays open. The heading may have been swapped, and be empty here.
function showPeople() {
  const place = document.getElementById("presence");
  if (!place || place.dataset.shown === people) return;
  const isOpen = place.querySelector("details")?.open;
  place.innerHTML = people;
  place.dataset.shown = people;
  if (isOpen && people) place.querySelector("details").open = true;
}

onSwapped(showPeople);

listen(ROOM_GONE, () => {
  people = "";
  showPeople();
  setText(line, "");
});
