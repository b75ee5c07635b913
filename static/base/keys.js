/* Keyboard shortcuts: one table of what keys do, from which the help is made as well. Keys without Ctrl
   or Cmd act only in lists, or on a page where nothing can be written, and can be switched off; none of
   them destroys anything. Everywhere else outside a field they are text for the composer. */
import { emit, isComposing, on } from "./dom.js";
import { SEARCH_OPEN, SIDEBAR_TOGGLE } from "./events.js";
import { gettext } from "./i18n.js";
import { areSingleKeysOn, openHelp } from "./key_help.js";
import { act, ask, branch, edit, focusNewestAnswer, focusNewestTurn, move, retry, toggleReasoning } from "./turn_keys.js";

const SEQUENCE_MS = 1500;
const TWICE_MS = 1000;
const TYPING = "input, textarea, select, [contenteditable]";
const LISTS = "#turns, #conversations";
// What Escape closes before it means anything else.
const LAYERS = "dialog[open], details.menu[open], :popover-open:not(.toasts), #panel:not([hidden])";
const first = selector => document.querySelector(selector);
const write = () => first("#text")?.focus();
const stop = () => first("#stop-form")?.requestSubmit();
const editing = () => document.activeElement?.closest?.("form.edit");
const help = () => openHelp(GROUPS);

// `on` are the keys, with Mod for Ctrl or Cmd; where `when` says no, the key is the browser's.
const GROUPS = {
  [gettext("Everywhere")]: [
    { on: ["Mod", "K"], says: gettext("Search and commands"), when: () => first("#palette"), does: () => emit(SEARCH_OPEN) },
    { on: ["Mod", "Shift", "O"], says: gettext("New conversation"), does: () => location.assign(first(".sidebar-new")?.href ?? "/") },
    { on: ["Mod", "Shift", "S"], says: gettext("Show or hide the sidebar"), does: () => emit(SIDEBAR_TOGGLE) },
    { on: ["g", "i"], says: gettext("Inbox"), does: () => first("[data-inbox]")?.click() },
    { on: ["?"], says: gettext("Keyboard shortcuts"), does: help },
    { on: ["Mod", "/"], says: gettext("Keyboard shortcuts (from anywhere)"), does: help },
    { on: ["Esc"], says: gettext("Close") },
  ],
  [gettext("Writing")]: [
    { on: ["/"], says: gettext("Go to composer"), does: write },
    { on: ["Shift", "Esc"], says: gettext("Go to composer (from anywhere)"), does: write },
    { on: ["Enter"], says: gettext("Send") },
    { on: ["Shift", "Enter"], says: gettext("New line") },
    { on: ["Mod", "Enter"], says: gettext("Send (also on touch screens)") },
    { on: ["*"], says: gettext("Add or remove a favorite (in the list of models)") },
    { on: ["Mod", "S"], says: gettext("Save an edit"), when: editing, does: () => editing().requestSubmit() },
    { on: ["Mod", "."], says: gettext("Stop the answer"), does: stop },
    { on: ["Esc", "Esc"], says: gettext("Stop the answer (in the composer)") },
  ],
  [gettext("Reading")]: [
    { on: ["↑"], says: gettext("Latest message (from an empty composer)") },
    { on: ["j"], says: gettext("Next message"), repeats: true, does: () => move(1) },
    { on: ["k"], says: gettext("Previous message"), repeats: true, does: () => move(-1) },
    { on: ["g", "n"], says: gettext("Latest answer"), does: focusNewestAnswer },
    { on: ["t"], says: gettext("Show or hide thinking"), does: toggleReasoning },
    { on: ["["], says: gettext("Previous version"), does: () => branch("first-child", gettext("No previous version")) },
    { on: ["]"], says: gettext("Next version"), does: () => branch("last-child", gettext("No next version")) },
    {
      on: ["e"],
      says: gettext("Edit the selected message, or your last one"),
      does: () => edit(gettext("Select a message with j or k first")),
    },
    { on: ["r"], says: gettext("Try the selected answer again"), does: () => retry(gettext("Select an answer with j or k first")) },
    { on: ["f"], says: gettext("Find in conversation"), does: () => first("#to-find")?.click() },
    { on: ["a"], says: gettext("Files"), does: () => first("#to-files")?.click() },
    { on: ["i"], says: gettext("Run details"), does: () => act("[data-details]", gettext("No details here")) },
    {
      on: ["q"],
      says: gettext("Ask about the selected text or message"),
      does: () => ask(gettext("You can’t write here")),
    },
    {
      on: ["c"],
      says: gettext("Comment on the selected message"),
      does: () => act("[data-comment]", gettext("Nothing to comment on")),
    },
    { on: ["s"], says: gettext("Visibility"), does: () => first("#to-people")?.click() },
  ],
};

const rows = Object.values(GROUPS).flat().filter(row => row.does);
const hasMod = row => row.on.includes("Mod");
const singles = rows.filter(row => !hasMod(row) && !row.on.includes("Shift"));
let begun = null;  // the first key of two, and when
let escapedAt = -TWICE_MS;

function combined(event) {
  const key = event.key.length === 1 ? event.key.toUpperCase() : event.key;
  return rows.find(row => hasMod(row) && row.on.at(-1).toUpperCase() === key && row.on.includes("Shift") === event.shiftKey);
}

function single({ key }) {
  const before = begun && performance.now() - begun.at < SEQUENCE_MS ? begun.key : null;
  begun = null;
  const found = singles.find(({ on }) => on.length === 2 && on[0] === before && on[1] === key)
    ?? singles.find(({ on }) => on.length === 1 && on[0] === key);
  if (!found && singles.some(({ on }) => on.length === 2 && on[0] === key)) begun = { key, at: performance.now() };
  return found;
}

function onEscape(event) {
  if (event.shiftKey) {
    event.preventDefault();
    return write();
  }
  const isTwice = performance.now() - escapedAt < TWICE_MS;
  const isInComposer = event.target.id === "text" && !first(LAYERS);
  escapedAt = isInComposer && !isTwice ? performance.now() : -TWICE_MS;
  if (isTwice && isInComposer) stop();
}

function onArrowUp(event) {
  if (event.target.id !== "text" || event.target.value || !focusNewestTurn()) return;
  event.preventDefault();
}

/* A person who types a letter means to write: the browser puts the letter where the focus is by then. */
function isForComposer({ target, key }) {
  return key.length === 1 && !" /".includes(key) && first("#text") !== null && !target.closest?.(LISTS);
}

document.addEventListener("keydown", event => {
  if (event.defaultPrevented || isComposing(event)) return;
  if (event.key === "Escape") return onEscape(event);
  escapedAt = -TWICE_MS;
  const isCommand = event.ctrlKey || event.metaKey;
  if (event.key === "ArrowUp" && !isCommand && !event.shiftKey) onArrowUp(event);
  // Before anything that looks through the page: with each letter that would be as slow as the page is long.
  if (event.altKey || (!isCommand && event.target.closest?.(TYPING))) return;
  if (first("dialog[open]") || (!isCommand && first("[popover]:popover-open:not(.toasts)"))) return;
  if (!isCommand && isForComposer(event)) return write();
  if (!isCommand && !areSingleKeysOn()) return;
  const row = isCommand ? combined(event) : single(event);
  if (!row || (row.when && !row.when())) return;
  event.preventDefault();
  if (!event.repeat || row.repeats) row.does();
});

on("click", "[data-keys]", help);
