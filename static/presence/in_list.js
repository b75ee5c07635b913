/* The conversations of the list in which somebody else is now. */
import { element, listen, onSwapped } from "../base/dom.js";
import { LIST_PATCHED } from "../base/events.js";
import { ngettext } from "../base/i18n.js";
import { openChannel } from "../live/channels.js";

const list = document.getElementById("conversations");
let here = {};

function show(link, count) {
  const mark = link.querySelector(".here-mark");
  if (Number(mark?.dataset.count ?? 0) === count) return;
  mark?.remove();
  if (!count) return;
  const text = ngettext("%(count)s person is here", "%(count)s people are here", count);
  const made = element("span", { className: "here-mark", title: text }, element("span", { className: "visually-hidden" }, `, ${text}`));
  made.dataset.count = String(count);
  link.querySelector(".truncate").after(made);
}

function showAll() {
  for (const link of list.querySelectorAll("a[data-room]")) show(link, here[link.dataset.room] ?? 0);
}

openChannel("list-presence", {
  take(message) {
    here = message.here;
    showAll();
  },
});

onSwapped(showAll);
listen(LIST_PATCHED, showAll);
