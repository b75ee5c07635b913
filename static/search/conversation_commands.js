/* The commands of the palette for the open conversation: what its header, its menu and its composer offer. */
import { element, on } from "../base/dom.js";
import { gettext } from "../base/i18n.js";

const first = selector => document.querySelector(selector);

function rename() {
  first(".room-menu").open = true;
  first("#title").select();
}

function chooseModel() {
  first("#choice [data-combobox] details").open = true;
}

// What has no entry in the menu. `for` is an element without which there is no such command.
const OTHERS = [
  { says: gettext("Rename"), icon: "pencil", for: ".room-menu #title", does: rename },
  { says: gettext("Change model"), icon: "cpu", for: "#choice [data-combobox]", does: chooseModel },
];
const acts = new WeakMap();

// All icons are symbols of one file.
function iconNamed(name) {
  const icon = first("#palette .menu-item .icon").cloneNode(true);
  const use = icon.querySelector("use");
  use.setAttribute("href", use.getAttribute("href").replace(/#.*/, `#${name}`));
  return icon;
}

function line(says, icon, does) {
  const option = element(
    "button", { type: "button", className: "menu-item", role: "option", ariaSelected: "false", tabIndex: -1 },
    icon, element("span", {}, says),
  );
  option.dataset.command = "";
  acts.set(option, does);
  return option;
}

function ofMenu(item) {
  const group = document.getElementById(item.closest("[role=group]")?.getAttribute("aria-labelledby"))?.textContent;
  const name = item.textContent.trim();
  return line(group ? `${group}: ${name}` : name, item.querySelector(".icon").cloneNode(true), () => item.click());
}

/* The lines of the open conversation; none on a page without one. */
export function commandsOfConversation() {
  const others = OTHERS.filter(each => first(each.for)).map(each => line(each.says, iconNamed(each.icon), each.does));
  return [...others, ...[...document.querySelectorAll(".room-menu .menu-item")].map(ofMenu)];
}

on("click", "#palette [data-command]", option => acts.get(option)());
