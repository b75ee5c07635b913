/* The palette (templates/search/_palette.html): conversations, messages, people and commands by Ctrl K.
   htmx fetches what was found; commands and recent searches are here. Escape gives the focus back. */
import { activate } from "../base/combobox.js";
import { element, emit, hasModifier, isComposing, listen, on } from "../base/dom.js";
import { AFTER_SWAP, BEFORE_SWAP, LIST_LOST, ROOM_GONE, SEARCH_OPEN, SEARCH_SHOWN, THEME_CHANGE } from "../base/events.js";
import { commandsOfConversation } from "./conversation_commands.js";
import { recentSearches, remember } from "./recent.js";

const dialog = document.getElementById("palette");
const place = id => document.getElementById(`palette-${id}`);
const field = dialog?.querySelector("[role=combobox]");
const typed = () => field.value.trim();
const options = () => [...dialog.querySelectorAll("[role=option]")].filter(option => option.checkVisibility());
const active = () => dialog.querySelector(".is-active");
const wordsOf = text => text.toLowerCase().split(/\s+/);

// What was found for these words; while others are being typed it stays, but Enter does not open it.
const isCurrent = () => place("found").firstElementChild?.dataset.query.trim() === typed();

// What somebody has gone to by an arrow stays active when results arrive.
let hasMoved = false;
let numbers = 0;
function choose(option) {
  if (option && !option.id) option.id = `palette-option-${numbers += 1}`;
  activate(dialog, option);
}

/* --- what is not asked of the server --- */
function showCommands() {
  const groups = [place("conversation"), place("commands")];
  for (const group of groups) {
    const lines = [...group.querySelectorAll("[role=option]")];
    for (const line of lines) {
      const names = wordsOf(line.textContent.trim());
      line.hidden = !wordsOf(typed()).every(word => names.some(name => name.startsWith(word)));
    }
    group.hidden = lines.every(line => line.hidden);
  }
  // Those that were asked for by name come first.
  if (typed()) place("found").before(...groups);
  else place("found").after(...groups);
}

function showRecent() {
  const group = place("recent");
  const searches = typed() ? [] : recentSearches();
  for (const line of group.querySelectorAll("button")) line.remove();
  group.hidden = searches.length === 0;
  group.append(...searches.map(search => {
    const icon = dialog.querySelector(".palette-field .icon").cloneNode(true);
    const words = element("span", { className: "truncate", dir: "auto" }, search);
    const line = element("button", { type: "button", className: "menu-item", role: "option", ariaSelected: "false", tabIndex: -1 }, icon, words);
    line.dataset.search = search;
    return line;
  }));
}

function show() {
  place("none").hidden = !typed() || !isCurrent() || options().length > 0;
  if (!hasMoved || !options().includes(active())) choose(typed() ? options()[0] : null);
}

// Other words: what was gone to among the results of those before does not count.
function begin() {
  hasMoved = false;
  showCommands();
  showRecent();
  show();
}

/* --- opening and closing --- */
function open() {
  if (dialog.open) return;
  dialog.showModal();
  field.focus();
  for (const line of place("conversation").querySelectorAll("[role=option]")) line.remove();
  place("conversation").append(...commandsOfConversation());
  begin();
  field.dispatchEvent(new CustomEvent(SEARCH_SHOWN));
}

function onClose() {
  field.value = "";
  place("found").replaceChildren();
  place("said").textContent = "";
  // Where it was opened from is gone, as a drawer is.
  if (document.activeElement === document.body) document.getElementById("text")?.focus({ preventScroll: true });
}

function search(text) {
  field.value = text;
  field.focus();
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

/* --- keys --- */
function step(by) {
  const all = options();
  const at = all.indexOf(active());
  hasMoved = true;
  choose(all.at(at < 0 && by < 0 ? -1 : (at + by) % all.length));
}

function enter() {
  const option = active();
  if (option && (isCurrent() || !place("found").contains(option))) option.click();
  else if (typed()) field.form.requestSubmit();
}

const KEYS = { ArrowDown: () => step(1), ArrowUp: () => step(-1), Enter: enter };

function onKey(event) {
  if (isComposing(event)) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") dialog.close();
  else if (event.target !== field || hasModifier(event) || !(event.key in KEYS)) return;
  else KEYS[event.key]();
  event.preventDefault();
}

if (dialog) {
  listen(SEARCH_OPEN, open);
  on("click", "[data-palette-open]", () => emit(SEARCH_OPEN));
  on("click", "[data-palette-close]", () => dialog.close());
  on("click", "#palette [data-hit]", () => remember(typed()));
  on("click", "#palette [data-theme]", line => emit(THEME_CHANGE, { theme: line.dataset.theme }));
  on("click", "#palette [data-search]", line => search(line.dataset.search));
  // Before the help on keys opens a dialog of its own; and a link may lead to this very page.
  on("click", "#palette [role=option]:not([data-search])", () => dialog.close(), true);
  // Beside the dialog, on its backdrop.
  dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", onClose);
  dialog.addEventListener("keydown", onKey);
  field.form.addEventListener("submit", () => remember(typed()));
  field.addEventListener("input", begin);

  listen(BEFORE_SWAP, ({ ctx }, event) => {
    if (ctx.sourceElement === field && !dialog.open) event.preventDefault();
  });

  listen(AFTER_SWAP, ({ ctx }) => {
    if (ctx?.sourceElement !== field) return;
    show();
    place("said").textContent = place("found").firstElementChild?.dataset.said ?? "";
  });

  // Of a conversation to which access was lost nothing stays, its title neither.
  listen(LIST_LOST, () => { if (dialog.open) field.dispatchEvent(new CustomEvent(SEARCH_SHOWN)); });
  listen(ROOM_GONE, () => dialog.close());
}
