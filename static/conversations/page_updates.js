/* What the page shows of its conversation: the server is told with each request, and over the live
   connection whenever that changes. So it can send an update of exactly that, unasked. */
import { emit, listen, onSwapped } from "../base/dom.js";
import { FINALLY_REQUEST, PAGE_SHOWN, ROOM_CHANGED } from "../base/events.js";

const room = document.getElementById("room");
const turns = document.getElementById("turns");
const sync = document.getElementById("turns-sync");

// The runs of answers of which more may come, each with the number of its questions here.
function runs() {
  const open = [...turns.children].filter(turn => turn === turns.lastElementChild || turn.querySelector(":scope > footer[data-open]"));
  const answers = open.flatMap(turn => [...turn.querySelectorAll(":scope > .runs > .answer")]);
  return Object.fromEntries(answers.map(({ dataset: { run } }) =>
    [run, document.querySelectorAll(`#asks-${run} > .ask`).length]));
}

export const openAsks = () => [...turns.querySelectorAll(".ask-line")];

function state() {
  const mark = id => document.getElementById(id)?.dataset.mark ?? "";
  return {
    first: turns.firstElementChild?.dataset.turn ?? "",
    tail: turns.lastElementChild?.dataset.turn ?? "",
    revision: Number(room.dataset.revision),
    open: [...turns.querySelectorAll("footer[data-open]")].map(footer => footer.id.slice(1)),
    strip: mark("strip"),
    action: mark("composer-action"),
    tools: mark("tools-count"),
    runs: runs(),
    asks: Object.fromEntries(openAsks().map(({ dataset: { ask, mark } }) => [ask, mark])),
    head: document.querySelector("#room-head [data-mark]")?.dataset.mark ?? "",
    writes: document.getElementById("composer") !== null,
  };
}

/* For a request, whose answer may contain the list, too. */
export const position = () => ({
  ...state(),
  number: Number(turns.lastElementChild?.dataset.number ?? 0),
  lines: document.querySelectorAll("#conversations [data-recent] > li").length,
});

/* --- over the live connection --- */
// The state that the server was told, and its number. Empty while the page asks for changes itself.
let told = "";
let number = 0;
const asking = new Set();

export function shownPage() {
  if (!room) return undefined;
  if (asking.size) {
    told = "";
    return { number };
  }
  const shown = state();
  const text = JSON.stringify(shown);
  if (text !== told) number += 1;
  told = text;
  return { number, revision: shown.revision, state: shown };
}

const isToldAnew = () => asking.size ? told !== "" : JSON.stringify(state()) !== told;

function tell() {
  if (room && !room.dataset.isGone && isToldAnew()) emit(PAGE_SHOWN);
}

/* Until this request is over, its answer says what has changed. */
export function noteAsking(ctx) {
  asking.add(ctx);
  tell();
}

listen(FINALLY_REQUEST, ({ ctx }) => {
  asking.delete(ctx);
  tell();
});
onSwapped(tell);

/* One that was made for another state is dropped; the server is told of the new one, and makes another.
   Returns whether it was applied. */
export async function applyUpdate({ page, revision, content }) {
  if (room.dataset.isGone || page !== number || isToldAnew() || asking.size) {
    tell();
    return false;
  }
  room.dataset.revision = String(Math.max(revision, Number(room.dataset.revision)));
  try {
    await htmx.swap({ sourceElement: sync, target: sync, swap: "none swapEmpty:false", text: content, transition: false });
  } catch {
    emit(ROOM_CHANGED, {});
  }
  tell();
  return true;
}
