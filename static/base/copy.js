/* Copies an answer's Markdown or a block of code, and says so on the button. */
(() => {
  "use strict";

  const SHOWN_MS = 2000;

  function copyByKeyboard(text) {
    // Without a secure context there is no clipboard object, but there is this.
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "visually-hidden";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }

  async function put(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return copyByKeyboard(text);
    }
  }

  async function sourceOf(button) {
    const response = await fetch(button.dataset.copySource, { credentials: "same-origin", redirect: "error" });
    if (!response.ok) throw new Error(String(response.status));
    return response.text();
  }

  function codeOf(button) {
    const code = button.closest(".codeblock")?.querySelector("pre code, pre");
    return code ? code.textContent : "";
  }

  function say(button, word) {
    const label = button.querySelector("span:not(.icon)") ?? button;
    button.dataset.label ??= label.textContent;
    label.textContent = word;
    button.classList.add("is-done");
    document.dispatchEvent(new CustomEvent("tributary:announce", { detail: { text: word } }));
    setTimeout(() => {
      label.textContent = button.dataset.label;
      button.classList.remove("is-done");
    }, SHOWN_MS);
  }

  document.addEventListener("click", async event => {
    const button = event.target.closest?.("[data-copy-source], button.copy");
    if (!button) return;
    try {
      const text = button.dataset.copySource ? await sourceOf(button) : codeOf(button);
      const isLive = button.closest(".turn")?.querySelector("[data-live]");
      say(button, await put(text) ? (isLive ? "Copied so far" : "Copied") : "Not copied");
    } catch {
      say(button, "Not copied");
    }
  });
})();
