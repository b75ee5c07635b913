/* Notifications of the browser, while no tab of it is visible. One tab shows each of them. The browser is asked for
   its permission only after a click in the inbox. */
import { listen, ofBrowser, on, showIf } from "../base/dom.js";
import { INBOX_CHANGED } from "../base/events.js";

const VISIBLE = "tributary-visible";
const STORED = "notified";
const LATER = "notify-later";
const MOST_REMEMBERED = 100;
// Without a secure connection there is neither.
const isPossible = typeof Notification === "function" && "locks" in navigator;

/* --- a visible tab holds a lock, so that the others know --- */
let release = () => {};

function tellVisible() {
  release();
  release = () => {};
  if (document.hidden || !isPossible) return;
  navigator.locks.request(VISIBLE, { mode: "shared" }, () => new Promise(resolve => { release = resolve; })).catch(() => {});
}

document.addEventListener("visibilitychange", tellVisible);
tellVisible();

async function isAnyVisible() {
  if (!document.hidden) return true;
  const { held } = await navigator.locks.query();
  return held.some(({ name }) => name === VISIBLE);
}

/* --- each is shown once --- */
function isFirst(id) {
  const known = JSON.parse(ofBrowser.get(STORED) ?? "[]");
  if (known.includes(id)) return false;
  ofBrowser.set(STORED, JSON.stringify([...known, id].slice(-MOST_REMEMBERED)));
  return true;
}

function show({ id, text, title, address }) {
  const notification = new Notification(text, { body: title, tag: id });
  notification.onclick = () => {
    notification.close();
    focus();
    location.assign(address);
  };
}

const isMuted = kind => (document.querySelector("[data-inbox]")?.dataset.muted ?? "").split(" ").includes(kind);

listen(INBOX_CHANGED, async ({ news }) => {
  if (!news.length || !isPossible || Notification.permission !== "granted" || await isAnyVisible()) return;
  // The other tabs wait here, and find that it was shown.
  await navigator.locks.request("tributary-notify", () => {
    for (const each of news) if (!isMuted(each.kind) && isFirst(each.id)) show(each);
  });
});

/* --- the offer, in the inbox --- */
function showOffer() {
  const state = isPossible ? Notification.permission : "denied";
  showIf("notify-offer", state === "default" && ofBrowser.get(LATER) === null);
  showIf("notify-kinds", state === "granted");
}

on("click", "[data-notify-on]", async () => {
  await Notification.requestPermission();
  showOffer();
});

on("click", "[data-notify-later]", () => {
  ofBrowser.set(LATER, "1");
  showOffer();
});

showOffer();
