/* Copies an answer's Markdown, the address of a turn, a block of code or another text of the page, and says so
   on the button. */
import { announce, on, request } from "./dom.js";
import { gettext } from "./i18n.js";

const SHOWN_MS = 2000;

function copyByKeyboard(text) {
  // Without a secure context there is no clipboard object, but there is this.
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  return isCopied;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyByKeyboard(text);
  }
}

async function textOf(button) {
  const { copySource, copyTarget, copyLink } = button.dataset;
  if (copyLink) return new URL(copyLink, location.href).href;
  if (copySource) return (await request(copySource)).text();
  const source = copyTarget ? document.querySelector(copyTarget) : button.closest(".codeblock").querySelector("pre code, pre");
  return source.value ?? source.textContent;
}

function say(button, text) {
  const label = button.querySelector("span:not(.icon)") ?? button;
  button.dataset.label ??= label.textContent;
  label.textContent = text;
  button.classList.add("is-done");
  announce(text);
  setTimeout(() => {
    label.textContent = button.dataset.label;
    button.classList.remove("is-done");
  }, SHOWN_MS);
}

on("click", "[data-copy-source], [data-copy-target], [data-copy-link], button.copy", async button => {
  const isLive = !button.dataset.copyLink && button.closest(".turn")?.querySelector("[data-live]");
  try {
    const isCopied = await copy(await textOf(button));
    say(button, !isCopied ? gettext("Not copied") : isLive ? gettext("Copied so far") : gettext("Copied"));
  } catch {
    say(button, gettext("Not copied"));
  }
});
