/* Folds of an answer whose text is long: it is loaded from the server when somebody opens them. */
import { on, request } from "../base/dom.js";
import { gettext } from "../base/i18n.js";

const watched = new WeakMap();

async function load(button, before = []) {
  const place = button.parentElement;
  button.setAttribute("aria-busy", "true");
  // What stood there a moment ago stays until the rest is here: nothing jumps under a reader's eyes.
  if (before.length) place.replaceChildren(...before);
  try {
    const html = await (await request(button.dataset.part)).text();
    const hadFocus = document.activeElement === button;
    place.innerHTML = html;
    if (hadFocus) focus(place);
  } catch {
    button.removeAttribute("aria-busy");
    button.querySelector("span").textContent = gettext("Couldn’t load. Try again");
    if (!button.isConnected) place.append(button);
  }
}

// Of a fold its head; of a text that goes on the place where it does, without moving the page.
function focus(place) {
  if (!place.matches(".rest")) return place.closest("details")?.querySelector("summary")?.focus();
  place.tabIndex = -1;
  place.focus({ preventScroll: true });
}

const isBusy = button => button.hasAttribute("aria-busy");
// The rest of a long text is loaded by hand only, slice after slice.
const isIn = fold => button => button.closest("details") === fold && !isBusy(button) && !button.closest(".rest");

// An open fold may still get what is to be loaded: its call returns, its thinking ends.
function watch(fold) {
  const observer = new MutationObserver(records => {
    for (const { target, addedNodes } of records) {
      const button = [...addedNodes].find(node => node.matches?.(".later"));
      if (!button?.isConnected || !isIn(fold)(button)) continue;
      const gone = records.filter(record => record.target === target).flatMap(record => [...record.removedNodes]);
      load(button, gone.filter(node => node !== button && !node.isConnected));
    }
  });
  observer.observe(fold, { childList: true, subtree: true });
  watched.set(fold, observer);
}

on("toggle", ".answer details", fold => {
  watched.get(fold)?.disconnect();
  if (!fold.open) return;
  [...fold.querySelectorAll(".later")].filter(isIn(fold)).forEach(button => load(button));
  watch(fold);
}, true);

on("click", ".answer .later", button => { if (!isBusy(button)) load(button); });
