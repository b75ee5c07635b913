/* What nearly every script needs: delegated listeners, events, stored values, requests. */
import { AFTER_SWAP, ANNOUNCE, NOTICE } from "./events.js";

export const emit = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));

/* `work(element, event)` for events of this type at elements of the page that match, now or later. */
export function on(type, selector, work, options) {
  document.addEventListener(type, event => {
    const element = event.target.closest?.(selector);
    if (element) work(element, event);
  }, options);
}

/* `work(detail, event)` for every event of this name that reaches the document: ours, and htmx's. */
export const listen = (name, work, options) =>
  document.addEventListener(name, event => work(event.detail ?? {}, event), options);

/* `work(detail, event)` after every swap but that of a frame of a live answer. */
export const onSwapped = work =>
  listen(AFTER_SWAP, (detail, event) => { if (event.target.id !== "live") work(detail, event); });

export const hasModifier = event => event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;

/* A plain click of the main button, which does not ask for another tab or a download. */
export const isPlainClick = event => event.button === 0 && !hasModifier(event) && !event.defaultPrevented;

// Some browsers report a key that belongs to a composition only by this code.
export const isComposing = event => event.isComposing || event.keyCode === 229;

/* For people who use a screen reader: base/announcer.js. */
export const announce = (text, more = {}) => emit(ANNOUNCE, { text, ...more });

/* A failure that somebody has to see: base/notices.js. */
export const notify = (text, more = {}) => emit(NOTICE, { text, ...more });

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/* Sets a text only if it changes: writing the same one makes the browser style and lay out anew. */
export const setText = (node, text) => { if (node.textContent !== text) node.textContent = text; };

/* Shows the element with this id or hides it, if it is on the page. */
export function showIf(id, isShown) {
  const node = document.getElementById(id);
  if (node) node.hidden = !isShown;
}

/* Storage that may be switched off or full: then nothing is stored, and `null` is read. */
function storage(find) {
  const tried = work => { try { return work(find()) ?? null; } catch { return null; } };
  return {
    get: name => tried(place => place.getItem(name)),
    // An empty text is a value; `null` and `undefined` remove the entry.
    set: (name, value) => tried(place => (value == null ? place.removeItem(name) : place.setItem(name, String(value)))),
  };
}

export const ofBrowser = storage(() => localStorage);
export const ofTab = storage(() => sessionStorage);

/* Another tab may have signed in again, which changes the token. */
export const csrfToken = () => document.cookie.match(/(?:^|; )(?:__Host-)?csrftoken=([^;]+)/)?.[1] ?? "";

/* A response of our own server; throws for an error, and for a page that only wants a sign-in. */
export async function request(address, options = {}) {
  const response = await fetch(address, { redirect: "error", ...options });
  if (!response.ok) throw Object.assign(new Error(String(response.status)), { response });
  return response;
}

/* `work(root)` for each of the places, and for every element that is added to them later. */
export function onAdded(places, work) {
  const observer = new MutationObserver(records => {
    for (const { addedNodes } of records) {
      for (const node of addedNodes) if (node.nodeType === Node.ELEMENT_NODE) work(node);
    }
  });
  for (const place of places) {
    observer.observe(place, { childList: true, subtree: true });
    work(place);
  }
}

/* `work(elements)` with the matching elements below `place` that were changed inside, or added. The
   returned `takeNow()` does so at once for changes that are still to be reported. */
export function onTouched(place, selector, work) {
  const take = records => {
    const touched = new Set();
    for (const { target, addedNodes } of records) {
      const around = target.closest(selector);
      if (around) touched.add(around);
      else for (const node of addedNodes) {
        if (node.nodeType === Node.ELEMENT_NODE) for (const inside of matching(node, selector)) touched.add(inside);
      }
    }
    work(touched);
  };
  const observer = new MutationObserver(take);
  observer.observe(place, { childList: true, subtree: true });
  return { takeNow: () => take(observer.takeRecords()) };
}

/* The elements below `root` that match, and `root` itself if it does. */
export function* matching(root, selector) {
  if (root.matches?.(selector)) yield root;
  yield* root.querySelectorAll(selector);
}

/* Where content of answers stands: the conversation, the panel, and an artifact on a page of its own. */
export const contentPlaces = () =>
  ["turns", "panel-body", "preview"].map(id => document.getElementById(id)).filter(Boolean);
