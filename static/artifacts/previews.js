/* What goes wrong in a preview, as a line below it; and from there, when somebody wants that, into
   the message. The document in the frame may say anything: it is text, short, and never sent. */
(() => {
  "use strict";

  const MOST_LETTERS = 500;

  const sayingFrame = source => [...document.querySelectorAll("iframe.preview-frame")].find(frame => frame.contentWindow === source);

  // A document without an origin says so; nobody else is listened to.
  addEventListener("message", ({ source, origin, data }) => {
    const line = origin === "null" && typeof data?.trouble === "string" && sayingFrame(source)?.parentElement.querySelector(".preview-trouble");
    // The first is most often the cause of the others.
    if (!line || !line.hidden) return;
    line.querySelector(".preview-words").textContent = data.trouble.slice(0, MOST_LETTERS);
    line.hidden = false;
    document.dispatchEvent(new CustomEvent("tributary:announce", { detail: { text: "The preview reports an error." } }));
  });

  function write(field, text) {
    field.value = [field.value.trimEnd(), text].filter(Boolean).join("\n\n");
    field.dispatchEvent(new Event("input", { bubbles: true }));
    // On a phone the page that this stands on lies over the message.
    if (field.closest("[inert]")) document.querySelector("[data-panel-close]")?.click();
    field.focus();
  }

  document.addEventListener("click", event => {
    const button = event.target.closest?.("[data-to-message]");
    if (!button) return;
    const words = button.closest(".preview-trouble").querySelector(".preview-words").textContent;
    const text = `${button.dataset.toMessage}\n\n${words.split("\n").map(line => `    ${line}`).join("\n")}\n`;
    const field = document.getElementById("text");
    if (field) write(field, text);
    else location.assign(`${button.dataset.room}?${new URLSearchParams({ draft: text })}`);
  });
})();
