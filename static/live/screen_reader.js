/* A live answer in a few sentences: that it begins, what it does, its tools, how it ends. Never its
   text, which people can read when it is there, or hear by paragraphs.js. */
import { announce, listen, onTouched } from "../base/dom.js";
import { ANNOUNCE, ANSWER_ENDED, ROOM_GONE, ROOM_SHOWN } from "../base/events.js";
import { gettext, interpolate, ngettext, percent } from "../base/i18n.js";

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

const followed = new Map();  // run → {tools: Map, saidAt, silence}

function noteSpeech() {
  for (const each of followed.values()) each.saidAt = performance.now();
}

function say(text, about, kind = "state") {
  noteSpeech();
  announce(text, { about, kind });
}

const modelOf = answer => answer.closest(".column, .turn").querySelector("bdi")?.textContent ?? gettext("a model");

/* --- beginnings --- */
function look(isFirst) {
  lookAfter();
  for (const answer of turns.querySelectorAll(".answer[data-live]")) {
    if (followed.has(answer.dataset.run)) continue;
    followed.set(answer.dataset.run, { tools: new Map(), saidAt: performance.now(), silence: SILENCE_MS });
    if (isFirst) lookAtTools(answer.querySelectorAll(".tool"), true);
    else if (answer.previousElementSibling) say(gettext("The answer continues"));
    else say(interpolate(gettext("Answer from %(model)s started"), { model: modelOf(answer) }));
  }
}

// Another version took its place, or its end came with the page and not by the live connection.
function lookAfter() {
  for (const run of followed.keys()) {
    const answer = document.getElementById(`r${run}`);
    if (!answer) followed.delete(run);
    else if (!answer.hasAttribute("data-live")) end(run);
  }
}

// On a page that was emptied no answer is live any more; the list beside it still changes.
listen(ROOM_SHOWN, () => { if (turns.isConnected) look(false); });
listen(ROOM_GONE, () => followed.clear());

/* --- phases and progress: the strip above the composer --- */
let phase = dock.querySelector("#strip .phase .word")?.textContent ?? "";
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
  say(`${phase}, ${percent(value)}`, "progress");
}

new MutationObserver(lookAtStrip).observe(dock, { childList: true, subtree: true, characterData: true });

/* --- tools: only what a patch touched is looked at, however long the answer is --- */
const STATES = {
  live: gettext("Tool %(name)s started"), good: gettext("Tool %(name)s finished"), bad: gettext("Tool %(name)s failed"),
};

function lookAtTools(tools, isSilent = false) {
  for (const tool of tools) {
    const known = followed.get(tool.closest(".answer")?.dataset.run)?.tools;
    const state = Object.keys(STATES).find(tone => tool.querySelector(`:scope > summary > .state.${tone}`));
    if (!known || !state || known.get(tool.id) === state) continue;
    known.set(tool.id, state);
    const name = tool.querySelector(":scope > summary > .name")?.textContent ?? "";
    if (!isSilent) say(interpolate(STATES[state], { name }));
  }
}

onTouched(turns, ".tool", tools => lookAtTools(tools));

/* --- endings --- */
listen(ANSWER_ENDED, ({ run }) => end(run));

function end(run) {
  const answer = document.getElementById(`r${run}`);
  if (!followed.delete(run) || !answer) return;
  const verdict = answer.querySelector(".verdict");
  const title = verdict?.querySelector(".word")?.textContent.replace(/\.$/, "");
  const sentence = `${[title ?? gettext("Answer complete"), ...countsOf(answer)].join(", ")}.`;
  const field = document.activeElement;
  const isReachable = field?.id === "text" && !field.value;
  const hint = !title && isReachable ? ` ${gettext("Press the up arrow key to read it.")}` : "";
  if (verdict?.classList.contains("bad")) announce(sentence, { urgent: true });
  else say(sentence + hint, "", "end");
}

function countsOf(answer) {
  const text = [...answer.querySelectorAll(".message")].map(message => message.textContent).join(" ");
  const words = text.split(/\s+/).filter(Boolean).length;
  const artifacts = answer.querySelectorAll(".artifact, .mockup").length;
  return [
    ...(words ? [ngettext("%(count)s word", "%(count)s words", words)] : []),
    ...(artifacts ? [ngettext("%(count)s artifact", "%(count)s artifacts", artifacts)] : []),
  ];
}

// People who hear the text itself need no word that it goes on.
listen(ANNOUNCE, ({ kind }) => { if (kind === "text") noteSpeech(); });

setInterval(() => {
  const now = performance.now();
  for (const each of followed.values()) {
    if (now - each.saidAt < each.silence || !phase) continue;
    each.silence = Math.min(each.silence * 2, LONGEST_SILENCE_MS);
    say(interpolate(gettext("Still %(phase)s"), { phase: phase[0].toLocaleLowerCase() + phase.slice(1) }), "phase");
  }
}, 1000);

look(true);
