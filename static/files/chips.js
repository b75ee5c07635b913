/* The files of the message that is being written: its chips, and what their buttons ask the server for. */
import { announce, csrfToken, emit, element, on, request } from "../base/dom.js";
import { FILES_CHANGED } from "../base/events.js";
import { gettext, interpolate } from "../base/i18n.js";
import { unreachable } from "../base/network.js";

const LOOK_MS = 1000;
const HEADERS = { "X-Requested-With": "XMLHttpRequest" };
const NOT_FOUND = 404;

export const composer = () => document.getElementById("composer");
export const list = () => document.getElementById("attaching");
export const chips = () => [...(list()?.children ?? [])];
export const say = text => { document.getElementById("attach-note").textContent = text; };

/* The text of a page of ours for scripts. */
export const read = async address => (await request(address, { headers: HEADERS })).text();

/* Throws an error whose message is for people. */
async function post(address, fields) {
  const headers = { ...HEADERS, "X-CSRFToken": csrfToken() };
  try {
    return await (await request(address, { method: "POST", body: new URLSearchParams(fields), headers })).text();
  } catch ({ response }) {
    const isText = response?.headers.get("Content-Type")?.startsWith("text/plain");
    throw Object.assign(new Error(isText ? await response.text() : unreachable()), { response });
  }
}

/* Puts a chip of the server where `old` is, or at the end; one that is there already is replaced. */
export function put(html, old = null) {
  const chip = element("template", { innerHTML: html }).content.querySelector(".attachment");
  const place = document.getElementById(chip.id) ?? old;
  const hadFocus = place?.contains(document.activeElement);
  if (place) place.replaceWith(chip);
  else list().append(chip);
  if (old) {
    old.dataset.becomes = chip.id;
    old.remove();
  }
  if (hadFocus) chip.querySelector("[data-remove-file]").focus();
  changed();
  return chip;
}

/* The chip that is shown now of one that may have been replaced, also several times; nothing if it was removed. */
export const shownOf = chip => (chip.isConnected ? chip : document.getElementById(chip.dataset.becomes ?? ""));

export function changed() {
  emit(FILES_CHANGED);
  watch();
}

/* Removes a chip; the focus goes to the next one, or back to the field. */
export function drop(chip) {
  const buttons = () => chips().map(each => each.lastElementChild);
  const at = chips().indexOf(chip);
  // A button that is disabled has lost it.
  const isFocusLost = chip.contains(document.activeElement) || document.activeElement === document.body;
  chip.remove();
  say("");
  announce(interpolate(gettext("%(name)s removed."), { name: chip.dataset.name }));
  if (isFocusLost) (buttons()[Math.min(at, buttons().length - 1)] ?? document.getElementById("attach-input")).focus();
  changed();
}

/* --- documents that are being read --- */
let timer = null;

function watch() {
  if (chips().some(chip => "reading" in chip.dataset)) timer ??= setTimeout(look, LOOK_MS);
}

async function look() {
  for (const chip of chips().filter(each => "reading" in each.dataset)) {
    try {
      const html = await read(`${chip.dataset.file}chip/`);
      if (!html || !chip.isConnected) continue;
      const facts = put(html, chip).querySelector(".attachment-facts").textContent;
      announce(`${chip.dataset.name}: ${facts}`);
    } catch ({ response }) {
      // Sent or removed elsewhere. Otherwise the next look may find it.
      if (response?.status === NOT_FOUND) chip.remove();
    }
  }
  timer = null;
  changed();
}

/* --- buttons --- */
async function ask(button, work) {
  button.disabled = true;
  try { await work(); } catch (error) { say(error.message); } finally { button.disabled = false; }
}

on("click", "[data-remove-file]", (button, event) => {
  event.preventDefault();
  const chip = button.closest(".attachment");
  ask(button, async () => {
    try { await post(`${chip.dataset.file}remove/`, {}); } catch (error) {
      // It is gone already.
      if (error.response?.status !== NOT_FOUND) throw error;
    }
    drop(chip);
  });
});

on("click", "[data-read-again]", (button, event) => {
  event.preventDefault();
  const chip = button.closest(".attachment");
  ask(button, async () => put(await post(`${chip.dataset.file}read/`, {}), chip));
});

on("click", "[data-share-file]", (button, event) => {
  event.preventDefault();
  ask(button, async () => {
    say("");
    const chip = put(await post(list().dataset.address, { shared: button.value }));
    announce(interpolate(gettext("%(name)s attached."), { name: chip.dataset.name }));
  });
});

/* What of the document is sent, and how. */
export const choose = async (chip, pages, use) => put(await post(chip.dataset.file, { pages, use }), chip);
