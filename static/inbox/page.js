/* The lists of an open inbox. Questions stay while somebody answers one of them. */
import { listen } from "../base/dom.js";
import { INBOX_CHANGED } from "../base/events.js";

const page = document.getElementById("inbox-page");
const shownVersion = () => page.querySelector("#inbox-entries [data-version]").dataset.version;
const isAnswering = () => page.querySelector("#inbox-questions :is(details[open], :focus)") !== null;

listen(INBOX_CHANGED, async ({ version }) => {
  if (version === shownVersion()) return;
  const address = new URL(page.dataset.inboxLists, location.origin);
  if (isAnswering()) address.searchParams.set("keep", "1");
  // An entry that has the keyboard focus keeps it in the new list.
  const focused = document.activeElement?.dataset.entry;
  await htmx.ajax("GET", `${address.pathname}${address.search}`, { source: page, swap: "none" });
  if (focused) page.querySelector(`[data-entry="${focused}"]`)?.focus();
});
