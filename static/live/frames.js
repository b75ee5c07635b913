/* Live answers: a cursor for each, the frames that continue them, and acknowledgements. */
import { emit, listen } from "../base/dom.js";
import {
  ANSWER_ENDED, ANSWER_STARTED, ROOM_GONE, ROOM_SHOWN, WS_AFTER_INCOMING, WS_ERROR,
} from "../base/events.js";
import { connectChannels, shownByChannels, takeForChannel } from "./channels.js";
import { connect } from "./connection.js";
import { complete } from "./open_blocks.js";
import { posts } from "./posts.js";
import { reload } from "./reload.js";

const live = document.getElementById("live");
const room = document.getElementById("room");
const ACK_MS = 500;
// What is on its way has arrived by then.
const MISSING_MS = 500;

const cursors = new Map();  // run → {answer, seq, check, held}
const acked = new Map();
let ackedAt = -ACK_MS;
let incoming = null;
let incomingFor = null;
let isGone = false;
const begun = new Set();  // runs that the server follows for this page before it shows them
const { takeAnswer, lose } = posts(message => post(message));
const { say, post } = connect(live, { hello, take: swapAndTake, onIncoming, onGone: lose });
connectChannels(say);

/* --- which answers are live on the page --- */
function look() {
  const shown = new Map();
  for (const answer of document.querySelectorAll("#turns .answer[data-live]")) {
    const { run, seq, check } = answer.dataset;
    shown.set(run, { answer, seq: Number(seq), check, held: new Map() });
  }
  for (const run of cursors.keys()) if (!shown.has(run)) forget(run);
  for (const [run, cursor] of shown) {
    // The same run in a new element stands where that element was rendered.
    if (cursors.get(run)?.answer === cursor.answer) continue;
    cursors.set(run, cursor);
    if (begun.delete(run) && cursor.seq === 0) continue;
    say({ type: "follow", run, seq: cursor.seq, check: cursor.check, holds: true });
  }
}

function forget(run) {
  cursors.delete(run);
  acked.delete(run);
  say({ type: "unfollow", run });
}

/* The first message of a connection: what the page shows, and where it stands. */
function hello() {
  begun.clear();
  const runs = [...cursors].map(([run, { seq, check }]) => ({ run, seq, check, holds: true }));
  const shown = room ? { room: room.dataset.room, epoch: room.dataset.epoch } : {};
  return { type: "hello", ...shown, runs, channels: shownByChannels() };
}

/* --- messages --- */
function onIncoming(event) {
  if (event.defaultPrevented) return;
  try { incoming = JSON.parse(event.detail.message.data); } catch { incoming = {}; }
  const message = incoming;
  incomingFor = cursors.get(message.run);
  // Frames of a run come after the answer that shows it, if somebody still waits for that.
  const shown = takeAnswer(message);
  if (shown && message.follows) begun.add(message.follows);
  event.detail.waitUntil(shown);
  if (isGone || message.channel || isMisplaced(message)) event.preventDefault();
  if (!isGone && message.channel) event.detail.waitUntil(takeForChannel(message, { isOneWay: false }));
  // What hx-ws swaps: the same object, with the open blocks.
  event.detail.message.json = async () => message;
}

// A patch fits only the text it was made for. One that crossed a new rendering on its way is dropped;
// the cursor that was sent with the new rendering brings the right one.
function isMisplaced(frame) {
  if (frame.content === undefined || !frame.run) return false;
  const cursor = cursors.get(frame.run);
  if (!cursor) return true;
  const isNext = frame.replaces || frame.after === undefined || frame.after === cursor.seq;
  const isUsable = isNext && complete(frame, cursor.held);
  if (!isUsable && frame.seq > cursor.seq) askUnlessItComes(frame.run, cursor);
  return !isUsable;
}

// A page that does not move on lacks something, which nobody will send again unasked.
function askUnlessItComes(run, cursor) {
  const { seq } = cursor;
  cursor.timer ??= setTimeout(() => {
    cursor.timer = undefined;
    if (cursors.get(run) === cursor && cursor.seq === seq) say({ type: "follow", run, seq, check: cursor.check, holds: true });
  }, MISSING_MS);
}

live.addEventListener(WS_AFTER_INCOMING, () => {
  const message = incoming;
  incoming = null;
  if (message) take(message, incomingFor);
});

/* `cursor`: the one that a frame was let through for. */
function take(message, cursor) {
  if (message.gone && message.reason === "restored") reload();
  else if (message.gone) gone(message.reason);
  else if (message.run) onFrame(message, cursor);
}

/* By the event stream, of which hx-ws swaps nothing. */
async function swapAndTake(message) {
  if (isGone || isMisplaced(message)) return;
  if (message.channel) return takeForChannel(message, { isOneWay: true });
  const cursor = cursors.get(message.run);
  if (message.content !== undefined) {
    try {
      await htmx.swap({ sourceElement: live, target: live, swap: "none swapEmpty:false", text: message.content, transition: false });
    } catch {
      return misfit(message.run);
    }
  }
  take(message, cursor);
}

function onFrame(frame, cursor) {
  // The answer was rendered again meanwhile, and stands where that says.
  if (!cursor || cursors.get(frame.run) !== cursor) return;
  if (cursor.seq === 0 && frame.seq > 0) emit(ANSWER_STARTED, { run: frame.run });
  Object.assign(cursor, { seq: frame.seq, check: frame.check });
  if (frame.live === false) ended(frame.run);
  // A timer alone is not enough: in a hidden tab it comes once a minute.
  if (performance.now() - ackedAt > ACK_MS) acknowledge();
}

// What can be copied has its button. A style sheet that asked for it (`:has`) would have the browser
// look anew at the whole answer with each word.
function noteWords(run) {
  const items = document.getElementById(`r${run}-items`);
  const hasWords = [...items?.children ?? []].some(item => item.matches(".message, .refusal"));
  if (hasWords) items.closest(".turn")?.setAttribute("data-worded", "");
}

function ended(run) {
  for (const name of ["data-live", "aria-busy"]) document.getElementById(`r${run}`)?.removeAttribute(name);
  noteWords(run);
  forget(run);
  emit(ANSWER_ENDED, { run });
}

live.addEventListener(WS_ERROR, event => {
  if (!(event.detail.error instanceof Error) || !incoming?.run) return;
  misfit(incoming.run);
  incoming = null;
});

// With a checksum that fits nothing the next connection, too, begins with the whole answer.
function misfit(run) {
  const cursor = cursors.get(run);
  if (!cursor) return;
  cursor.check = "";
  say({ type: "resync", run });
}

function acknowledge() {
  ackedAt = performance.now();
  const runs = {};
  for (const [run, { seq }] of cursors) if (acked.get(run) !== seq) acked.set(run, runs[run] = seq);
  if (Object.keys(runs).length) say({ type: "ack", runs });
}

setInterval(acknowledge, ACK_MS);

/* --- the end of the page --- */
function gone(reason) {
  if (isGone) return;
  isGone = true;
  cursors.clear();
  emit(ROOM_GONE, { reason });
}

listen(ROOM_SHOWN, look);
look();
