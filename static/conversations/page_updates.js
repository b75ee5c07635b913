/* What the page shows of its conversation: the server is told with each request, and over the live
   connection whenever that changes. So it can send an update of exactly that, unasked. */
import { emit, listen, onSwapped } from "../base/dom.js";
import { FINALLY_REQUEST, ROOM_CHANGED } from "../base/events.js";
import { openChannel } from "../live/channels.js";

const room = document.getElementById("room");
const turns = document.getElementById("turns");
const sync = document.getElementById("turns-sync");

// The runs of answers of which more may come, each with the number of its questions here.
function runs() {
  const open = [...turns.children].filter(turn => turn === turns.lastElementChild || turn.querySelector(":scope > footer[data-open]"));
  const answers = open.flatMap(turn => [...turn.querySelectorAll(":scope > .runs > .answer, .column > .runs > .answer")]);
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
    is_behind: turns.querySelector(".newer") !== null,
    compares: turns.lastElementChild?.matches(".compared-turn") ?? false,
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

function shownPage() {
  const shown = state();
  const { revision, writes } = shown;
  if (asking.size) {
    told = "";
    return { revision, writes, is_asking: true };
  }
  const text = JSON.stringify(shown);
  if (text !== told) number += 1;
  told = text;
  return { revision, writes, number, state: shown };
}

const { say } = openChannel("page", {
  shown: shownPage,

  async take(message, { isOneWay }) {
    const isApplied = message.page !== undefined && await applyUpdate(message);
    // Over the stream, the server can't be told what the page shows instead.
    if (message.page === undefined || (!isApplied && isOneWay)) emit(ROOM_CHANGED, { revision: message.revision });
  },
});

const isToldAnew = () => asking.size ? told !== "" : JSON.stringify(state()) !== told;

function tell() {
  if (!room.dataset.isGone && isToldAnew()) say(shownPage());
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
async function applyUpdate({ page, revision, content }) {
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
