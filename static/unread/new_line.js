/* The line "New since you were here", above the first turn that came while its reader was away: since their last
   visit on any device, or while this tab was hidden. */
import { element } from "../base/dom.js";
import { gettext } from "../base/i18n.js";

const room = document.getElementById("room");
const turns = document.getElementById("turns");

function putAbove(turn) {
  turns.querySelector(".new-line")?.remove();
  // In the turn: the list of turns has nothing else in it.
  turn?.prepend(element("p", { className: "new-line" }, element("span", {}, gettext("New since you were here"))));
}

let last = null;

document.addEventListener("visibilitychange", () => {
  if (document.hidden) last = turns.lastElementChild;
  else if (last?.isConnected && last.nextElementSibling) putAbove(last.nextElementSibling);
});

if (room.dataset.newFrom) putAbove(document.getElementById(`m${room.dataset.newFrom}`));
