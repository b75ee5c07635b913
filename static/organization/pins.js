/* Dragging a conversation onto the pinned ones of the sidebar pins it there, or moves its pin. As long as
   nothing is pinned, there is a place to drop it on while it is dragged. The menu of its line does the same. */
import { emit, listen, on } from "../base/dom.js";
import { AFTER_SWAP, ROOM_CHANGED } from "../base/events.js";

const list = document.getElementById("conversations");
const room = document.getElementById("room");
let dragged = null;
const pinned = () => list.querySelector("[data-pinned]");
const lines = () => [...pinned().querySelectorAll("li")].filter(line => line !== dragged);

function placeAt(y) {
  const at = lines().findIndex(line => {
    const { top, height } = line.getBoundingClientRect();
    return y < top + height / 2;
  });
  return at < 0 ? lines().length : at;
}

function mark(place) {
  const others = lines();
  for (const line of others) line.classList.remove("drop-before", "drop-after");
  pinned().classList.toggle("drop-into", place !== null && others.length === 0);
  if (place === null) return;
  if (place < others.length) others[place].classList.add("drop-before");
  else others.at(-1)?.classList.add("drop-after");
}

on("dragstart", "#conversations [data-room]", link => {
  dragged = link.closest("li");
  // Browsers end a drag at once if the page changes while it starts.
  setTimeout(() => list.classList.toggle("is-dragging", dragged !== null));
});

on("dragover", "#conversations [data-pinned]", (_, event) => {
  if (!dragged) return;
  event.preventDefault();
  mark(placeAt(event.clientY));
});

on("dragleave", "#conversations [data-pinned]", (place, event) => {
  if (!place.contains(event.relatedTarget)) mark(null);
});

on("drop", "#conversations [data-pinned]", (place, event) => {
  if (!dragged) return;
  event.preventDefault();
  const values = { conversation: dragged.querySelector("[data-room]").dataset.room, place: placeAt(event.clientY) };
  // Where it was dropped, at once; the list follows.
  if (lines().length) place.insertBefore(dragged, lines()[values.place] ?? null);
  htmx.ajax("POST", list.dataset.pin, { source: list, swap: "none", values });
});

on("dragend", "#conversations [data-room]", () => {
  if (pinned()) mark(null);
  dragged = null;
  list.classList.remove("is-dragging");
});

/* The menu in the heading pins or unpins: the page asks for it again when the list says otherwise than before,
   whether that was done here, in the list or on another device. */
const isPinned = () => pinned()?.querySelector(`[data-room="${room.dataset.room}"]`) != null;
let wasPinned = room && isPinned();

listen(AFTER_SWAP, (_, { target }) => {
  if (!room || target !== list || isPinned() === wasPinned) return;
  wasPinned = isPinned();
  emit(ROOM_CHANGED, {});
});
