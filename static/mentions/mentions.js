/* Completes a name after "@" in the composer, edits and comments, from the people who may be mentioned. A person who
   chooses somebody without access is offered to share the conversation. */
import { announce, isComposing, listen, notify, on, request } from "../base/dom.js";
import { AFTER_REQUEST, ROOM_GONE } from "../base/events.js";
import { gettext, interpolate, ngettext } from "../base/i18n.js";
import { keep } from "../conversations/composer.js";

const FIELD = "textarea[data-draft]";
const MOST_CHARACTERS = 40;
const PAUSE_MS = 120;
const template = document.getElementById("mention-list");

// The list that is open, its field, and the place of its "@".
let open = null;
let asked = null;
// The "@" at which a list was closed or a name chosen: it stays closed there.
let closedAt = -1;

/* The "@" before the cursor and the part of a name behind it. */
function wordsAt(field) {
  const end = field.selectionEnd;
  if (field.selectionStart !== end) return null;
  const at = field.value.lastIndexOf("@", end - 1);
  const words = field.value.slice(at + 1, end);
  if (at < 0 || words.length > MOST_CHARACTERS || /\n|^\s/.test(words)) return null;
  return /[\p{L}\p{N}_@./]$/u.test(field.value.slice(0, at)) ? null : { at, end, words };
}

/* --- the list --- */
function listFor(field) {
  const { form } = field;
  const known = form.querySelector("[role=listbox].mention-list");
  if (known) return known;
  const made = template.cloneNode();
  made.id = `mention-list-${field.id}`;
  form.append(made);
  return made;
}

const optionsOf = list => [...list.querySelectorAll("[role=option]")];

function activate(option) {
  for (const each of optionsOf(open.list)) {
    each.classList.toggle("is-active", each === option);
    each.ariaSelected = String(each === option);
  }
  option.scrollIntoView({ block: "nearest" });
  open.field.setAttribute("aria-activedescendant", option.id);
}

function close() {
  clearTimeout(asked?.timer);
  asked?.abort.abort();
  asked = null;
  if (!open) return;
  open.list.hidden = true;
  open.list.replaceChildren();
  for (const name of ["role", "aria-expanded", "aria-controls", "aria-autocomplete", "aria-activedescendant"]) open.field.removeAttribute(name);
  open = null;
}

function show(field, at, html) {
  const list = listFor(field);
  list.innerHTML = html;
  const options = optionsOf(list);
  if (!options.length) return close();
  options.forEach((option, number) => { option.id = `${list.id}-${number}`; });
  list.hidden = false;
  if (!open) {
    const found = ngettext("%(count)s person found", "%(count)s people found", options.length);
    announce(found, { about: "mentions" });
  }
  open = { field, list, at };
  field.setAttribute("role", "combobox");
  field.setAttribute("aria-autocomplete", "list");
  field.setAttribute("aria-expanded", "true");
  field.setAttribute("aria-controls", list.id);
  activate(options[0]);
}

function look(field) {
  const found = wordsAt(field);
  if (!found || found.at !== closedAt) closedAt = -1;
  if (!found || found.at === closedAt || !template.isConnected) return close();
  clearTimeout(asked?.timer);
  asked?.abort.abort();
  const abort = new AbortController();
  const timer = setTimeout(async () => {
    const address = `${template.dataset.find}?${new URLSearchParams({ q: found.words })}`;
    try {
      const response = await request(address, { signal: abort.signal, headers: { "HX-Request": "true" } });
      const html = await response.text();
      if (!abort.signal.aborted && document.activeElement === field) show(field, found.at, html);
    } catch { /* The name is written without help. */ }
  }, PAUSE_MS);
  asked = { timer, abort };
}

if (template) {
  on("input", FIELD, look);
  on("focusout", FIELD, close);
  // Not on an option: the field would lose the focus, and the list with it.
  on("pointerdown", ".mention-list", (_, event) => event.preventDefault());
  on("click", ".mention-option", choose);
  listen(ROOM_GONE, close);
  // Before the field's own keys: Enter sends, and Escape closes what lies below.
  document.addEventListener("keydown", onKey, true);
}

function onKey(event) {
  if (!open || event.target !== open.field || isComposing(event)) return;
  const options = optionsOf(open.list);
  const at = options.findIndex(option => option.matches(".is-active"));
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) activate(options.at((at + step) % options.length));
  else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey) choose(options[at]);
  else if (event.key === "Escape") {
    closedAt = open.at;
    close();
  } else return;
  event.preventDefault();
  event.stopImmediatePropagation();
}

function choose(option) {
  const { field, at } = open;
  const { name, key } = option.dataset;
  close();
  closedAt = at;
  field.setRangeText(`@${name} `, at, field.selectionEnd, "end");
  keep(field);
  if ("withoutAccess" in option.dataset) offer(option.querySelector(".mention-name").textContent.trim(), key);
}

/* --- sharing with somebody who was mentioned --- */
const note = () => document.getElementById("mention-note");

function offer(name, key) {
  const made = document.getElementById("mention-offer").content.firstElementChild.cloneNode(true);
  const sentence = key
    ? gettext("%(name)s can’t read this conversation.")
    : gettext("%(name)s can’t read this conversation. Ask one of its managers to share it.");
  made.querySelector("p").textContent = interpolate(sentence, { name });
  const form = made.querySelector("form");
  if (form) form.elements.namedItem("who").value = key;
  made.dataset.name = name;
  note().replaceChildren(made);
  htmx.process(made);
}

on("click", "[data-mention-dismiss]", () => note().replaceChildren());

listen(AFTER_REQUEST, ({ ctx }) => {
  const made = ctx.sourceElement.closest?.(".mention-offer");
  if (!made) return;
  if (ctx.response?.status === 200) announce(interpolate(gettext("Shared with %(name)s"), { name: made.dataset.name }));
  else notify(gettext("The conversation couldn’t be shared."));
  note().replaceChildren();
});
