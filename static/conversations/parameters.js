/* The parameters of the chosen server's API type, what else depends on the chosen model, and the mark on
   the button that opens the parameters. */
import { listen, on } from "../base/dom.js";
import { AFTER_SWAP } from "../base/events.js";

const chosen = () => document.getElementById("id_choice")?.selectedOptions[0];
const fields = () => document.getElementById("parameter-fields");

function showMark() {
  const mark = document.getElementById("parameters-mark");
  if (!mark) return;
  const all = document.querySelectorAll("#parameters :is(input, select, textarea)");
  mark.hidden = ![...all].some(field => field.value !== "");
}

function showFitting() {
  const { dialect, demo, unavailable } = chosen()?.dataset ?? {};
  for (const note of document.querySelectorAll("[data-only-dialect]")) note.hidden = note.dataset.onlyDialect !== dialect;
  for (const list of document.querySelectorAll("[data-starters]")) list.hidden = (list.dataset.starters === "demo") !== (demo !== undefined);
  const note = document.getElementById("unavailable-note");
  if (note) note.hidden = unavailable === undefined;
}

function fetchFields() {
  const option = chosen();
  const place = fields();
  if (!option?.dataset.dialect || !place) return;
  if (place.querySelector("[data-dialect]")?.dataset.dialect === option.dataset.dialect) return;
  const address = `${place.dataset.address}&server=${option.value.split(":")[0]}`;
  htmx.ajax("GET", address, { source: place, target: place, swap: "innerHTML" });
}

on("change", "#id_choice", () => {
  showFitting();
  fetchFields();
});

for (const type of ["input", "change"]) on(type, "#parameters", showMark);

listen(AFTER_SWAP, (_, { target }) => {
  if (target.id === "live") return;
  showFitting();
  showMark();
});

addEventListener("pageshow", () => {
  showFitting();
  fetchFields();
  showMark();
});
