/* Sharing: who may read the conversation, in a dialog. Without this script, and with Ctrl or the middle button,
   the same links open it as a page. */
import { isPlainClick, listen, notify, on } from "../base/dom.js";
import { REQUEST_ERROR, ROOM_GONE } from "../base/events.js";
import { unreachable } from "../base/network.js";

const dialog = document.getElementById("share");
const body = document.getElementById("sharing");
let opener = null;

// What the focus returns to: an entry of a menu is hidden when its menu closes.
function visibleOpener(link) {
  const menu = link.closest("details.menu");
  if (!menu) return link;
  menu.open = false;
  return menu.querySelector("summary");
}

on("click", "[data-share]", async (link, event) => {
  if (!isPlainClick(event)) return;
  event.preventDefault();
  opener = visibleOpener(link);
  await htmx.ajax("GET", link.href, { source: dialog, target: body, swap: "innerHTML" });
  // Not after an error.
  if (body.querySelector(".people")) dialog.showModal();
  else body.replaceChildren();
});

dialog.addEventListener("close", () => {
  body.replaceChildren();
  // A change of who reads it has replaced the head of the conversation.
  const back = opener?.isConnected ? opener : document.getElementById("to-people");
  back?.focus({ preventScroll: true });
  opener = null;
});
// Beside the dialog, on its backdrop.
dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
listen(REQUEST_ERROR, ({ ctx }) => { if (ctx.sourceElement === dialog) notify(unreachable(), { isLost: true }); });
// Nobody reads on who has lost access.
listen(ROOM_GONE, () => dialog.close());
