/* The gauge beside the composer: how much of the model's context the conversation and the draft fill. Servers count the
   conversation; the draft is estimated. */
import { listen, on, onSwapped } from "../base/dom.js";
import { FILES_CHANGED, PANEL_SHOWN } from "../base/events.js";
import { gettext, interpolate, tokens } from "../base/i18n.js";
import { chosenModel } from "../conversations/model_choice.js";
import { chips } from "../files/chips.js";

// As chat/documents/texts.py counts.
const CHARACTERS_PER_TOKEN = 4;
const PAUSE_MS = 250;
let timer;

const drafted = () => chips().reduce(
  (sum, { dataset }) => sum + Number(dataset.tokens ?? 0),
  Math.ceil(document.getElementById("text").value.length / CHARACTERS_PER_TOKEN),
);

async function show() {
  const link = document.getElementById("gauge");
  if (!link) return;
  const figures = document.getElementById("gauge-figures");
  const { value = "", dataset: { context: limit } = {} } = chosenModel() ?? {};
  const context = Number(limit ?? 0);
  link.search = `?choice=${encodeURIComponent(value)}`;
  if (!figures.value && "begun" in figures.dataset) {
    const { estimate } = await import("./choices.js");
    if (!await estimate(figures, link.pathname)) return;
  }
  const used = Number(figures.value) + drafted();
  const part = context && used / context;
  const words = interpolate(
    part ? gettext("%(used)s of %(limit)s") : gettext("%(used)s tokens"),
    { used: tokens(used, context || 1000), limit: tokens(context) },
  );
  link.lastElementChild.textContent = words;
  link.title = link.ariaLabel = interpolate(gettext("Context: %(words)s"), { words });
  link.style.setProperty("--used", String(Math.min(100, 100 * part)));
  const level = part > 1 ? "over" : part > 0.9 ? "near" : "";
  if (level || link.dataset.level) {
    const { showNote } = await import("./choices.js");
    showNote(link.pathname, value, level);
  }
  link.dataset.level = level;
}

on("input", "#text", () => {
  clearTimeout(timer);
  timer = setTimeout(show, PAUSE_MS);
});
on("change", "#id_choice", show);
listen(FILES_CHANGED, show);
listen(PANEL_SHOWN, ({ address }) => { if (address.includes("/context/")) import("./choices.js"); });
onSwapped(show);
addEventListener("pageshow", show);
