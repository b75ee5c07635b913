/* The room beyond its live answers: says what the page shows, fetches what has changed. */
(() => {
  "use strict";

  const room = document.getElementById("room");
  const turns = document.getElementById("turns");
  const DELAY_MS = 40;
  const AGAIN_MS = 3000;
  const LONGEST_MS = 60000;

  // The runs of answers of which more may come, each with the number of its questions here.
  function runs() {
    const open = [...turns.children].filter(turn => turn === turns.lastElementChild || turn.querySelector(":scope > footer[data-open]"));
    const answers = open.flatMap(turn => [...turn.querySelectorAll(":scope > .runs > .answer")]);
    return Object.fromEntries(answers.map(({ dataset: { run } }) =>
      [run, document.querySelectorAll(`#asks-${run} > .ask`).length]));
  }

  const openAsks = () => [...turns.querySelectorAll(".ask-line")];

  function position() {
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

  // Here and not when the request is made: it may have waited in line, and the page moved on.
  document.addEventListener("htmx:before:request", event => {
    const { request } = event.detail.ctx;
    if (isRefresh(request) && !isStillWanted()) event.preventDefault();
    request.headers["X-Room-Position"] = JSON.stringify(position());
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

  // The answer to a message of one's own, or to the request before, may have brought it meanwhile.
  function isStillWanted() {
    const isWanted = wanted !== null && wanted !== Number(room.dataset.revision);
    wanted = null;
    return isWanted;
  }

  const isRefresh = request => request?.method === "GET" && request.action.startsWith(room.dataset.changes);

  // Of a change the page is told once: what could not be fetched is asked for again.
  function refreshLater() {
    refresh(Math.min(AGAIN_MS * 2 ** failures, LONGEST_MS) * (0.5 + Math.random()));
    failures += 1;
  }

  document.addEventListener("htmx:error", event => {
    if (isRefresh(event.detail.ctx?.request)) refreshLater();
  });

  document.addEventListener("room:changed", event => {
    const revision = event.detail?.revision;
    if (revision === undefined || revision !== Number(room.dataset.revision)) refresh(DELAY_MS, revision);
  });

  document.addEventListener("htmx:before:swap", event => {
    const { ctx, tasks } = event.detail;
    // Asked for while it could still be read: nothing of it comes back onto an emptied page.
    if (room.dataset.isGone && isRefresh(ctx.request)) {
      event.preventDefault();
      return;
    }
    for (const task of tasks) if (task.target?.matches("#turns, .runs")) removeKnown(task);
    const revision = Number(ctx.response?.headers.get("X-Room-Revision"));
    if (revision) failures = 0;
    if (revision) room.dataset.revision = String(Math.max(revision, Number(room.dataset.revision)));
  });

  // What is on the page already does not come a second time, whatever crossed on the way.
  function removeKnown(task) {
    if (task.swapSpec.style === "innerHTML") return;
    for (const part of [...task.fragment.children]) {
      if (part.id && document.getElementById(part.id)) part.remove();
    }
  }

  document.addEventListener("htmx:after:swap", event => {
    if (event.target.id === "live") return;
    const title = document.querySelector("#room-head [data-title]")?.dataset.title;
    if (title) document.title = `${title} · Tributary`;
    document.dispatchEvent(new CustomEvent("room:shown"));
    announceNewLines();
  });

  // Whoever cannot see the page hears at once of questions that wait, and of a colleague's version.
  const lines = () => new Map([
    ...openAsks().map(line => [line.id, { text: "A question needs an answer.", urgent: true }]),
    ...[...document.querySelectorAll("#turns .newer")].map(line => [
      line.querySelector("form").action, { text: `${line.firstChild.data.trim()}.` },
    ]),
  ]);
  let announced = lines();

  function announceNewLines() {
    const now = lines();
    const fresh = [...now].filter(([key]) => !announced.has(key)).map(([, sentence]) => sentence);
    announced = now;
    for (const detail of new Map(fresh.map(each => [each.text, each])).values()) {
      document.dispatchEvent(new CustomEvent("tributary:announce", { detail }));
    }
  }

  document.addEventListener("htmx:response:error", event => {
    const { response, request } = event.detail.ctx;
    if (isRefresh(request) && response.status === 404) {
      document.dispatchEvent(new CustomEvent("room:gone", { detail: { reason: "access" } }));
    } else if (isRefresh(request) && (response.status >= 500 || response.status === 429)) {
      refreshLater();
    } else if (response.status === 409) {
      refresh();
    }
  });

  /* --- access lost, signed out, deleted --- */

  const GONE = {
    "signed-out": ["You are signed out", "Sign in again to read on. A draft in the composer is kept."],
    deleted: ["This conversation was deleted", "Its owner has removed it."],
    access: ["This conversation is no longer shared with you", "Its owner took it back, or your place in the team has changed."],
  };

  document.addEventListener("room:gone", event => {
    // An answer "not found" that was still on its way knows less than what was said before it.
    if (room.dataset.isGone && event.detail.reason === "access") return;
    const [title, sentence] = GONE[event.detail.reason] ?? GONE.access;
    const gone = document.getElementById("gone");
    room.dataset.isGone = event.detail.reason;
    for (const id of ["transcript", "dock", "connection"]) document.getElementById(id)?.remove();
    document.getElementById("room-head").replaceChildren();
    gone.querySelector("h2").textContent = title;
    gone.querySelector("p").textContent = sentence;
    if (event.detail.reason === "signed-out") {
      const link = gone.querySelector("a");
      link.href = location.pathname;
      link.textContent = "Sign in";
    }
    gone.hidden = false;
    document.title = "Tributary";
    document.dispatchEvent(new CustomEvent("tributary:announce", { detail: { text: title, urgent: true } }));
  });
})();
