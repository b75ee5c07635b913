/* Fields for messages: they grow, Enter sends, drafts are kept. */
import { isComposing, isPlainClick, listen, ofTab, on, onSwapped } from "../base/dom.js";
import { AFTER_REQUEST, BEFORE_REQUEST, CONFIG_REQUEST, FINALLY_REQUEST, ROOM_ACCEPTED } from "../base/events.js";

const DRAFT = "textarea[data-draft]";
const CONFLICT = 409;
const isCoarse = matchMedia("(pointer: coarse)");

/* --- growing, where the browser does not do it by itself --- */
function grow(field) {
  if (CSS.supports("field-sizing", "content")) return;
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + 2}px`;
}

/* --- drafts: kept for each conversation until the server has accepted the message --- */
export const keyOf = field => `draft:${field.dataset.draft}`;

export function keep(field) {
  ofTab.set(keyOf(field), field.value || null);
  if (!field.value) ofTab.set(sentKeyOf(field), null);
  grow(field);
}

/* --- the last message whose acceptance this tab has not seen --- */
const sentKeyOf = field => `sent:${field.dataset.draft}`;
export const lastSent = field => JSON.parse(ofTab.get(sentKeyOf(field)) ?? "{}");

// The page shows it already. That is said of the moment at which it was made.
function forgetShown(field) {
  const { key, text } = lastSent(field);
  const shown = field.form.dataset.sent;
  delete field.form.dataset.sent;
  if (!key || key !== shown) return;
  if (ofTab.get(keyOf(field)) === text) ofTab.set(keyOf(field), null);
  ofTab.set(sentKeyOf(field), null);
}

// With its key the same text counts once, also where a later form of this page has brought another key.
function keepKey(field) {
  const { key, text } = lastSent(field);
  if (key && text === field.value) field.form.elements.namedItem("key").value = key;
}

function prepare(field) {
  if (field.dataset.isReady) return;
  field.dataset.isReady = "true";
  forgetShown(field);
  const kept = ofTab.get(keyOf(field));
  const isPrefilled = field.id === "text" && field.value;
  if (kept && !isPrefilled) field.value = kept;
  grow(field);
  if ("focus" in field.dataset) {
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }
}

function prepareAll() {
  for (const field of document.querySelectorAll(DRAFT)) {
    prepare(field);
    keepKey(field);
  }
}

on("input", DRAFT, keep);
on("click", "[data-forget]", cancel => ofTab.set(`draft:${cancel.dataset.forget}`, null));

on("click", "[data-fill]", (starter, event) => {
  if (!isPlainClick(event)) return;
  event.preventDefault();
  const field = document.getElementById("text");
  field.value = starter.dataset.fill;
  keep(field);
  field.focus();
});

/* --- the focus: here after loading, sending and stopping --- */
// Where a touch brings up a keyboard, only a touch does.
function returnFocus() {
  const isElsewhere = document.activeElement?.matches("input, textarea, select") || document.querySelector("dialog[open]");
  if (!isCoarse.matches && !isElsewhere) document.getElementById("text")?.focus({ preventScroll: true });
}

/* --- sending --- */
// While an answer runs, the server queues the message.
const mayBeSent = form => form.querySelector("textarea").value.trim() !== "";

on("keydown", "textarea[data-enter]", (field, event) => {
  if (event.key !== "Enter" || isComposing(event)) return;
  const isCommand = event.ctrlKey || event.metaKey;
  if (!isCommand && (event.shiftKey || event.altKey || isCoarse.matches)) return;
  event.preventDefault();
  // A key that is held down sends once.
  if (!event.repeat && mayBeSent(field.form)) field.form.requestSubmit();
});

// Enter in the settings beside the composer must not send, or stop, anything.
on("keydown", "#composer :is(input:not([type=file]), select)", (_, event) => {
  if (event.key === "Enter") event.preventDefault();
});

document.addEventListener("submit", event => {
  const field = event.target.querySelector?.("textarea[data-enter]");
  if (!field || mayBeSent(event.target)) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  field.focus();
}, true);

// Stop is where Send was: the second half of a double click must not stop what the first began.
on("click", "[data-stop]", (_, event) => { if (event.detail > 1) event.preventDefault(); });

// Disabled at once: the response to it is empty, and the button goes when the page is told of the end.
// Only what did not succeed gives it back.
function showStopping(isStopping) {
  const button = document.querySelector("[data-stop]");
  if (button) button.disabled = isStopping;
}

listen(BEFORE_REQUEST, (_, { target }) => {
  if (target.id !== "stop-form") return;
  showStopping(true);
  returnFocus();
});

listen(FINALLY_REQUEST, ({ ctx }) => {
  if (ctx.sourceElement.id === "stop-form" && ctx.response?.status !== 204) showStopping(false);
});

// What was typed while the request waited for its turn, or was under way, is not what was accepted.
const sent = new WeakMap();  // request → text

listen(CONFIG_REQUEST, ({ ctx }, { target }) => {
  const field = target.querySelector?.(DRAFT);
  if (!field) return;
  sent.set(ctx, field.value);
  const key = ctx.request.body.get("key");
  if (key) ofTab.set(sentKeyOf(field), JSON.stringify({ key, text: field.value }));
});

// Before the swap: afterwards the form of an edit is no longer on the page.
listen(AFTER_REQUEST, ({ ctx }, { target }) => {
  const field = target.querySelector?.(DRAFT);
  if (!field || target === document) return;
  const isAccepted = ctx.hx.trigger === ROOM_ACCEPTED;
  // Refused, it is not what was stored under this key.
  if (isAccepted || ctx.response?.status === CONFLICT) ofTab.set(sentKeyOf(field), null);
  if (!isAccepted) return;
  if (field.value === sent.get(ctx)) field.value = "";
  keep(field);
  if (field.id === "text") returnFocus();
});

onSwapped(prepareAll);

addEventListener("pageshow", prepareAll);
prepareAll();
// A link to a turn, or to a place in it, is followed first.
if (!location.hash) returnFocus();
