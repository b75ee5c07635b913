/* The dialog that lists what keys do, and the switch for single-key shortcuts in it. */
import { element, ofBrowser, on } from "./dom.js";
import { gettext } from "./i18n.js";

const STORED = "single-keys";
const isApple = /Mac|iPhone|iPad/.test(navigator.platform);

let isOnHere = true;  // where nothing can be stored

/* Returns whether keys without Ctrl or Cmd act. */
export function areSingleKeysOn() {
  const stored = ofBrowser.get(STORED);
  return stored === null ? isOnHere : stored !== "off";
}

on("change", `[name=${STORED}]`, ({ checked }) => {
  isOnHere = checked;
  ofBrowser.set(STORED, checked ? "on" : "off");
});

function line(row) {
  const keys = row.on.map(key => element("kbd", {}, key === "Mod" ? (isApple ? "⌘" : gettext("Ctrl")) : key));
  const isSequence = row.on.every(key => key.length === 1) || row.on[0] === row.on[1];
  const then = () => element("span", { className: "quiet" }, gettext("then"));
  const parts = keys.flatMap((key, at) => (at && isSequence ? [then(), key] : [key]));
  return element("div", { className: "key" }, element("dt", {}, row.says), element("dd", {}, ...parts));
}

function group([name, rows]) {
  return element("section", { className: "key-group" }, element("h3", {}, name), element("dl", {}, ...rows.map(line)));
}

/* `groups`: names, each with its rows {on, says}. */
export function openHelp(groups) {
  const dialog = document.getElementById("keys");
  const place = dialog?.querySelector(".key-groups");
  if (!place) return;
  if (!place.hasChildNodes()) place.append(...Object.entries(groups).map(group));
  dialog.querySelector(`[name=${STORED}]`).checked = areSingleKeysOn();
  dialog.showModal();
}

// Beside the dialog, on its backdrop.
document.addEventListener("click", event => { if (event.target.id === "keys") event.target.close(); });
