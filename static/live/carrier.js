/* What carries the live page: the websocket, or a plain stream where something blocks websockets. */
(() => {
  "use strict";

  const live = document.getElementById("live");
  if (!live) return;
  // A websocket that takes longer to say something hangs. Beside a stream that works there is no hurry.
  const PATIENCE_MS = 5000;
  const PATIENCE_BESIDE_MS = 20000;
  // So many that broke off in a row may be blocked.
  const SUSPICIOUS = 2;
  // Until the websocket is tried again while the stream carries.
  const AGAIN_MS = [0, 30000, 60000, 120000, 300000];
  const KEPT = "tributary.plain";
  const REASONS = { 4401: "signed-out", 4404: "deleted" };

  let failures = 0;
  let tries = 0;
  let timer = null;
  let isOnPlain = false;
  let isStep = false;
  let isOpen = false;
  // Whether the websocket has said anything since it opened: one that only opens carries nothing.
  let isCarrying = false;
  let isResting = false;
  let isMoving = false;
  let isGone = false;

  const tell = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));
  const say = message => tell("socket:say", message);
  const stands = isThere => tell("live:standing", { isThere: isThere || isGone, isPlain: isOnPlain && !isGone, isStep });

  function greet() {
    const asking = {};
    tell("live:ask", asking);
    say(asking.hello);
  }

  /* --- the websocket --- */

  live.addEventListener("htmx:ws:before:connection", event => {
    if (isResting || isGone) event.preventDefault();
  });

  document.addEventListener("socket:opened", () => {
    isOpen = true;
    // Beside a stream it has to prove itself first: does anything come back?
    if (isOnPlain) say({ type: "hello", runs: [] });
    else greet();
  });

  live.addEventListener("htmx:ws:before:message:incoming", event => {
    if (!isOnPlain) return carry();
    event.preventDefault();
    if (!isMoving) moveBack();
  });

  // What still comes out of a websocket that has closed meanwhile says nothing about the next one.
  function carry() {
    if (!isOpen || isCarrying) return;
    isCarrying = true;
    tell("plain:stop");
    stands(true);
  }

  document.addEventListener("socket:closed", ({ detail: { code, isFailure } }) => {
    isOpen = isCarrying = false;
    if (isGone) return;
    if (code >= 4000) return tell("live:take", { message: { gone: true, reason: REASONS[code] ?? "access" } });
    fell(isFailure);
  });

  document.addEventListener("socket:dead", ({ detail: { isFailure } }) => {
    isOpen = isCarrying = false;
    if (isGone) return;
    fell(isFailure);
    if (!isOnPlain) again();
  });

  function fell(isFailure) {
    if (isFailure) failures += 1;
    if (isOnPlain) return rest();
    stands(false);
    if (failures >= SUSPICIOUS) tell("plain:start");
  }

  document.addEventListener("socket:late", ({ detail: { age } }) => {
    if (age <= (isOnPlain ? PATIENCE_BESIDE_MS : PATIENCE_MS)) return;
    if (isOnPlain) return rest();
    stands(false);
    tell("plain:start");
  });

  document.addEventListener("socket:proven", () => {
    failures = tries = 0;
    sessionStorage.removeItem(KEPT);
  });

  /* --- from one to the other --- */

  document.addEventListener("plain:heard", event => {
    isStep = event.detail.isStep;
    const isNew = !isOnPlain;
    isOnPlain = true;
    stands(true);
    if (!isNew) return;
    sessionStorage.setItem(KEPT, "");
    rest();
  });

  document.addEventListener("plain:failed", event => {
    if (!isCarrying) stands(false);
    if (isResting && event.detail.failures > 1) again();
  });

  async function moveBack() {
    isMoving = true;
    const stopping = {};
    tell("plain:stop", stopping);
    await stopping.done;
    isMoving = false;
    if (!isOpen) return tell("plain:start");
    isOnPlain = false;
    isCarrying = true;
    greet();
    stands(true);
  }

  /* Lets go of the websocket for a while. */
  function rest() {
    isResting = true;
    isOpen = isCarrying = false;
    htmx.process(live, true);
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
    isResting = isOpen = isCarrying = false;
    if (!isGone) htmx.process(live, true);
  }

  // Back from the cache, where htmx closed its socket for good, or from a time without a network.
  addEventListener("pagehide", () => { isOpen = isCarrying = false; });
  const revive = () => { if (!isGone && !isOnPlain && !isOpen) again(); };
  addEventListener("pageshow", event => { if (event.persisted) revive(); });
  addEventListener("online", revive);

  /* --- what the page has to say --- */

  document.addEventListener("live:say", ({ detail: message }) => {
    if (!isOnPlain) say(message);
    if (["follow", "resync"].includes(message.type)) tell("plain:renew");
  });

  document.addEventListener("room:gone", () => {
    isGone = true;
    clearTimeout(timer);
    tell("plain:stop");
    stands(true);
  });

  // What was blocked on the last page of this tab is blocked on this one.
  if (sessionStorage.getItem(KEPT) !== null) {
    isResting = true;
    tries = 1;
    document.addEventListener("DOMContentLoaded", () => { tell("plain:start"); later(); });
  }
})();
