/* Files that were attached to this message, chosen from or removed in another tab. Loaded when there are some. */
import { element } from "../base/dom.js";
import { changed, chips, list, put, read } from "./chips.js";

const shown = () => chips().filter(chip => chip.querySelector("[name=files]"));
/* The form in which the server names a file with its choice. */
const stateOf = chip => `${chip.id.replace("file-", "")}:${chip.dataset.use}:${chip.dataset.pages}`;

export async function meetFiles(states) {
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
