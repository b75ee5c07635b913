/* What can be undone is offered for ten seconds, wherever the page is scrolled to; not counted while it
   is pointed at or has the focus. Later it is still in the trash or in the archive. */
import { announce, listen, onAdded, matching } from "../base/dom.js";
import { BEFORE_SWAP } from "../base/events.js";

const SHOWN_MS = 10000;
const toasts = document.getElementById("toasts");
const isWanted = notice => notice.matches(":hover, :focus-within");

function show(notice) {
  delete notice.dataset.undo;
  if (notice.parentElement !== toasts) toasts.append(notice);
  for (const older of toasts.querySelectorAll(".undo")) if (older !== notice) older.remove();
  announce(notice.querySelector("p").textContent);
  let timer = setTimeout(end, SHOWN_MS);
  function end() { notice.remove(); }
  const again = () => {
    clearTimeout(timer);
    if (!isWanted(notice)) timer = setTimeout(end, SHOWN_MS);
  };
  for (const name of ["pointerenter", "pointerleave", "focusin", "focusout"]) {
    notice.addEventListener(name, () => setTimeout(again));
  }
}

onAdded([document.getElementById("notices"), toasts].filter(Boolean), root => {
  for (const notice of matching(root, "[data-undo]")) show(notice);
});

// It is done, or cannot be done any more.
listen(BEFORE_SWAP, ({ ctx }) => ctx.sourceElement?.closest?.(".undo")?.remove());
