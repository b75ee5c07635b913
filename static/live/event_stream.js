/* The event stream: the websocket's messages over HTTP, for networks that block websockets. The address
   says what the page shows and where it stands, so any change of that opens another stream. */
import { ofTab } from "../base/dom.js";
import { isStream, messagesOf } from "./sse.js";

const GREETING_MS = 8000;
const SILENCE_MS = 30000;
// Stepwise (long polling): how long the server may keep an answer back, and the least time between two.
const WAIT_SECONDS = 20;
const STEP_MS = 250;
// What held a stream back may have been one bad moment of the server: while no answer is live, a
// stream is tried again.
const STREAM_AGAIN_MS = 300000;
// Browsers open six connections to a host over HTTP/1.1, for all their tabs: some stay free for
// pages and forms. A tab that finds no slot asks now and then, and holds nothing meanwhile.
const SLOTS = 3;
const ASK_MS = 2000;
// A server that restarts ends all streams at once: not all tabs come back at once.
const SPREAD_MS = 3000;
const LONGEST_MS = 10000;
const AWAY_MS = 5000;
const STORED = "tributary.steps";

/* `hello()` gives the first message, `take(message)` handles one from the server and may return a
   promise, `onHeard({isStepwise})` follows the first message of a stream, and `onFailed(failures)` a
   stream that brought none. Returns `start()`, `stop()` with a promise, `renew()` and `isAsking()`. */
export function eventStream(address, { hello, take, onHeard, onFailed }) {
  let isWanted = false;
  let isCached = false;
  let isAsking = false;
  let isStepwise = ofTab.get(STORED) !== null;
  let steppedAt = Date.now();
  let failures = 0;
  let running = null;
  let aborter = null;
  let wake = () => {};

  const rest = ms => new Promise(resolve => { wake = resolve; setTimeout(resolve, ms); });
  // Hidden tabs close their connection; they catch up when they are seen again.
  const isAway = () => document.hidden || isCached;
  const leave = why => aborter?.abort(why);

  async function run() {
    while (isWanted) await rest(isAway() ? SILENCE_MS : await attempt());
    running = null;
  }

  /* Milliseconds until the next one. */
  async function attempt() {
    try {
      const pause = await withSlot(receive);
      failures = 0;
      return pause;
    } catch (error) {
      isAsking = false;
      // This page left: to ask for something else, or not at all.
      if (typeof aborter?.signal.reason === "string") return 0;
      failures += 1;
      onFailed(failures);
      return Math.random() * Math.min(LONGEST_MS, SPREAD_MS * 2 ** (failures - 1));
    }
  }

  async function withSlot(work) {
    if (!navigator.locks) return work(true);
    for (let slot = 0; slot < SLOTS; slot++) {
      let isOurs = false;
      const result = await navigator.locks.request(`tributary-stream-${slot}`, { ifAvailable: true }, lock => {
        isOurs = lock !== null;
        return isOurs ? work(true) : undefined;
      });
      if (isOurs) return result;
    }
    return work(false);
  }

  async function receive(hasSlot) {
    const greeting = hello();
    const isTrial = isStepwise && hasSlot && !greeting.runs.length && Date.now() - steppedAt > STREAM_AGAIN_MS;
    const isStep = !isTrial && (isStepwise || !hasSlot);
    const waitSeconds = !hasSlot ? 1 : isStep ? WAIT_SECONDS : 0;
    aborter = new AbortController();
    if (!isWanted) leave("stopped");
    let isGreeted = false;
    let alarm = setTimeout(() => {
      // Either nothing answers, or something collects the answer before it passes it on.
      setStepwise(!isStep);
      leave(isTrial ? "held back" : new Error("no greeting"));
    }, GREETING_MS + 1000 * waitSeconds);
    try {
      for await (const message of messagesOf(await open(greeting, isStep, waitSeconds))) {
        // More of what has arrived already may follow after this page has left.
        aborter.signal.throwIfAborted();
        clearTimeout(alarm);
        alarm = setTimeout(() => leave(new Error("silent")), SILENCE_MS);
        isAsking = false;
        if (!isGreeted) onHeard({ isStepwise: isStep });
        if (!isGreeted && isTrial) setStepwise(false);
        isGreeted = true;
        failures = 0;
        await take(message);
      }
    } finally {
      clearTimeout(alarm);
      // What could not be read to its end would otherwise stay open.
      aborter.abort();
    }
    if (!isGreeted) throw new Error("empty");
    return !hasSlot ? ASK_MS : isStep ? STEP_MS : Math.random() * SPREAD_MS;
  }

  function setStepwise(value) {
    isStepwise = value;
    steppedAt = Date.now();
    ofTab.set(STORED, value ? "" : null);
  }

  async function open(greeting, isStep, waitSeconds) {
    const query = new URLSearchParams({ hello: JSON.stringify(greeting) });
    if (isStep) query.set("wait", waitSeconds);
    isAsking = true;
    const response = await fetch(`${address}?${query}`, { signal: aborter.signal, cache: "no-store", redirect: "error" });
    if (isStream(response)) return response;
    const answer = await response.json().catch(() => ({}));
    // Only in our server's own words: a proxy may use these numbers, too.
    const reason = { "401 signed_out": "signed-out", "404 not_found": "access" }[`${response.status} ${answer.error?.code}`];
    if (reason) take({ gone: true, reason });
    throw new Error(String(response.status));
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) setTimeout(() => { if (document.hidden) leave("away"); }, AWAY_MS);
    else wake();
  });
  addEventListener("pagehide", () => { isCached = true; leave("away"); });
  addEventListener("pageshow", () => { isCached = false; wake(); });
  addEventListener("online", () => wake());

  return {
    start() {
      if (isWanted) return;
      isWanted = true;
      running ??= run();
      wake();
    },
    stop() {
      isWanted = isAsking = false;
      leave("stopped");
      wake();
      return running;
    },
    renew: () => leave("renewed"),
    isAsking: () => isAsking,
  };
}
