/* Inserts a prompt, which is chosen from a list after "/" at the beginning of a message. A dialog asks for the values of
   its variables. */
import { complete } from "../base/completion.js";
import { csrfToken, notify, on, request } from "../base/dom.js";
import { gettext, ngettext } from "../base/i18n.js";

const MOST_CHARACTERS = 40;
const dialog = document.getElementById("prompt-dialog");

// The field that the dialog fills, and the end of the words that the prompt replaces: the dialog takes the cursor.
let field = null;
let end = 0;

/* "/" at the beginning, and the part of a name behind it. */
function wordsAt(text) {
  const { value, selectionStart, selectionEnd } = text;
  // Comments are for people.
  if (text.closest(".comment-form")) return null;
  const words = value.slice(1, selectionEnd);
  const isName = value.startsWith("/") && selectionStart === selectionEnd && selectionEnd > 0;
  return isName && words.length <= MOST_CHARACTERS && !/[\n/]/.test(words) ? { at: 0, words } : null;
}

async function ask(address, options = {}) {
  try {
    const response = await request(address, { ...options, headers: { "HX-Request": "true", "X-CSRFToken": csrfToken() } });
    take(await response.text());
  } catch {
    notify(gettext("The prompt couldn’t be inserted."));
  }
}

/* The text, or the form that asks for values. */
function take(html) {
  const values = document.getElementById("prompt-values");
  values.innerHTML = html;
  const text = values.querySelector("[data-prompt-text]")?.value;
  if (text === undefined) {
    if (!dialog.open) dialog.showModal();
    values.querySelector("[aria-invalid=true], .field :is(input, select, textarea)")?.focus();
    return;
  }
  values.replaceChildren();
  dialog.close();
  field.focus();
  field.setRangeText(text, 0, end, "end");
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

if (dialog) {
  complete({
    id: "prompt-list",
    wordsAt,
    choose(chosen, _, option) {
      field = chosen;
      end = chosen.selectionEnd;
      ask(option.dataset.address);
    },
    found: count => ngettext("%(count)s prompt found", "%(count)s prompts found", count),
  });
  on("submit", "[data-prompt-values]", (form, event) => {
    event.preventDefault();
    ask(form.action, { method: "POST", body: new FormData(form) });
  });
}
