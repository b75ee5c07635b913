/* The state of the sidebar, which may stand beside the page: remembered, and known before anything is drawn.
   On a phone it is a drawer, which needs no script. */
(() => {
  "use strict";

  const STORED = "sidebar";
  const root = document.documentElement;
  // As in the style sheet.
  const narrow = matchMedia("(width < 48rem)");

  function show(isShown) {
    if (isShown) delete root.dataset.sidebar;
    else root.dataset.sidebar = "hidden";
  }

  function toggle() {
    const sidebar = document.getElementById("sidebar");
    if (!sidebar) return;
    if (narrow.matches) return sidebar.togglePopover();
    const isShown = root.dataset.sidebar === "hidden";
    const hadFocus = sidebar.contains(document.activeElement) || document.activeElement?.matches("[data-sidebar-open]");
    show(isShown);
    // The button that was pressed is not there any more: its counterpart takes its place.
    if (hadFocus) document.querySelector(isShown ? "[data-sidebar-toggle]" : "[data-sidebar-open]")?.focus();
    try { localStorage.setItem(STORED, isShown ? "shown" : "hidden"); } catch { /* It is there next time. */ }
  }

  try { show(localStorage.getItem(STORED) !== "hidden"); } catch { show(true); }

  document.addEventListener("sidebar:toggle", toggle);
  document.addEventListener("click", event => {
    const button = event.target.closest?.("[data-sidebar-toggle], [data-sidebar-open]");
    if (!button || narrow.matches) return;
    // Not as a drawer.
    event.preventDefault();
    toggle();
  });
})();
