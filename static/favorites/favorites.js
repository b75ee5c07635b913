/* Favorite and recent models: the first groups of a model picker, a star beside each model, and the key that sets it. The
   select has both lists, and who marks a model tells the server. */
import { activate, groupOf } from "../base/combobox.js";
import { announce, csrfToken, element, listen, notify, on, request } from "../base/dom.js";
import { COMBOBOX_FILLED } from "../base/events.js";
import { gettext, interpolate } from "../base/i18n.js";

const KEY = "*";
// A shorter list needs no second way to its models.
const FEW = 6;
const SVG = "http://www.w3.org/2000/svg";
const isCoarse = matchMedia("(pointer: coarse)");
const selectOf = place => place.querySelector("select[data-favorites]");
const listIn = (select, name) => select.dataset[name].split("\n").filter(Boolean);
const favoritesOf = select => listIn(select, "favorites");
const listOf = place => place.querySelector("[role=listbox]");
const isModel = value => /^[0-9a-f]{32}:/.test(value);
const plainLines = list => [...list.querySelectorAll("[role=option]:not([data-first])")];

function star() {
  const icon = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  icon.setAttribute("class", "icon");
  use.setAttribute("href", document.querySelector("svg use").getAttribute("href").replace(/#.*/, "#star"));
  icon.append(use);
  // Keys have another way, and an option has no buttons.
  const mark = element("span", { className: "combobox-star", ariaHidden: "true" });
  mark.append(icon);
  return mark;
}

function showStar(line, isFavorite) {
  if (!line.querySelector(".combobox-star")) line.append(star());
  line.classList.toggle("is-favorite", isFavorite);
  line.querySelector(".combobox-star").title = isFavorite ? gettext("Remove from favorites") : gettext("Add to favorites");
}

/* The options with these values, once more, each with the name of its server. */
function groupOfCopies(list, select, name, values) {
  const heading = element("div", { className: "combobox-heading quiet", ariaHidden: "true" }, name);
  const group = element("div", { role: "group", ariaLabel: name }, heading);
  group.dataset.first = "";
  for (const value of values) {
    const line = plainLines(list).find(each => each.dataset.value === value);
    if (!line) continue;
    const copy = line.cloneNode(true);
    copy.id = `${line.id}-first`;
    copy.dataset.first = "";
    copy.classList.remove("is-active");
    const server = groupOf([...select.options].find(option => option.value === value));
    copy.querySelector(".combobox-hint")?.remove();
    copy.querySelector(".combobox-star").before(element("small", { className: "combobox-hint quiet truncate" }, server));
    // One option of a list is the chosen one: the first that is seen.
    line.ariaSelected = "false";
    group.append(copy);
  }
  return group.childElementCount > 1 ? [group] : [];
}

function decorate(place, isSearching) {
  const [select, list] = [selectOf(place), listOf(place)];
  if (!select) return;
  const favorites = favoritesOf(select);
  for (const group of list.querySelectorAll(":scope > [data-first]")) group.remove();
  for (const line of plainLines(list)) {
    line.ariaSelected = String(line.dataset.value === select.value);
    if (isModel(line.dataset.value)) showStar(line, favorites.includes(line.dataset.value));
  }
  if (!isSearching) {
    const isLong = plainLines(list).length > FEW;
    const recent = isLong ? listIn(select, "recent").filter(value => !favorites.includes(value)) : [];
    list.prepend(
      ...groupOfCopies(list, select, gettext("Favorites"), favorites),
      ...groupOfCopies(list, select, gettext("Recent"), recent),
    );
  }
  showTip(place);
}

function showTip(place) {
  if (isCoarse.matches || place.querySelector(".combobox-tip")) return;
  const id = `${listOf(place).id}-tip`;
  const tip = element("p", { id, className: "combobox-tip quiet" });
  tip.append(element("kbd", {}, KEY), ` ${gettext("adds a favorite, or removes it")}`);
  listOf(place).after(tip);
  place.querySelector("[role=combobox]").setAttribute("aria-describedby", id);
}

const isSearchingIn = place => place.querySelector("[role=combobox]").value.trim() !== "";

/* The highlight goes to the chosen model, or stays at the same one. */
function highlight(place, value) {
  const lines = [...listOf(place).querySelectorAll("[role=option]")];
  activate(place, lines.find(line => line.dataset.value === value) ?? lines[0]);
}

listen(COMBOBOX_FILLED, ({ place, isSearching }) => {
  if (!selectOf(place)) return;
  decorate(place, isSearching);
  if (!isSearching) highlight(place, selectOf(place).value);
});

async function tell(value, isAdded) {
  const [server, ...model] = value.split(":");
  const body = new URLSearchParams({ server, model: model.join(":") });
  const address = isAdded ? "/models/favorites/" : "/models/favorites/remove/";
  await request(address, { method: "POST", body, headers: { "X-CSRFToken": csrfToken(), "HX-Request": "true" } });
}

// All pickers of the page have the same favorites.
function keep(values) {
  for (const select of document.querySelectorAll("select[data-favorites]")) select.dataset.favorites = values.join("\n");
}

async function toggle(place, line) {
  const { value } = line.dataset;
  if (!isModel(value)) return;
  const before = favoritesOf(selectOf(place));
  const isAdded = !before.includes(value);
  const name = line.firstChild.textContent;
  const isAbove = "first" in line.dataset;
  keep(isAdded ? [...before, value] : before.filter(each => each !== value));
  decorate(place, isSearchingIn(place));
  const here = plainLines(listOf(place)).find(each => each.dataset.value === value);
  if (isAbove) highlight(place, value);
  else activate(place, here);
  const words = isAdded ? gettext("%(name)s was added to your favorites") : gettext("%(name)s was removed from your favorites");
  announce(interpolate(words, { name }));
  try {
    await tell(value, isAdded);
  } catch (error) {
    keep(before);
    decorate(place, isSearchingIn(place));
    notify((await error.response?.text()) || gettext("Your favorites couldn’t be changed."));
  }
}

// Before the click chooses the model.
document.addEventListener("click", event => {
  const mark = event.target.closest?.(".combobox-star");
  if (!mark) return;
  event.preventDefault();
  event.stopPropagation();
  toggle(mark.closest("[data-combobox]"), mark.closest("[role=option]"));
}, true);

on("keydown", "[data-combobox]:has(select[data-favorites]) [role=combobox]", (field, event) => {
  if (event.key !== KEY) return;
  event.preventDefault();
  const place = field.closest("[data-combobox]");
  const active = listOf(place).querySelector(".is-active");
  if (active && !event.repeat) toggle(place, active);
});

// The list that was opened while this module was loaded.
for (const open of document.querySelectorAll("[data-combobox]:has(select[data-favorites]) details[open]")) {
  const place = open.closest("[data-combobox]");
  decorate(place, isSearchingIn(place));
  if (!isSearchingIn(place)) highlight(place, selectOf(place).value);
}
