/* What depends on the chosen model: its parameters and the mark on their button, starters, and notes.
   Servers that start no new answers at present are marked in the picker. */
import { showChosen } from "../base/combobox.js";
import { listen, on, onSwapped, showIf } from "../base/dom.js";
import { SERVERS_DRAINING } from "../base/events.js";

export const chosenModel = () => document.getElementById("id_choice")?.selectedOptions[0];
const serverOf = option => option?.value.split(":")[0];
// More than the first message and its answer.
const hasFollowed = () => document.querySelector("#turns > .turn:nth-child(3)") !== null;
// The strip has a phase while an answer is written, and while it waits for a person.
const isAnswering = () => document.querySelector("#strip .phase") !== null;
const hasFailed = () => document.querySelector("#turns .retry") !== null;
const drainingNote = () => document.getElementById("choice-note");

function showMark() {
  const fields = [...document.querySelectorAll("#parameters [name]:not([name^=preset_])")];
  showIf("parameters-mark", fields.some(field => field.value !== ""));
}

function show() {
  const { dialect, demo, unavailable } = chosenModel()?.dataset ?? {};
  const ofPreset = document.querySelector("[data-starters=preset] > li") && "preset";
  const starters = ofPreset ?? (demo === undefined ? "any" : "demo");
  for (const note of document.querySelectorAll("[data-only-dialect]")) {
    note.hidden = note.dataset.onlyDialect !== dialect;
  }
  for (const list of document.querySelectorAll("[data-starters]")) list.hidden = list.dataset.starters !== starters;
  // Suggestions after the first answer are shown when it is there.
  for (const place of document.querySelectorAll("[data-first-answer]")) {
    const isMissing = isAnswering() || (place.dataset.firstAnswer === "good" && hasFailed());
    place.hidden = hasFollowed() || isMissing;
  }
  showIf("unavailable-note", unavailable !== undefined);
  showIf("choice-note", drainingNote()?.dataset.draining.split(" ").includes(serverOf(chosenModel())));
  showMark();
}

function fetchParameters() {
  const { dialect } = chosenModel()?.dataset ?? {};
  const place = document.getElementById("parameter-fields");
  // A preset has its own. In a project's settings no model needs to be chosen.
  if (["", "preset"].includes(serverOf(chosenModel()))) place?.replaceChildren();
  if (!dialect || !place || place.querySelector("[data-dialect]")?.dataset.dialect === dialect) return;
  const address = `${place.dataset.address}&server=${serverOf(chosenModel())}`;
  htmx.ajax("GET", address, { source: place, target: place, swap: "innerHTML" });
}

function showAndFetch() {
  show();
  fetchParameters();
}

listen(SERVERS_DRAINING, ({ draining }) => {
  const note = drainingNote();
  if (!note) return;
  note.dataset.draining = draining.join(" ");
  const select = document.getElementById("id_choice");
  const { drainingMark: mark } = select.dataset;
  for (const group of select.querySelectorAll("optgroup")) {
    const name = group.label.replace(mark, "");
    group.label = draining.includes(serverOf(group.firstElementChild)) ? name + mark : name;
  }
  showChosen(select);
  show();
});

for (const type of ["input", "change"]) on(type, "#parameters", showMark);
// Before the list opens: what it shows first isn't to come later.
for (const type of ["pointerdown", "focusin", "toggle"]) {
  on(type, "[data-combobox]:has(select[data-favorites]) details", () => import("../favorites/favorites.js"), true);
}
on("change", "#id_choice", showAndFetch);
onSwapped(show);
addEventListener("pageshow", showAndFetch);
