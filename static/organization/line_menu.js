/* The menu of a line in the sidebar: fetched when it is opened, and shown beside its button. */
import { isPlainClick, listen, on } from "../base/dom.js";
import { BEFORE_REQUEST } from "../base/events.js";

const menu = document.getElementById("line-menu");
const MARGIN = 8;
const REOPEN_MS = 300;
let opened = null;
let closedAt = -REOPEN_MS;

function putBeside(link) {
  const { left, right, top, bottom } = link.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = menu;
  const isRightToLeft = document.documentElement.dir === "rtl";
  const x = isRightToLeft ? right - width : left;
  const y = bottom + height + MARGIN > innerHeight ? top - height : bottom;
  menu.style.left = `${Math.max(MARGIN, Math.min(x, innerWidth - width - MARGIN))}px`;
  menu.style.top = `${Math.max(MARGIN, Math.min(y, innerHeight - height - MARGIN))}px`;
}

on("click", ".line-more", async (link, event) => {
  if (!isPlainClick(event)) return;
  event.preventDefault();
  // The press has closed the menu already: it was open here.
  if (event.detail > 0 && opened === link && performance.now() - closedAt < REOPEN_MS) return;
  await htmx.ajax("GET", link.href, { source: link, target: menu, swap: "innerHTML" });
  if (!link.isConnected || !menu.firstElementChild) return;
  opened = link;
  menu.showPopover();
  putBeside(link);
  menu.querySelector(".menu-item")?.focus();
});

on("keydown", ".line-more", (link, event) => {
  // It is announced as a button.
  if (event.key !== " ") return;
  event.preventDefault();
  link.click();
});

menu.addEventListener("toggle", ({ newState }) => {
  if (newState !== "closed") return;
  closedAt = performance.now();
  if (opened.isConnected || document.activeElement !== document.body) return;
  // The list has been replaced while the menu was open.
  document.querySelector(`.line-more[href="${opened.getAttribute("href")}"]`)?.focus();
});

menu.addEventListener("keydown", event => {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by || event.target.matches("input")) return;
  event.preventDefault();
  const items = [...menu.querySelectorAll(".menu-item")];
  items.at((items.indexOf(document.activeElement) + by) % items.length).focus();
});

// Before the list changes: the focus goes back to the button, and the list keeps it there.
listen(BEFORE_REQUEST, ({ ctx }) => {
  if (menu.contains(ctx.sourceElement) && menu.matches(":popover-open")) menu.hidePopover();
});
