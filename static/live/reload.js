/* Loads the page again, because the server says that it is of another database or version. */
import { ofTab } from "../base/dom.js";

// A server tells all its pages at once to reload; a page that is slow to load is not asked for again
// meanwhile, however often it is said.
const RELOAD_SPREAD_MS = 3000;
const RELOAD_MS = 30000;
const RELOADED = "reloaded";

let reloadedAt = -RELOAD_MS;

// While servers of two versions run, the next page may be the other one's.
function hasJustReloaded() {
  const isJustNow = Date.now() - Number(ofTab.get(RELOADED)) < RELOAD_MS;
  if (!isJustNow) ofTab.set(RELOADED, Date.now());
  return isJustNow;
}

export function reload() {
  if (performance.now() - reloadedAt < RELOAD_MS || hasJustReloaded()) return;
  reloadedAt = performance.now();
  setTimeout(() => location.reload(), Math.random() * RELOAD_SPREAD_MS);
}
