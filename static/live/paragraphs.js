/* A live answer paragraph by paragraph, as each is complete, for people who have chosen to hear it so. */
import { announce, listen, onTouched } from "../base/dom.js";
import { ANSWER_ENDED, ROOM_SHOWN } from "../base/events.js";
import { interpolate, gettext, ngettext } from "../base/i18n.js";

const turns = document.getElementById("turns");
const MESSAGES = ".message, .refusal";
// Nobody listens to more of one block; the page has all of it.
const MAX_CHARACTERS = 2000;

const said = new Map();  // run → Map: message → how many of its blocks were said

const sectionsOf = message => [...message.querySelectorAll(":scope > .flow > .closed .blocks")];
// What is far from the reader has its blocks elsewhere, and was said long ago.
const blocksIn = section => Number(section.dataset.blocks ?? section.childElementCount);
const countOf = sections => sections.reduce((count, section) => count + blocksIn(section), 0);
function inWords(block) {
  if (block.matches(".codeblock")) return codeInWords(block);
  const copy = block.cloneNode(true);
  for (const code of copy.querySelectorAll(".codeblock")) code.replaceWith(` ${codeInWords(code)}. `);
  // A drawn formula contains its source several times over; it is said once.
  for (const formula of copy.querySelectorAll(".math")) {
    formula.replaceWith(formula.querySelector("annotation")?.textContent ?? formula.textContent);
  }
  for (const button of copy.querySelectorAll("button")) button.remove();
  for (const cell of copy.querySelectorAll("td, th")) cell.append(", ");
  for (const end of copy.querySelectorAll("li, p, tr, br, dt, dd")) end.append(" ");
  for (const end of copy.querySelectorAll("br")) end.replaceWith(" ");
  const text = copy.textContent.replace(/\s+/g, " ").trim();
  return text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)} …` : text;
}

function codeInWords(block) {
  const count = (block.querySelector("pre")?.textContent.trimEnd().match(/\n/g)?.length ?? 0) + 1;
  return interpolate(gettext("Code, %(lines)s"), { lines: ngettext("%(count)s line", "%(count)s lines", count) });
}

/* --- which are new: a section that was rendered again is not read again --- */
function look(message, isSilent) {
  // Alternatives grow at the same time, and nobody can follow several.
  if (message.closest(".alternative")) return;
  const known = said.get(message.closest(".answer").dataset.run);
  const sections = sectionsOf(message);
  const [before, now] = [known.get(message.id) ?? 0, countOf(sections)];
  known.set(message.id, Math.max(before, now));
  if (isSilent || now <= before) return;
  for (const text of blocksFrom(sections, before).map(inWords)) if (text) announce(text, { kind: "text" });
}

function blocksFrom(sections, first) {
  return sections.flatMap(section => {
    const skipped = Math.min(first, blocksIn(section));
    first -= skipped;
    return skipped === blocksIn(section) ? [] : [...section.children].slice(skipped);
  });
}

// What had been written when this page was opened is there to be read.
function begin(isSilent) {
  const shown = new Set();
  for (const answer of turns.querySelectorAll(".answer[data-live]")) {
    shown.add(answer.dataset.run);
    if (said.has(answer.dataset.run)) continue;
    said.set(answer.dataset.run, new Map());
    for (const message of answer.querySelectorAll(MESSAGES)) look(message, isSilent);
  }
  for (const run of said.keys()) if (!shown.has(run)) said.delete(run);
}

function lookAtAll(messages) {
  for (const message of messages) {
    if (message.isConnected && said.has(message.closest(".answer")?.dataset.run)) look(message, false);
  }
}

if (document.getElementById("polite").dataset.announcements === "paragraphs") {
  const touched = onTouched(turns, MESSAGES, lookAtAll);
  listen(ROOM_SHOWN, () => { if (turns.isConnected) begin(false); });
  // What is completed with the answer is said before its end is.
  listen(ANSWER_ENDED, touched.takeNow, true);
  begin(true);
}
