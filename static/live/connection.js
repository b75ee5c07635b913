/* The page's connection to the server: a websocket or, where a network blocks websockets, an event
   stream. It says what the page shows when it begins, changes from one to the other by itself, and
   tells people when it is lost. */
import { emit, listen, ofTab } from "../base/dom.js";
import { CONNECTION_STATE, REQUEST_ERROR, ROOM_GONE } from "../base/events.js";
import { showStatus } from "./connection_status.js";
import { ON_STREAM, TRANSITIONS, WITHOUT_WEBSOCKET } from "./connection_states.js";
import { eventStream } from "./event_stream.js";
import { websocket } from "./websocket.js";

// A websocket that takes longer to say something hangs. Beside a stream that works there is no hurry.
const PATIENCE_MS = 5000;
const PATIENCE_BESIDE_MS = 20000;
// So many that broke off in a row may be blocked.
const SUSPICIOUS = 2;
// A request that failed casts doubt on the connection, too, but what is told of it should be read first.
const DOUBT_MS = 5000;
// Until the websocket is tried again while the stream works.
const AGAIN_MS = [0, 30000, 60000, 120000, 300000];
const STORED = "tributary.plain";
const REASONS = { 4401: "signed-out", 4404: "deleted", 4410: "expired" };

/* `hello()` gives the message that a connection begins with, `take(message)` handles a message of the
   stream, `onIncoming(event)` one of the websocket before hx-ws swaps it, and `onGone()` follows its end.
   Returns `say(message)`, and `post(message)`, which only a working websocket takes: then it is true. */
export function connect(live, { hello, take, onIncoming, onGone }) {
  // What was blocked on the last page of this tab is blocked on this one.
  let state = ofTab.get(STORED) === null ? "connecting" : "blocked";
  let failures = 0;
  let tries = 0;
  let timer = null;
  let isStepwise = false;

  function step(event) {
    const [next, action] = TRANSITIONS[state][event] ?? [state];
    state = next;
    actions[action]?.();
  }

  const isOnStream = () => ON_STREAM.includes(state);

  /* --- the websocket --- */
  const socket = websocket(live, {
    mayConnect: () => !WITHOUT_WEBSOCKET.includes(state),
    onGone,
    onOpened: () => step("opened"),

    onIncoming(event) {
      const isBesideStream = isOnStream();
      step("spoke");
      if (isBesideStream) event.preventDefault();
      else onIncoming(event);
    },

    onClosed({ code, isFailure }) {
      if (state === "gone") return;
      if (code >= 4000) take({ gone: true, reason: REASONS[code] ?? "access" });
      else lose(isFailure);
    },

    onDead({ isFailure }) {
      lose(isFailure);
      step("revived");
    },

    onLate(age) {
      if (age > (isOnStream() ? PATIENCE_BESIDE_MS : PATIENCE_MS)) step("late");
    },

    onProven() {
      failures = tries = 0;
      ofTab.set(STORED, null);
    },
  });

  function lose(isFailure) {
    if (isFailure) failures += 1;
    step("lost");
  }

  /* --- the stream --- */
  const stream = eventStream(live.dataset.stream, {
    hello,
    take,

    onHeard(heard) {
      isStepwise = heard.isStepwise;
      step("heard");
      show(true);
    },

    onFailed(count) {
      show(state === "live");
      if (count > 1) step("again");
    },
  });

  /* --- what is done from one state to the next --- */
  const actions = {
    greet: () => socket.say(hello()),
    probe: () => socket.say({ type: "hello", runs: [], channels: {} }),
    renew: () => stream.renew(),
    rest,

    settleOnWebsocket() {
      stream.stop();
      show(true);
    },

    settleOnStream() {
      ofTab.set(STORED, "");
      rest();
    },

    noteLoss() {
      show(false);
      if (failures >= SUSPICIOUS) stream.start();
    },

    startStream() {
      show(false);
      stream.start();
    },

    reopen() {
      clearTimeout(timer);
      socket.reopen();
    },

    async leaveStream() {
      await stream.stop();
      // The websocket may have closed meanwhile.
      if (state !== "moving" && isOnStream()) stream.start();
      step("moved");
    },

    greetAnew() {
      socket.say(hello());
      show(true);
    },
  };

  /* Closes the websocket for a while. */
  function rest() {
    socket.reopen();
    later();
  }

  function later() {
    clearTimeout(timer);
    const delay = AGAIN_MS[Math.min(tries, AGAIN_MS.length - 1)];
    tries += 1;
    timer = setTimeout(step, delay * (0.75 + Math.random() / 2), "again");
  }

  // Back from the cache, where htmx closed its socket for good, or from a time without a network.
  addEventListener("pagehide", () => step("hidden"));
  addEventListener("pageshow", event => { if (event.persisted) step("revived"); });
  addEventListener("online", () => { if (state !== "live") step("revived"); });

  // The connection may still be there, to a server on this machine or in a moment: whatever comes proves it.
  listen(REQUEST_ERROR, ({ ctx }) => { if (ctx) setTimeout(step, DOUBT_MS, "doubted"); });
  addEventListener("offline", () => {
    step("doubted");
    show(false);
  });

  function show(isThere) {
    const shown = { isConnected: isThere || state === "gone", isStream: isOnStream(), isStepwise };
    showStatus(shown);
    emit(CONNECTION_STATE, { ...shown, isAsking: stream.isAsking() });
  }

  listen(ROOM_GONE, () => {
    state = "gone";
    clearTimeout(timer);
    stream.stop();
    show(true);
  });

  if (state === "blocked") {
    tries = 1;
    document.addEventListener("DOMContentLoaded", () => { stream.start(); later(); });
  }

  return {
    say(message) {
      if (!isOnStream()) socket.say(message);
      if (["follow", "resync"].includes(message.type)) stream.renew();
    },
    post: message => state === "live" && socket.say(message),
  };
}
