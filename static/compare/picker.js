/* "Compare models": a row above the composer's buttons with the models that answer beside the chosen one. */
import { announce, element, listen, on } from "../base/dom.js";
import { AFTER_REQUEST, ROOM_ACCEPTED } from "../base/events.js";
import { gettext, interpolate } from "../base/i18n.js";
import { copyOfPicker } from "../conversations/retry_with.js";

// As the form accepts (chat/models/comparison.py), with the model of the composer.
const MOST_COMPARED = 4;
const row = () => document.getElementById("compare-row");
const button = () => document.getElementById("compare-open");
const chosen = () => [...row().querySelectorAll("input[name=compare]")];
const mainChoice = () => document.getElementById("id_choice");

function toggle() {
  if (row()) close();
  else open();
}

function open() {
  const made = document.getElementById("compare-template").content.cloneNode(true);
  document.querySelector("#composer .composer-row").before(made);
  button().ariaExpanded = "true";
  offer();
  openPicker();
}

function close() {
  row().remove();
  document.querySelectorAll("#composer > link").forEach(link => link.remove());
  button().ariaExpanded = "false";
  button().focus();
}

/* A picker with the models that were not chosen yet. */
function offer() {
  const place = row().querySelector(".compare-add");
  const picker = copyOfPicker("compare");
  const select = picker.querySelector("select");
  const taken = [mainChoice().value, ...chosen().map(input => input.value)];
  for (const option of [...select.options]) {
    if (taken.includes(option.value) || option.value.startsWith("preset:") || option.value === "") option.remove();
  }
  for (const group of select.querySelectorAll("optgroup")) if (!group.childElementCount) group.remove();
  select.selectedIndex = -1;
  picker.querySelector(".combobox-value").textContent = place.dataset.label;
  picker.querySelector(".combobox-group").textContent = "";
  picker.querySelector("details").open = false;
  const isFull = taken.length >= MOST_COMPARED || select.options.length === 0;
  place.replaceChildren(...isFull ? [] : [picker]);
}

const openPicker = () => { const fold = row().querySelector("details"); if (fold) fold.open = true; };
const focusPicker = () => (row().querySelector("summary") ?? row().querySelector("[data-compare-close]")).focus();

function add(option) {
  const remove = element("button", {
    type: "button", className: "compare-remove", ariaLabel: interpolate(gettext("Remove %(model)s"), { model: option.label }),
  }, "×");
  const server = option.closest("optgroup")?.label ?? "";
  row().querySelector("ul").append(element(
    "li", { className: "compare-chip", title: [option.label, server].filter(Boolean).join(" · ") },
    element("input", { type: "hidden", name: "compare", value: option.value }),
    element("span", { className: "truncate" }, option.label), remove,
  ));
  announce(interpolate(gettext("%(model)s added"), { model: option.label }));
}

on("change", ".compare-add select", select => {
  const [option] = select.selectedOptions;
  if (!option) return;
  add(option);
  offer();
  focusPicker();
});

on("click", ".compare-remove", cross => {
  const chip = cross.closest("li");
  const next = (chip.nextElementSibling ?? chip.previousElementSibling)?.querySelector("button");
  chip.remove();
  offer();
  if (next) next.focus();
  else focusPicker();
});

on("click", "[data-compare-close]", close);

// No model answers twice.
on("change", "#id_choice", ({ value }) => {
  if (!row()) return;
  chosen().find(input => input.value === value)?.closest("li").remove();
  offer();
});

listen(AFTER_REQUEST, ({ ctx }, { target }) => {
  if (target.id === "composer" && ctx.hx.trigger === ROOM_ACCEPTED && row()) {
    row().remove();
    button().ariaExpanded = "false";
  }
});

on("click", "[data-compare]", toggle);
// Loaded by the first click.
toggle();
