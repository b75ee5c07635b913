/* Comboboxes (templates/components/combobox.html): a field that searches, and a list box with the options of
   a select by its groups. The select stays what the form sends, and what other scripts listen to. */
import { element, emit, isComposing, on } from "./dom.js";
import { COMBOBOX_FILLED } from "./events.js";

const isCoarse = matchMedia("(pointer: coarse)");
const selectOf = place => place.querySelector("select");
const fieldOf = place => place.querySelector("[role=combobox]");
const optionsOf = place => [...place.querySelectorAll("[role=option]")];
export const groupOf = option => option.closest("optgroup")?.label ?? "";

/* What is chosen, on the button. */
export function showChosen(select) {
  const option = select?.selectedOptions[0];
  const place = select?.closest("[data-combobox]");
  if (!option || !place) return;
  place.querySelector(".combobox-value").textContent = option.label;
  place.querySelector(".combobox-group").textContent = groupOf(option);
}

/* The option that Enter chooses, or none. */
export function activate(place, option) {
  for (const each of place.querySelectorAll(".is-active")) each.classList.remove("is-active");
  option?.classList.add("is-active");
  option?.scrollIntoView({ block: "nearest" });
  if (option) fieldOf(place).setAttribute("aria-activedescendant", option.id);
  else fieldOf(place).removeAttribute("aria-activedescendant");
}

function lineOf(option, id) {
  const line = element("div", { id, className: "menu-item", role: "option", ariaSelected: String(option.selected) }, option.label);
  if (option.dataset.hint) line.append(element("small", { className: "combobox-hint quiet" }, option.dataset.hint));
  line.dataset.value = option.value;
  return line;
}

/* The options whose name and group have all words that were typed. Until then, those that read at most `data-above`
   tokens are left out. */
function fill(place) {
  const words = fieldOf(place).value.toLowerCase().split(/\s+/);
  const list = place.querySelector("[role=listbox]");
  const groups = new Map();
  [...selectOf(place).options].forEach((option, at) => {
    const text = `${option.label} ${groupOf(option)}`.toLowerCase();
    if (!words.every(word => text.includes(word))) return;
    if (!words.join("") && Number(option.dataset.context) <= Number(place.dataset.above)) return;
    const name = groupOf(option);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(lineOf(option, `${list.id}-${at}`));
  });
  list.replaceChildren(...[...groups].map(([name, lines]) => element(
    "div", { role: "group", ariaLabel: name },
    element("div", { className: "combobox-heading quiet", ariaHidden: "true" }, name), ...lines,
  )));
  place.querySelector(".combobox-empty").hidden = groups.size > 0;
  activate(place, list.querySelector("[aria-selected=true]") ?? optionsOf(place)[0]);
  emit(COMBOBOX_FILLED, { place, isSearching: fieldOf(place).value.trim() !== "" });
}

function close(place) {
  place.querySelector("details").open = false;
  place.querySelector("summary").focus();
}

function choose(place, option) {
  const select = selectOf(place);
  close(place);
  if (select.value === option.dataset.value) return;
  select.value = option.dataset.value;
  select.dispatchEvent(new Event("change", { bubbles: true }));
}

// The event of a fold does not bubble.
on("toggle", "[data-combobox] details", fold => {
  const place = fold.closest("[data-combobox]");
  place.querySelector("summary").ariaExpanded = String(fold.open);
  if (!fold.open) return delete place.dataset.above;
  fieldOf(place).value = "";
  fill(place);
  if (!isCoarse.matches) fieldOf(place).focus();
}, true);

on("input", "[data-combobox] [role=combobox]", field => fill(field.closest("[data-combobox]")));
on("click", "[data-combobox] [role=option]", option => choose(option.closest("[data-combobox]"), option));
on("change", "[data-combobox] select", showChosen);

on("keydown", "[data-combobox] [role=combobox]", (field, event) => {
  if (isComposing(event)) return;
  const place = field.closest("[data-combobox]");
  const options = optionsOf(place);
  const at = options.findIndex(option => option.matches(".is-active"));
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) activate(place, options.at((at + step) % options.length));
  else if (event.key === "Enter" && options[at]) choose(place, options[at]);
  else if (event.key === "Tab") return close(place);
  else if (event.key !== "Enter") return;
  event.preventDefault();
});

// A page that comes back keeps what was chosen.
addEventListener("pageshow", () => document.querySelectorAll("[data-combobox] select").forEach(showChosen));
