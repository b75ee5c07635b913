/* Files that were attached to this message, chosen from or removed in another tab. Loaded when there are some. */
import { element, listen } from "../base/dom.js";
import { FILES_CHANGED } from "../base/events.js";
import { changed, chips, list, put, read } from "./chips.js";

const shown = () => chips().filter(chip => chip.querySelector("[name=files]"));
const isUploading = () => chips().some(chip => "uploading" in chip.dataset);
/* The form in which the server names a file with its choice. */
const stateOf = chip => `${chip.id.replace("file-", "")}:${chip.dataset.use}:${chip.dataset.pages}`;

let told = [];
let isMeeting = false;
let isDue = false;
// True if the server told of the files while one of them was uploaded here: it may be removed before its upload has
// ended for this tab.
let isInDoubt = false;

export function meetFiles(states) {
  told = states;
  isInDoubt = isUploading();
  return meetTold();
}

/* Notices are met one after the other: a list that was read before a file was removed would bring its chip back. */
async function meetTold() {
  isDue = true;
  if (isMeeting) return;
  isMeeting = true;
  try {
    while (isDue) {
      isDue = false;
      await meet(told);
    }
  } finally {
    isMeeting = false;
  }
}

async function meet(states) {
  const known = shown().map(stateOf);
  if (known.length === states.length && known.every(state => states.includes(state))) return;
  let html;
  // Without an answer, the next change tells of it again.
  try { html = await read(list().dataset.address); } catch { return; }
  const current = [...element("template", { innerHTML: html }).content.querySelectorAll(".attachment")];
  const before = new Map(shown().map(chip => [chip.id, stateOf(chip)]));
  for (const chip of current) if (before.get(chip.id) !== stateOf(chip)) put(chip.outerHTML);
  for (const chip of shown()) if (!current.some(({ id }) => id === chip.id)) chip.remove();
  changed();
}

listen(FILES_CHANGED, () => {
  if (!isInDoubt || isUploading()) return;
  isInDoubt = false;
  meetTold();
});
