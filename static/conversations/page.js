/* The conversation beyond its live answers: fetches what has changed and was not sent, and empties the page
   when access is lost. */
import { announce, emit, listen, onSwapped } from "../base/dom.js";
import { BEFORE_REQUEST, BEFORE_SWAP, REQUEST_ERROR, RESPONSE_ERROR, ROOM_CHANGED, ROOM_GONE, ROOM_SHOWN } from "../base/events.js";
import { gettext } from "../base/i18n.js";
import { noteAsking, openAsks, position } from "./page_updates.js";

const room = document.getElementById("room");
const turns = document.getElementById("turns");
const DELAY_MS = 40;
const AGAIN_MS = 3000;
const LONGEST_MS = 60000;

// Here and not when the request is made: it may have been queued, and the page moved on.
listen(BEFORE_REQUEST, ({ ctx }, event) => {
  const { request } = ctx;
  const isChange = isRefresh(request);
  if (isChange && !isStillWanted()) event.preventDefault();
  request.headers["X-Room-Position"] = JSON.stringify(position());
  if (!event.defaultPrevented && (isChange || request.method === "POST")) noteAsking(ctx);
});

/* --- changes --- */
const ANYTHING = "anything";
let timer = null;
let failures = 0;
// What is to be fetched: a revision that the page was told of, or whatever there is.
let wanted = null;

function refresh(delay = DELAY_MS, revision = ANYTHING) {
  if (wanted !== ANYTHING) wanted = revision;
  clearTimeout(timer);
  timer = setTimeout(() => {
    if (room.dataset.isGone) return;
    htmx.ajax("GET", room.dataset.changes, { source: "#turns-sync", swap: "none" });
  }, delay);
}

// The answer to one's own message, or to the request before, may have brought it meanwhile.
function isStillWanted() {
  const isWanted = wanted !== null && wanted !== Number(room.dataset.revision);
  wanted = null;
  return isWanted;
}

const isRefresh = request => request?.method === "GET" && request.action.startsWith(room.dataset.changes);

// The page is told once of a change: what could not be fetched is asked for again.
function refreshLater() {
  refresh(Math.min(AGAIN_MS * 2 ** failures, LONGEST_MS) * (0.5 + Math.random()));
  failures += 1;
}

// A change may have been made although its response is lost.
listen(REQUEST_ERROR, ({ ctx }) => {
  if (isRefresh(ctx?.request) || ctx?.request?.method === "POST") refreshLater();
});

listen(ROOM_CHANGED, ({ revision }) => {
  if (revision === undefined || revision !== Number(room.dataset.revision)) refresh(DELAY_MS, revision);
});

listen(RESPONSE_ERROR, ({ ctx: { response, request } }) => {
  const { status } = response;
  if (isRefresh(request) && status === 404) emit(ROOM_GONE, { reason: "access" });
  else if (isRefresh(request) && status === 401) emit(ROOM_GONE, { reason: "signed-out" });
  else if (isRefresh(request) && (status >= 500 || status === 429)) refreshLater();
  else if (status === 409) refresh();
});

listen(BEFORE_SWAP, ({ ctx, tasks }, event) => {
  // Asked for while it could still be read: nothing of it comes back onto an emptied page.
  if (room.dataset.isGone && isRefresh(ctx.request)) return event.preventDefault();
  const going = tasks.filter(task => task.swapSpec.style === "delete").map(task => task.target);
  for (const task of tasks) if (task.target?.matches("#turns, .runs")) removeKnown(task, going);
  const revision = Number(ctx.response?.headers.get("X-Room-Revision"));
  if (!revision) return;
  failures = 0;
  room.dataset.revision = String(Math.max(revision, Number(room.dataset.revision)));
});

// What is on the page already does not come a second time, whatever crossed on the way; unless it goes, and comes in
// another form.
function removeKnown(task, going) {
  if (task.swapSpec.style === "innerHTML") return;
  for (const part of [...task.fragment.children]) {
    const known = part.id && document.getElementById(part.id);
    if (known && !going.includes(known)) part.remove();
  }
}

onSwapped(() => {
  const title = document.querySelector("#room-head [data-title]")?.dataset.title;
  if (title) document.title = `${title} · Tributary`;
  room.toggleAttribute("data-writable", document.getElementById("composer") !== null);
  emit(ROOM_SHOWN);
  announceNewLines();
});

// For people who cannot see the page: questions that wait, and a colleague's version, are announced at once.
const lines = () => new Map([
  ...openAsks().filter(line => !("works" in line.dataset)).map(line => [line.id, {
    text: "call" in line.dataset ? gettext("A tool needs approval.") : gettext("A question needs an answer."),
    urgent: true,
  }]),
  ...[...document.querySelectorAll("#turns .newer")].map(line => [
    line.querySelector("form").action, { text: `${line.firstChild.data.trim()}.` },
  ]),
]);
let announced = lines();

function announceNewLines() {
  const now = lines();
  const fresh = [...now].filter(([key]) => !announced.has(key)).map(([, sentence]) => [sentence.text, sentence]);
  announced = now;
  for (const { text, urgent } of new Map(fresh).values()) announce(text, { urgent });
}

/* --- access lost, signed out, deleted --- */
const GONE = {
  "signed-out": [gettext("You’re signed out"), gettext("Your draft is kept. Sign in again to continue.")],
  deleted: [gettext("This conversation was deleted"), gettext("Its owner deleted it.")],
  expired: [gettext("This conversation expired"), gettext("It was temporary.")],
  access: [
    gettext("This conversation is no longer shared with you"),
    gettext("The owner made it private, or you’re no longer on the team."),
  ],
};

listen(ROOM_GONE, ({ reason }) => {
  // A response "not found" that was still on its way knows less than what was said before it.
  if (room.dataset.isGone && reason === "access") return;
  const [title, sentence] = GONE[reason] ?? GONE.access;
  const gone = document.getElementById("gone");
  room.dataset.isGone = reason;
  for (const id of ["transcript", "dock", "connection"]) document.getElementById(id)?.remove();
  document.getElementById("room-head").replaceChildren();
  gone.querySelector("h2").textContent = title;
  gone.querySelector("p").textContent = sentence;
  if (reason === "signed-out") Object.assign(gone.querySelector("a"), { href: location.pathname, textContent: gettext("Sign in") });
  gone.hidden = false;
  document.title = "Tributary";
  announce(title, { urgent: true });
});
