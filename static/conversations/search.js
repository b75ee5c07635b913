/* Finding a conversation by its title: Ctrl K leads to the field, arrows through what was found,
   Enter opens, Escape leads back. Without this script the field leads to a page of what was found. */
(() => {
  "use strict";

  const form = document.getElementById("find");
  if (!form) return;
  const field = form.elements.q;
  const found = document.getElementById("found");
  const list = document.getElementById("conversations");

  // Where Ctrl K was pressed, and whether the sidebar came only for it.
  let cameFrom = null;
  let isSidebarOurs = false;

  const links = () => [...found.querySelectorAll("a")];
  const query = () => field.value.trim();

  function show() {
    const isSearching = query() !== "";
    found.hidden = !isSearching;
    list.hidden = isSearching;
    if (!isSearching) found.replaceChildren();
  }

  function putSidebarBack() {
    if (isSidebarOurs && field.checkVisibility()) document.dispatchEvent(new Event("sidebar:toggle"));
    isSidebarOurs = false;
  }

  document.addEventListener("search:open", () => {
    const { activeElement } = document;
    if (!form.contains(activeElement) && !found.contains(activeElement)) cameFrom = activeElement;
    if (!field.checkVisibility()) {
      document.dispatchEvent(new Event("sidebar:toggle"));
      isSidebarOurs = true;
    }
    field.focus();
    field.select();
  });

  function leave() {
    field.value = "";
    show();
    if (!cameFrom) return field.focus();
    const back = cameFrom.isConnected ? cameFrom : document.getElementById("text");
    cameFrom = null;
    putSidebarBack();
    document.activeElement.blur();
    back?.focus({ preventScroll: true });
  }

  function step(by) {
    const all = links();
    const at = all.indexOf(document.activeElement) + by;
    if (at < 0) field.focus();
    else all[at]?.focus();
  }

  // What was found for these words; for others the form leads to the page of what is found.
  function openFirst() {
    const shown = found.querySelector("[data-query]");
    if (shown?.dataset.query !== query()) return false;
    links()[0]?.click();
    return true;
  }

  const KEYS = {
    Escape: () => (query() || cameFrom ? (leave(), true) : false),
    ArrowDown: () => (step(1), true),
    ArrowUp: () => (step(-1), true),
    Enter: event => event.target === field && (query() === "" || openFirst()),
  };

  function onKey(event) {
    if (event.isComposing || event.keyCode === 229 || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (KEYS[event.key]?.(event)) event.preventDefault();
  }

  for (const place of [form, found]) place.addEventListener("keydown", onKey);
  found.addEventListener("click", event => { if (event.target.closest("a")) putSidebarBack(); });
  field.addEventListener("input", show);
  // Whoever goes elsewhere by themselves is not led back.
  document.addEventListener("focusin", event => {
    if (!form.contains(event.target) && !found.contains(event.target)) cameFrom = null;
  });

  // Of a room that was taken away nothing is left, titles of others neither.
  document.addEventListener("room:gone", () => {
    field.value = "";
    show();
  });

  document.addEventListener("list:lost", () => {
    if (query()) htmx.ajax("GET", `${form.action}?${new URLSearchParams({ q: field.value })}`, { source: field, target: found, swap: "innerHTML" });
  });

  document.addEventListener("htmx:before:swap", event => {
    const { ctx } = event.detail;
    // Words that were taken back meanwhile.
    if (ctx.sourceElement === field && query() === "") event.preventDefault();
  });

  document.addEventListener("htmx:after:swap", event => {
    if (event.detail.ctx?.sourceElement !== field) return;
    show();
    const text = found.querySelector("[data-said]")?.dataset.said;
    if (text) document.dispatchEvent(new CustomEvent("tributary:announce", { detail: { text, about: "found" } }));
  });
})();
