/* A live answer in a few sentences: that it begins, what it is at, its tools, how it ends. Never its
   text, which whoever wants to reads when it is there, or hears by paragraphs.js. */
(() => {
  "use strict";

  const turns = document.getElementById("turns");
  const dock = document.getElementById("dock");
  // Nothing was said for so long: that it still goes on; the next time after twice as long.
  const SILENCE_MS = 10000;
  const LONGEST_SILENCE_MS = 80000;
  const PROGRESS_MS = 10000;
  const PROGRESS_PERCENT = 25;
  // Phases that only wait for the next one, those of tools, which have sentences of their own, and
  // questions, which are urgent.
  const UNSAID = /#(loader-circle|wrench|hand)$/;

  const narrated = new Map();  // run → {tools: Map, saidAt, silence}

  function say(text, about, kind = "state") {
    for (const each of narrated.values()) each.saidAt = performance.now();
    document.dispatchEvent(new CustomEvent("tributary:announce", { detail: { text, about, kind } }));
  }

  const words = (count, one) => `${count.toLocaleString()} ${one}${count === 1 ? "" : "s"}`;
  const modelOf = answer => answer.closest(".turn").querySelector(".turn-name bdi")?.textContent ?? "a model";

  /* --- beginnings --- */

  function look(isFirst) {
    lookAfter();
    for (const answer of turns.querySelectorAll(".answer[data-live]")) {
      if (narrated.has(answer.dataset.run)) continue;
      narrated.set(answer.dataset.run, { tools: new Map(), saidAt: performance.now(), silence: SILENCE_MS });
      if (isFirst) lookAtTools(answer, true);
      else if (answer.previousElementSibling) say("The answer goes on");
      else say(`Answer started, ${modelOf(answer)}`);
    }
  }

  // Another version took its place, or its end came with the page and not by the live connection.
  function lookAfter() {
    for (const run of narrated.keys()) {
      const answer = document.getElementById(`r${run}`);
      if (!answer) narrated.delete(run);
      else if (!answer.hasAttribute("data-live")) end(run);
    }
  }

  // On a page that was emptied nothing is at anything any more; the list beside it still changes.
  document.addEventListener("room:shown", () => { if (turns.isConnected) look(false); });
  document.addEventListener("room:gone", () => narrated.clear());

  /* --- phases and progress: the strip above the composer --- */

  let phase = "";
  let progress = { step: 0, saidAt: 0, value: 0 };

  function lookAtStrip() {
    const strip = dock.querySelector("#strip .phase");
    const word = strip?.querySelector(".word")?.textContent ?? "";
    if (word !== phase) {
      phase = word;
      progress = { step: 0, saidAt: performance.now(), value: 0 };
      if (word && !UNSAID.test(strip.querySelector("use")?.getAttribute("href") ?? "")) say(word, "phase");
    }
    const bar = strip?.querySelector("progress");
    if (bar) lookAtProgress(bar.value);
  }

  function lookAtProgress(value) {
    const step = Math.floor(value / PROGRESS_PERCENT);
    const isDue = step > progress.step || performance.now() - progress.saidAt > PROGRESS_MS;
    if (value <= progress.value || value >= 100 || !isDue) return;
    progress = { step, saidAt: performance.now(), value };
    say(`${phase}, ${value} %`, "progress");
  }

  /* --- tools: only what a patch touched is looked at, however long the answer is --- */

  const STATES = { live: "started", good: "finished", bad: "failed" };

  function lookAtTool(tool, isSilent) {
    const known = narrated.get(tool.closest(".answer")?.dataset.run)?.tools;
    const state = Object.keys(STATES).find(tone => tool.querySelector(`:scope > summary > .state.${tone}`));
    const before = known?.get(tool.id);
    if (!known || !state || before === state) return;
    known.set(tool.id, state);
    const name = tool.querySelector(":scope > summary > .name")?.textContent ?? "";
    if (!isSilent) say(`Tool ${name} ${STATES[state]}`);
  }

  function lookAtTools(place, isSilent) {
    for (const tool of place.querySelectorAll(".tool")) lookAtTool(tool, isSilent);
  }

  new MutationObserver(records => {
    const touched = new Set();
    for (const { target, addedNodes } of records) {
      const tool = target.closest(".tool");
      if (tool) touched.add(tool);
      else for (const node of addedNodes) {
        if (node.nodeType !== Node.ELEMENT_NODE) continue;
        if (node.matches(".tool")) touched.add(node);
        else for (const inside of node.querySelectorAll(".tool")) touched.add(inside);
      }
    }
    for (const tool of touched) lookAtTool(tool, false);
  }).observe(turns, { childList: true, subtree: true });

  /* --- endings --- */

  document.addEventListener("live:ended", ({ detail: { run } }) => end(run));

  function end(run) {
    const answer = document.getElementById(`r${run}`);
    if (!narrated.delete(run) || !answer) return;
    const verdict = answer.querySelector(".verdict");
    const title = verdict?.querySelector(".word")?.textContent.replace(/\.$/, "");
    const sentence = [title ?? "Answer complete", ...countsOf(answer)].join(", ");
    if (verdict?.classList.contains("bad")) {
      document.dispatchEvent(new CustomEvent("tributary:announce", { detail: { text: `${sentence}.`, urgent: true } }));
    } else {
      say(`${sentence}.${title ? "" : window.singleKeys?.areOn() ? " Press g, then n to read it." : ""}`, "", "end");
    }
  }

  function countsOf(answer) {
    const text = [...answer.querySelectorAll(".message")].map(message => message.textContent).join(" ");
    const artifacts = answer.querySelectorAll(".artifact, .mockup").length;
    const written = text.split(/\s+/).filter(Boolean).length;
    return [...(written ? [words(written, "word")] : []), ...(artifacts ? [words(artifacts, "artifact")] : [])];
  }

  // Who hears the text itself needs no word that it goes on.
  document.addEventListener("tributary:announce", ({ detail: { kind } }) => {
    if (kind !== "text") return;
    for (const each of narrated.values()) each.saidAt = performance.now();
  });

  setInterval(() => {
    const now = performance.now();
    for (const each of narrated.values()) {
      if (now - each.saidAt < each.silence || !phase) continue;
      each.silence = Math.min(each.silence * 2, LONGEST_SILENCE_MS);
      say(`Still ${phase[0].toLowerCase()}${phase.slice(1)}`, "phase");
    }
  }, 1000);

  phase = dock.querySelector("#strip .phase .word")?.textContent ?? "";
  new MutationObserver(lookAtStrip).observe(dock, { childList: true, subtree: true, characterData: true });
  look(true);
})();
