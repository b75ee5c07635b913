/* Completes a name after "@" in the composer, edits and comments, from the people who may be mentioned. A person who
   chooses somebody without access is offered to share the conversation. */
import { complete } from "../base/completion.js";
import { announce, listen, notify, on } from "../base/dom.js";
import { AFTER_REQUEST, ROOM_GONE } from "../base/events.js";
import { gettext, interpolate, ngettext } from "../base/i18n.js";
import { keep } from "../conversations/composer.js";

const MOST_CHARACTERS = 40;

/* The "@" before the cursor and the part of a name behind it. */
function wordsAt(field) {
  const end = field.selectionEnd;
  if (field.selectionStart !== end) return null;
  const at = field.value.lastIndexOf("@", end - 1);
  const words = field.value.slice(at + 1, end);
  if (at < 0 || words.length > MOST_CHARACTERS || /\n|^\s/.test(words)) return null;
  return /[\p{L}\p{N}_@./]$/u.test(field.value.slice(0, at)) ? null : { at, words };
}

function choose(field, at, option) {
  const { name, key } = option.dataset;
  field.setRangeText(`@${name} `, at, field.selectionEnd, "end");
  keep(field);
  if ("withoutAccess" in option.dataset) offer(option.querySelector(".completion-name").textContent.trim(), key);
}

const names = complete({
  id: "mention-list",
  wordsAt,
  choose,
  found: count => ngettext("%(count)s person found", "%(count)s people found", count),
});
listen(ROOM_GONE, names.close);

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
