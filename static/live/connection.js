/* The page's connection to the server: a websocket or, where a network blocks websockets, an event
   stream. It says what the page shows when it begins, changes from one to the other by itself, and
   tells people when it is lost. */
import { emit, listen, ofTab } from "../base/dom.js";
import { CONNECTION_STATE, ROOM_GONE } from "../base/events.js";
import { showStatus } from "./connection_status.js";
import { eventStream } from "./event_stream.js";
import { websocket } from "./websocket.js";

// A websocket that takes longer to say something hangs. Beside a stream that works there is no hurry.
const PATIENCE_MS = 5000;
const PATIENCE_BESIDE_MS = 20000;
// So many that broke off in a row may be blocked.
const SUSPICIOUS = 2;
// Until the websocket is tried again while the stream works.
const AGAIN_MS = [0, 30000, 60000, 120000, 300000];
const STORED = "tributary.plain";
const REASONS = { 4401: "signed-out", 4404: "deleted", 4410: "expired" };

/* `hello()` gives the message that a connection begins with, `take(message)` handles a message of the
   stream, `onIncoming(event)` one of the websocket before hx-ws swaps it, and `onGone()` follows its end.
   Returns `say(message)`, and `post(message)`, which only a working websocket takes: then it is true. */
export function connect(live, { hello, take, onIncoming, onGone }) {
  let failures = 0;
  let tries = 0;
  let timer = null;
  let isOnStream = false;
  let isStepwise = false;
  let isOpen = false;
  // Whether the websocket has said anything since it opened: one that only opens is of no use.
  let isWorking = false;
  let isResting = false;
  let isMoving = false;
  let isGone = false;

  /* --- the websocket --- */
  const socket = websocket(live, {
    mayConnect: () => !isResting && !isGone,
    onGone,

    onOpened() {
      isOpen = true;
      // Beside a stream it has to prove itself first: does anything come back?
      socket.say(isOnStream ? { type: "hello", runs: [] } : hello());
    },

    onIncoming(event) {
      if (!isOnStream) {
        noteWorking();
        return onIncoming(event);
      }
      event.preventDefault();
      if (!isMoving) moveBack();
    },

    onClosed({ code, isFailure }) {
      isOpen = isWorking = false;
      if (isGone) return;
      if (code >= 4000) take({ gone: true, reason: REASONS[code] ?? "access" });
      else lose(isFailure);
    },

    onDead({ isFailure }) {
      isOpen = isWorking = false;
      if (isGone) return;
      lose(isFailure);
      if (!isOnStream) again();
    },

    onLate(age) {
      if (age <= (isOnStream ? PATIENCE_BESIDE_MS : PATIENCE_MS)) return;
      if (isOnStream) return rest();
      show(false);
      stream.start();
    },

    onProven() {
      failures = tries = 0;
      ofTab.set(STORED, null);
    },
  });

  // What still comes out of a websocket that has closed meanwhile says nothing about the next one.
  function noteWorking() {
    if (!isOpen || isWorking) return;
    isWorking = true;
    stream.stop();
    show(true);
  }

  function lose(isFailure) {
    if (isFailure) failures += 1;
    if (isOnStream) return rest();
    show(false);
    if (failures >= SUSPICIOUS) stream.start();
  }

  /* --- the stream --- */
  const stream = eventStream(live.dataset.stream, {
    hello,
    take,

    onHeard(heard) {
      isStepwise = heard.isStepwise;
      const isNew = !isOnStream;
      isOnStream = true;
      show(true);
      if (!isNew) return;
      ofTab.set(STORED, "");
      rest();
    },

    onFailed(count) {
      show(isWorking);
      if (isResting && count > 1) again();
    },
  });

  async function moveBack() {
    isMoving = true;
    await stream.stop();
    isMoving = false;
    if (!isOpen) return stream.start();
    isOnStream = false;
    isWorking = true;
    socket.say(hello());
    show(true);
  }

  /* Closes the websocket for a while. */
  function rest() {
    isResting = true;
    isOpen = isWorking = false;
    socket.reopen();
    later();
  }

  function later() {
    clearTimeout(timer);
    const delay = AGAIN_MS[Math.min(tries, AGAIN_MS.length - 1)];
    tries += 1;
    timer = setTimeout(again, delay * (0.75 + Math.random() / 2));
  }

  function again() {
    clearTimeout(timer);
    isResting = isOpen = isWorking = false;
    if (!isGone) socket.reopen();
  }

  // Back from the cache, where htmx closed its socket for good, or from a time without a network.
  addEventListener("pagehide", () => { isOpen = isWorking = false; });
  const revive = () => { if (!isGone && !isOnStream && !isOpen) again(); };
  addEventListener("pageshow", event => { if (event.persisted) revive(); });
  addEventListener("online", revive);

  function show(isThere) {
    const state = { isConnected: isThere || isGone, isStream: isOnStream && !isGone, isStepwise };
    showStatus(state);
    emit(CONNECTION_STATE, { ...state, isAsking: stream.isAsking() });
  }

  listen(ROOM_GONE, () => {
    isGone = true;
    clearTimeout(timer);
    stream.stop();
    show(true);
  });

  // What was blocked on the last page of this tab is blocked on this one.
  if (ofTab.get(STORED) !== null) {
    isResting = true;
    tries = 1;
    document.addEventListener("DOMContentLoaded", () => { stream.start(); later(); });
  }

  return {
    say(message) {
      if (!isOnStream) socket.say(message);
      if (["follow", "resync"].includes(message.type)) stream.renew();
    },
    post: message => isWorking && !isOnStream && socket.say(message),
  };
}
