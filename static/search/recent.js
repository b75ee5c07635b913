/* A person's latest searches, in this browser only. */
import { ofBrowser } from "../base/dom.js";

const MOST = 5;
// Several people may use one browser.
const key = () => `recent-searches:${document.getElementById("palette")?.dataset.person ?? ""}`;

export function recentSearches() {
  try { return JSON.parse(ofBrowser.get(key())) ?? []; } catch { return []; }
}

export function remember(text) {
  const search = text.trim();
  if (!search) return;
  const others = recentSearches().filter(each => each !== search);
  ofBrowser.set(key(), JSON.stringify([search, ...others].slice(0, MOST)));
}
