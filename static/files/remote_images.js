/* Remote images: the server fetches one when a person wants to see it. From then on everybody in the
   conversation sees it, wherever its address stands. */
import { csrfToken, element, on, onAdded, request } from "../base/dom.js";
import { gettext } from "../base/i18n.js";

const turns = document.getElementById("turns");
// Not in a block that is still written: that one is rendered again all the time.
const SELECTOR = ".closed a.elsewhere + .show-picture";

let queue = Promise.resolve();   // one after the other: the server fetches few at a time
const runs = new Map();   // run → promise of its images: address → where they are

function runOf(button) {
  const [, id] = button.closest(".answer")?.id.match(/^r([0-9a-f]{32})$/) ?? [];
  return id?.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

const ask = async (run, options) => (await request(`/r/${run}/pictures/`, options)).json();

function known(run) {
  // What could not be fetched is asked for again with the next image.
  if (!runs.has(run)) runs.set(run, ask(run).catch(() => { runs.delete(run); return {}; }));
  return runs.get(run);
}

function show(button, src) {
  const link = button.previousElementSibling;
  button.after(element("img", { className: "from-elsewhere", alt: link.textContent, src }));
  if (document.activeElement === button) link.focus();
  button.hidden = true;
}

async function fetchOf(button) {
  // What is far from the reader by now can be asked for again.
  if (!button.isConnected || button.hidden) return button.removeAttribute("aria-busy");
  const run = runOf(button);
  const body = new URLSearchParams({ address: button.previousElementSibling.getAttribute("href") });
  try {
    const fetched = await ask(run, { method: "POST", body, headers: { "X-CSRFToken": csrfToken() } });
    runs.set(run, Promise.resolve({ ...await known(run), ...fetched }));
    for (const each of turns.querySelectorAll(SELECTOR)) showKnown(each);
  } catch {
    button.querySelector("span").textContent = gettext("Couldn’t load");
    button.setAttribute("aria-label", gettext("Couldn’t load. Try again"));
  }
  button.removeAttribute("aria-busy");
}

async function showKnown(button) {
  const run = runOf(button);
  if (!run) return;
  const source = (await known(run))[button.previousElementSibling?.getAttribute("href")];
  if (source && button.isConnected && !button.hidden) show(button, source);
}

on("click", SELECTOR, button => {
  if (button.hasAttribute("aria-busy")) return;
  button.setAttribute("aria-busy", "true");
  queue = queue.then(() => fetchOf(button)).catch(() => {});
});

onAdded([turns], root => { for (const button of root.querySelectorAll(SELECTOR)) showKnown(button); });
