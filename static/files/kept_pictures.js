/* Pictures of drafts, kept for this tab until they are sent or removed, as the texts are. They are too
   large for the tab's storage, so a database of the browser has them, which outlives the tab: for a day at
   most. Where nothing can be stored, nothing is kept. */
import { ofTab } from "../base/dom.js";

const NAME = "tributary-drafts";
const STORE = "pictures";
const KEPT_MS = 24 * 3600 * 1000;
const TAB = "tributary.tab";

function resultOf(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

let opened = null;

function open() {
  const request = indexedDB.open(NAME, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE).createIndex("at", "at");
  return resultOf(request);
}

// One after the other, so that the last change is the one that stays.
let last = Promise.resolve();

/* `work(store, key)` with the key of this tab's draft. Gives `undefined` if that isn't possible. */
function use(draft, work) {
  last = last.then(async () => {
    if (ofTab.get(TAB) === null) ofTab.set(TAB, String(Math.random()).slice(2));
    if (ofTab.get(TAB) === null) return undefined;
    const database = await (opened ??= open());
    const store = database.transaction(STORE, "readwrite").objectStore(STORE);
    return work(store, `${ofTab.get(TAB)}:${draft}`);
  }).catch(() => undefined);
  return last;
}

export const keepPictures = (draft, files) =>
  use(draft, (store, key) => resultOf(files.length ? store.put({ files, at: Date.now() }, key) : store.delete(key)));

export async function keptPictures(draft) {
  const kept = await use(draft, async (store, key) => {
    const old = await resultOf(store.index("at").getAllKeys(IDBKeyRange.upperBound(Date.now() - KEPT_MS)));
    for (const each of old) store.delete(each);
    return resultOf(store.get(key));
  });
  return kept?.files ?? [];
}
