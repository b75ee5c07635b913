/* Moving conversations to a project: a dialog in which the server first shows the projects, then asks
   where somebody gains or loses access. Dragging a line onto a project begins with the second. */
import { isPlainClick, listen, on } from "../base/dom.js";
import { LIST_STALE } from "../base/events.js";

const dialog = document.getElementById("move");
const body = document.getElementById("move-body");
const list = document.getElementById("conversations");
const address = list.dataset.moveTo;
let dragged = null;

/* With what the server asks; after a move without a question there is nothing to show. */
async function show(method, values) {
  body.replaceChildren();
  await htmx.ajax(method, address, { source: list, target: body, swap: "innerHTML", values });
  if (!body.firstElementChild || dialog.open) return;
  dialog.showModal();
  (body.querySelector("[data-move-search], [autofocus]") ?? body.querySelector(".menu-item, .button"))?.focus();
}

function closeMenu(link) {
  const menu = link.closest("details.menu");
  if (menu) menu.open = false;
  menu?.querySelector("summary").focus();
  const popover = link.closest("[popover]");
  if (popover) popover.hidePopover();
}

on("click", "a[data-move]", (link, event) => {
  if (!isPlainClick(event)) return;
  event.preventDefault();
  closeMenu(link);
  show("GET", { conversation: link.dataset.move });
});

on("click", "button[data-move]", (button, event) => {
  event.preventDefault();
  const chosen = new FormData(button.form).getAll("conversation");
  if (chosen.length) show("GET", { conversation: chosen });
});

on("click", "[data-move-cancel]", () => dialog.close());
listen(LIST_STALE, () => { if (dialog.open) dialog.close(); });
dialog.addEventListener("close", () => body.replaceChildren());
// Beside the dialog, on its backdrop.
dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });

on("input", "[data-move-search]", ({ value, form }) => {
  const words = value.toLowerCase().split(/\s+/).filter(Boolean);
  const projects = [...form.querySelectorAll("[data-name]")];
  for (const project of projects) {
    project.hidden = !words.every(word => project.dataset.name.toLowerCase().includes(word));
  }
  form.querySelector("[data-move-none]").hidden = projects.some(project => !project.hidden);
});

on("keydown", "#move .menu-item, #move [data-move-search]", (item, event) => {
  const items = [...body.querySelectorAll(".menu-item")].filter(each => !each.hidden);
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Enter" && !item.matches(".menu-item")) {
    event.preventDefault();
    items[0]?.click();
  } else if (by && items.length) {
    event.preventDefault();
    const at = items.indexOf(item);
    items.at(at < 0 && by < 0 ? -1 : (at + by) % items.length).focus();
  }
});

/* --- dragging --- */
const mark = project => {
  for (const each of list.querySelectorAll(".drop-into")) each.classList.remove("drop-into");
  project?.classList.add("drop-into");
};
const isHome = project => project.contains(dragged);

on("dragstart", "#conversations [data-room]", link => { dragged = link; });
on("dragover", "#conversations [data-takes]", (project, event) => {
  if (!dragged || isHome(project)) return;
  event.preventDefault();
  mark(project);
});
on("dragleave", "#conversations [data-takes]", (project, event) => {
  if (!project.contains(event.relatedTarget)) mark(null);
});
on("drop", "#conversations [data-takes]", (project, event) => {
  if (!dragged || isHome(project)) return;
  event.preventDefault();
  show("POST", { conversation: dragged.dataset.room, project: project.dataset.project });
});
on("dragend", "#conversations [data-room]", () => {
  mark(null);
  dragged = null;
});
