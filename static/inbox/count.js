/* How much waits for this person: beside the link to the inbox, in the title of the tab, and in its icon. The
   server counts, so all tabs of a person agree. */
import { element, emit, listen, onSwapped } from "../base/dom.js";
import { INBOX_CHANGED, ROOM_GONE } from "../base/events.js";
import { ngettext, number } from "../base/i18n.js";
import { openChannel } from "../live/channels.js";

const MOST = 99;
const link = () => document.querySelector("[data-inbox]");
const listed = () => document.querySelector("#inbox-entries [data-version]");

// As the page has come, until the server tells.
let count = Number(document.querySelector("[data-inbox] [data-count]")?.dataset.count ?? 0);
let isTold = false;

const label = () => (count > MOST ? `${MOST}+` : number(count));

/* --- beside the link: the list may have been swapped --- */
function showBeside() {
  const old = link()?.querySelector("[data-count]");
  if (!link() || Number(old?.dataset.count ?? 0) === count) return;
  old?.remove();
  if (!count) return;
  const words = ngettext(" needs your attention", " need your attention", count);
  const made = element("span", { className: "nav-count figure" }, label(), element("span", { className: "visually-hidden" }, words));
  made.dataset.count = String(count);
  link().append(made);
}

/* --- the title: other scripts change it, too --- */
const title = document.querySelector("title");
let shownTitle = "";
let ownTitle = "";

function showTitle() {
  if (document.title !== shownTitle) ownTitle = document.title;
  // As the browser reads it, without space at its ends.
  shownTitle = count ? `(${label()}) ${ownTitle}`.trim() : ownTitle;
  if (document.title !== shownTitle) document.title = shownTitle;
}

new MutationObserver(showTitle).observe(title, { childList: true, characterData: true, subtree: true });

/* --- the icon --- */
const icon = document.querySelector("link[rel=icon]");
const plain = icon.href;

function badge() {
  const digits = count > 9 ? "9+" : String(count);
  return `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
<rect width="32" height="32" rx="8" fill="#00727b"/>
<g fill="none" stroke="#f3f9f8" stroke-linecap="round" stroke-width="2.6"><path d="M6.5 8.5c7.5 0 7.5 7.5 13.5 7.5"/>
<path d="M6.5 23.5c7.5 0 7.5-7.5 13.5-7.5"/><path d="M6.5 16h19"/></g>
<circle cx="21" cy="21" r="11" fill="#b3261e"/>
<text x="21" y="26" fill="#fff" font-family="sans-serif" font-size="${digits.length > 1 ? 12 : 15}" font-weight="700"
text-anchor="middle">${digits}</text></svg>`)}`;
}

function showIcon() {
  const href = count ? badge() : plain;
  if (icon.href !== href) icon.href = href;
}

function show() {
  showBeside();
  showTitle();
  showIcon();
}

openChannel("inbox", {
  shown: () => ({ version: listed()?.dataset.version ?? "" }),
  take(message) {
    count = message.count;
    isTold = true;
    show();
    emit(INBOX_CHANGED, message);
  },
});

onSwapped(() => {
  if (!isTold) count = Number(link()?.querySelector("[data-count]")?.dataset.count ?? count);
  show();
});

listen(ROOM_GONE, ({ reason }) => {
  if (reason !== "signed-out") return;
  count = 0;
  show();
});

show();
