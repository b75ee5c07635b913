/* Pictures from elsewhere: the server fetches one when a person wants to see it. From then on it is
   there for everybody in the room, and is shown wherever its address stands. */
(() => {
  "use strict";

  const turns = document.getElementById("turns");
  // Not in a block that is still written: that one is made anew all the time.
  const SELECTOR = ".closed a.elsewhere + .show-picture";
  const FAILED = "It cannot be shown";

  let line = Promise.resolve();   // one after the other: the server fetches few at a time
  const runs = new Map();   // run → promise of its pictures: address → where they are

  function runOf(button) {
    const [, id] = button.closest(".answer")?.id.match(/^r([0-9a-f]{32})$/) ?? [];
    return id?.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  }

  async function ask(run, options) {
    const response = await fetch(`/r/${run}/pictures/`, { credentials: "same-origin", redirect: "error", ...options });
    if (!response.ok) throw new Error(String(response.status));
    return response.json();
  }

  function known(run) {
    // What could not be had is asked for again with the next picture, not taken for nothing.
    if (!runs.has(run)) runs.set(run, ask(run).catch(() => { runs.delete(run); return {}; }));
    return runs.get(run);
  }

  function show(button, source) {
    const link = button.previousElementSibling;
    const picture = document.createElement("img");
    picture.className = "from-elsewhere";
    picture.alt = link.textContent;
    picture.src = source;
    button.after(picture);
    if (document.activeElement === button) link.focus();
    button.hidden = true;
  }

  async function wish(button) {
    // What is far from the reader by now can be wished for again.
    if (!button.isConnected || button.hidden) return button.removeAttribute("aria-busy");
    const run = runOf(button);
    const address = button.previousElementSibling.getAttribute("href");
    const token = document.cookie.match(/(?:^|; )(?:__Host-)?csrftoken=([^;]+)/)?.[1] ?? "";
    try {
      const body = new URLSearchParams({ address });
      const brought = await ask(run, { method: "POST", body, headers: { "X-CSRFToken": token } });
      runs.set(run, Promise.resolve({ ...await known(run), ...brought }));
      for (const each of turns.querySelectorAll(SELECTOR)) showKnown(each);
    } catch {
      button.querySelector("span").textContent = FAILED;
      button.setAttribute("aria-label", `${FAILED}. Try again`);
    }
    button.removeAttribute("aria-busy");
  }

  async function showKnown(button) {
    const run = runOf(button);
    if (!run) return;
    const source = (await known(run))[button.previousElementSibling?.getAttribute("href")];
    if (source && button.isConnected && !button.hidden) show(button, source);
  }

  turns.addEventListener("click", event => {
    const button = event.target.closest?.(SELECTOR);
    if (!button || button.hasAttribute("aria-busy")) return;
    button.setAttribute("aria-busy", "true");
    line = line.then(() => wish(button)).catch(() => {});
  });

  function find(root) {
    for (const button of root.querySelectorAll?.(SELECTOR) ?? []) showKnown(button);
  }

  new MutationObserver(records => {
    for (const { addedNodes } of records) for (const node of addedNodes) find(node);
  }).observe(turns, { childList: true, subtree: true });
  find(turns);
})();
