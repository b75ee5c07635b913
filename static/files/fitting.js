/* Whether the chosen model takes what is attached: said before sending, with what can be done about it. */
import { listen, on, setText, showIf } from "../base/dom.js";
import { FILES_CHANGED } from "../base/events.js";
import { gettext, interpolate, tokens } from "../base/i18n.js";
import { chosenModel } from "../conversations/model_choice.js";
import { openFile } from "./attached_file.js";
import { chips, choose, say } from "./chips.js";

const tokensOf = chip => Number(chip.dataset.tokens ?? 0);
// The longest first: what is done about it helps most.
const documents = () => chips().filter(tokensOf).sort((one, other) => tokensOf(other) - tokensOf(one));
const paged = () => documents().find(chip => "paged" in chip.dataset);

function show() {
  const note = document.getElementById("attach-too-long");
  if (!note) return;
  const { images, audio, tools, context } = chosenModel()?.dataset ?? {};
  const has = kind => chips().some(chip => chip.dataset.kind === kind);
  showIf("attach-no-images", has("image") && images === "no");
  showIf("attach-no-audio", has("audio") && audio === "no");
  showIf("attach-no-tools", chips().some(chip => chip.dataset.use === "tools") && tools === "no");
  const attached = documents().reduce((sum, chip) => sum + tokensOf(chip), 0);
  note.hidden = !(context && attached > Number(context));
  if (note.hidden) return;
  setText(note.querySelector("[data-words]"), interpolate(
    gettext("The attached text has about %(tokens)s tokens, but this model can read only %(context)s."),
    { tokens: tokens(attached, Number(context)), context: tokens(Number(context)) },
  ));
  note.querySelector("[data-choose-pages]").hidden = !paged();
  note.querySelector("[data-let-read]").hidden = tools === "no";
}

on("click", "[data-choose-pages]", () => openFile(paged()));

on("click", "[data-let-read]", async button => {
  const [longest] = documents();
  button.disabled = true;
  try {
    const chip = await choose(longest, longest.dataset.pages, "tools");
    chip.querySelector("[data-open-file]").focus();
  } catch (error) {
    say(error.message);
  } finally {
    button.disabled = false;
  }
});

// Afterwards: a click closes the menus that it is not in. The list leaves out models that are known to read no more.
on("click", "[data-other-model]", () => setTimeout(() => {
  const place = document.querySelector("#choice [data-combobox]");
  const context = Number(chosenModel()?.dataset.context);
  const hasLarger = [...place.querySelectorAll("option")].some(option => Number(option.dataset.context) > context);
  if (hasLarger) place.dataset.above = String(context);
  place.querySelector("summary").click();
}));

on("change", "#id_choice", show);
listen(FILES_CHANGED, show);
