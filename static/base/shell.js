/* What every page's frame needs and HTML alone cannot do: menus that close, confirmation, copying,
   showing a password, and times in the reader's own clock and language. */
(() => {
  "use strict";

  const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
  const dayAndYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
  const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
  const full = new Intl.DateTimeFormat(undefined, { dateStyle: "long", timeStyle: "short" });

  function inWords(date, style) {
    const now = new Date();
    if (style === "full") return full.format(date);
    if (style === "time") return hour.format(date);
    if (style === "auto" && date.toDateString() === now.toDateString()) return hour.format(date);
    return (date.getFullYear() === now.getFullYear() ? day : dayAndYear).format(date);
  }

  function* all(root, selector) {
    if (root.matches?.(selector)) yield root;
    yield* root.querySelectorAll(selector);
  }

  function localiseTimes(root) {
    for (const time of all(root, "time[data-when]")) {
      const date = new Date(time.dateTime);
      if (Number.isNaN(date.getTime())) continue;
      time.textContent = inWords(date, time.dataset.when);
      time.title = full.format(date);
      time.removeAttribute("data-when");
    }
  }

  function showReveals(root) {
    for (const button of all(root, "[data-reveal][hidden]")) button.hidden = false;
  }

  function prepare(root) {
    localiseTimes(root);
    showReveals(root);
  }

  function say(text) {
    document.dispatchEvent(new CustomEvent("tributary:announce", { detail: { text } }));
  }

  /* --- menus: a click elsewhere or Escape closes them --- */

  function closeMenus(except) {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!except || !menu.contains(except)) menu.open = false;
    }
  }

  document.addEventListener("click", event => closeMenus(event.target));
  document.addEventListener("keydown", event => {
    // Not with each letter: it looks through the whole page.
    const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
    if (!menu) return;
    event.preventDefault();
    menu.open = false;
    menu.querySelector("summary").focus();
  });

  /* --- buttons that act on the page itself --- */

  async function copy(button) {
    const source = document.querySelector(button.dataset.copyTarget);
    const text = source.value ?? source.textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      source.select?.();  // without a secure context there is no clipboard: the keyboard copies
      return;
    }
    const label = button.querySelector("span") ?? button;
    const before = label.textContent;
    label.textContent = "Copied";
    say("Copied");
    setTimeout(() => { label.textContent = before; }, 2000);
  }

  function reveal(button) {
    const input = document.getElementById(button.dataset.reveal);
    const shown = input.type === "password";
    input.type = shown ? "text" : "password";
    button.setAttribute("aria-pressed", String(shown));
    const use = button.querySelector("use");
    use.setAttribute("href", use.getAttribute("href").replace(/#.*/, shown ? "#eye-off" : "#eye"));
  }

  document.addEventListener("click", event => {
    const button = event.target.closest?.("[data-copy-target], [data-reveal]");
    if (!button) return;
    if (button.dataset.copyTarget) copy(button);
    else reveal(button);
  });

  document.addEventListener("change", event => {
    if (event.target.matches?.("[data-submit]")) event.target.form.requestSubmit();
  });

  /* --- forms that ask before they do: data-confirm holds the question, data-confirm-go the word --- */

  let confirmed = null;

  document.addEventListener("submit", event => {
    const form = event.target;
    const dialog = document.getElementById("confirm");
    if (!form.dataset?.confirm || !dialog) return;
    if (confirmed === form) {
      confirmed = null;
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
    const submitter = event.submitter;
    dialog.querySelector("#confirm-text").textContent = form.dataset.confirm;
    dialog.querySelector("#confirm-go").textContent = form.dataset.confirmGo ?? "Go on";
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      if (dialog.returnValue !== "go") {
        form.dispatchEvent(new CustomEvent("confirm:declined", { bubbles: true }));
        return;
      }
      confirmed = form;
      form.requestSubmit(submitter);
    }, { once: true });
    dialog.showModal();
  }, true);

  prepare(document);
  // Only what was inserted: the whole document at every frame would be quadratic.
  document.addEventListener("htmx:after:process", event => prepare(event.target));
})();
