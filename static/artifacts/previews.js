/* What goes wrong in a preview, as a line below it; and from there, if somebody wants that, into the
   composer. The document in the frame may say anything: it is text, short, and never sent. */
import { announce, on } from "../base/dom.js";
import { gettext } from "../base/i18n.js";

const MAX_CHARACTERS = 500;
const frameOf = source => [...document.querySelectorAll("iframe.preview-frame")].find(frame => frame.contentWindow === source);

// A document without an origin says so; nobody else is listened to.
addEventListener("message", ({ source, origin, data }) => {
  const line = origin === "null" && typeof data?.trouble === "string" && frameOf(source)?.parentElement.querySelector(".preview-trouble");
  // The first is most often the cause of the others.
  if (!line || !line.hidden) return;
  line.querySelector(".preview-words").textContent = data.trouble.slice(0, MAX_CHARACTERS);
  line.hidden = false;
  announce(gettext("The preview reports an error."));
});

function write(field, text) {
  field.value = [field.value.trimEnd(), text].filter(Boolean).join("\n\n");
  field.dispatchEvent(new Event("input", { bubbles: true }));
  // On a phone the panel with the preview covers the composer.
  if (field.closest("[inert]")) document.querySelector("[data-panel-close]")?.click();
  field.focus();
}

on("click", "[data-to-message]", button => {
  const words = button.closest(".preview-trouble").querySelector(".preview-words").textContent;
  const text = `${button.dataset.toMessage}\n\n${words.split("\n").map(line => `    ${line}`).join("\n")}\n`;
  const field = document.getElementById("text");
  if (field) write(field, text);
  else location.assign(`${button.dataset.room}?${new URLSearchParams({ draft: text })}`);
});
