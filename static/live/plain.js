/* The plain stream: the websocket's messages over HTTP, for where websockets do not get through.
   The address says what the page shows and where it stands; whatever changes that opens another. */
(() => {
  "use strict";

  const live = document.getElementById("live");
  if (!live) return;
  const GREETING_MS = 8000;
  const SILENCE_MS = 30000;
  // In steps: how long the server may keep an answer back, and the least time between two.
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
  const KEPT = "tributary.steps";

  let isWanted = false;
  let isCached = false;
  let isInSteps = sessionStorage.getItem(KEPT) !== null;
  let steppedAt = Date.now();
  let failures = 0;
  let running = null;
  let aborter = null;
  let wake = () => {};

  const tell = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));
  const rest = ms => new Promise(resolve => { wake = resolve; setTimeout(resolve, ms); });
  // Hidden tabs let go of their connection; they catch up when they are seen again.
  const isAway = () => document.hidden || isCached;
  const leave = why => aborter?.abort(why);

  async function run() {
    while (isWanted) {
      if (isAway()) await rest(SILENCE_MS);
      else await rest(await attempt());
    }
    running = null;
  }

  /* Milliseconds until the next one. */
  async function attempt() {
    try {
      const pause = await withSlot(listen);
      failures = 0;
      return pause;
    } catch (error) {
      // We ourselves left: to ask for something else, or not at all.
      if (typeof aborter?.signal.reason === "string") return 0;
      failures += 1;
      tell("plain:failed", { failures });
      return Math.random() * Math.min(LONGEST_MS, SPREAD_MS * 2 ** (failures - 1));
    }
  }

  async function withSlot(work) {
    if (!navigator.locks) return work(true);
    for (let number = 0; number < SLOTS; number++) {
      let isOurs = false;
      const result = await navigator.locks.request(`tributary-stream-${number}`, { ifAvailable: true }, lock => {
        isOurs = lock !== null;
        return isOurs ? work(true) : undefined;
      });
      if (isOurs) return result;
    }
    return work(false);
  }

  async function listen(hasSlot) {
    const asking = {};
    tell("live:ask", asking);
    const isTrial = isInSteps && hasSlot && !asking.hello.runs.length && Date.now() - steppedAt > STREAM_AGAIN_MS;
    const isStep = !isTrial && (isInSteps || !hasSlot);
    const waitSeconds = !hasSlot ? 1 : isStep ? WAIT_SECONDS : 0;
    aborter = new AbortController();
    if (!isWanted) leave("stopped");
    let isGreeted = false;
    let alarm = setTimeout(() => {
      // Either nothing answers, or something collects the answer before it passes it on.
      setInSteps(!isStep);
      leave(isTrial ? "held back" : new Error("no greeting"));
    }, GREETING_MS + 1000 * waitSeconds);
    try {
      for await (const message of window.messagesOf(await open(asking.hello, isStep, waitSeconds))) {
        // More of what has arrived already may follow after we have left.
        aborter.signal.throwIfAborted();
        clearTimeout(alarm);
        alarm = setTimeout(() => leave(new Error("silent")), SILENCE_MS);
        if (!isGreeted) tell("plain:heard", { isStep });
        if (!isGreeted && isTrial) setInSteps(false);
        isGreeted = true;
        failures = 0;
        const taking = { message };
        tell("live:take", taking);
        await taking.taken;
      }
    } finally {
      clearTimeout(alarm);
      // What could not be read to its end would otherwise stay open.
      aborter.abort();
    }
    if (!isGreeted) throw new Error("empty");
    return !hasSlot ? ASK_MS : isStep ? STEP_MS : Math.random() * SPREAD_MS;
  }

  function setInSteps(value) {
    isInSteps = value;
    steppedAt = Date.now();
    if (value) sessionStorage.setItem(KEPT, "");
    else sessionStorage.removeItem(KEPT);
  }

  async function open(hello, isStep, waitSeconds) {
    const query = new URLSearchParams({ hello: JSON.stringify(hello) });
    if (isStep) query.set("wait", waitSeconds);
    const response = await fetch(`${live.dataset.stream}?${query}`, { signal: aborter.signal, cache: "no-store", redirect: "error" });
    if (window.isStream(response)) return response;
    const answer = await response.json().catch(() => ({}));
    // Only in our server's own words: whatever stands between may know these numbers, too.
    const reason = { "401 signed_out": "signed-out", "404 not_found": "access" }[`${response.status} ${answer.error?.code}`];
    if (reason) tell("live:take", { message: { gone: true, reason } });
    throw new Error(String(response.status));
  }

  /* --- what others ask of it --- */

  document.addEventListener("plain:start", () => {
    if (isWanted) return;
    isWanted = true;
    running ??= run();
    wake();
  });

  document.addEventListener("plain:stop", event => {
    isWanted = false;
    leave("stopped");
    wake();
    if (event.detail) event.detail.done = running;
  });

  document.addEventListener("plain:renew", () => { leave("renewed"); });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) setTimeout(() => { if (document.hidden) leave("away"); }, AWAY_MS);
    else wake();
  });
  addEventListener("pagehide", () => { isCached = true; leave("away"); });
  addEventListener("pageshow", () => { isCached = false; wake(); });
  addEventListener("online", () => wake());
})();
