/* The right panel: pages about the room, shown beside it, one at a time. Without this script, and
   with Ctrl or the middle button, the same links open them as pages of their own. */
(() => {
  "use strict";

  const panel = document.getElementById("panel");
  const body = document.getElementById("panel-body");
  const edge = panel.querySelector(".panel-edge");
  // As in the style sheet: below this it lies over everything else.
  const narrow = matchMedia("(width < 64rem)");
  const WIDTHS = { least: 25, usual: 45, most: 65, step: 2 };

  let opener = null;
  let wanted = "";
  let place = "";
  let isTab = false;

  const isOpen = () => !panel.hidden;

  /* --- opening: any link with data-panel --- */

  function load(address) {
    const [page, hash] = address.split("#");
    wanted = page;
    place = hash ?? "";
    body.setAttribute("aria-busy", "true");
    htmx.ajax("GET", wanted, { source: "#panel", target: "#panel-body", swap: "innerHTML" });
  }

  function open(address, link) {
    // A link inside the panel goes from one page of it to another.
    if (!panel.contains(link)) opener = link;
    isTab = Boolean(link.closest(".tabs"));
    if (!isOpen()) {
      panel.hidden = false;
      history.pushState({ panel: true }, "");
      layOver();
    }
    load(address);
  }

  document.addEventListener("click", event => {
    const link = event.target.closest?.("a[data-panel]");
    const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    if (!link || !isPlain || event.defaultPrevented) return;
    event.preventDefault();
    open(link.href, link);
  });

  document.addEventListener("htmx:config:request", event => {
    if (event.detail.ctx.sourceElement === panel) event.detail.ctx.request.headers["X-Panel"] = "1";
  });

  document.addEventListener("htmx:before:swap", event => {
    const { ctx } = event.detail;
    // Closed, or another page was asked for meanwhile.
    if (ctx.sourceElement === panel && !isWanted(ctx)) event.preventDefault();
  });

  document.addEventListener("htmx:after:swap", event => {
    if (event.detail.ctx.sourceElement !== panel) return;
    body.removeAttribute("aria-busy");
    body.scrollTop = 0;
    // From tab to tab by keyboard: the focus stays where it is.
    const tab = isTab && body.querySelector(".tabs [aria-current]");
    (tab || document.getElementById("panel-title"))?.focus({ preventScroll: true });
    if (place) body.querySelector(`#${CSS.escape(place)}`)?.scrollIntoView();
    panel.dispatchEvent(new CustomEvent("panel:shown", { bubbles: true, detail: { address: wanted } }));
  });

  const isWanted = ctx => ctx?.sourceElement === panel && isOpen() && new URL(ctx.request.action, location.href).href === wanted;

  document.addEventListener("htmx:response:error", event => {
    if (isWanted(event.detail.ctx)) close();
  });

  // No answer at all: nobody waits beside a panel that stays empty.
  document.addEventListener("htmx:error", event => {
    if (!isWanted(event.detail.ctx)) return;
    close();
    const text = "The server cannot be reached. Try again in a moment.";
    document.dispatchEvent(new CustomEvent("tributary:notice", { detail: { text } }));
  });

  /* --- closing --- */

  function hide() {
    if (!isOpen()) return;
    panel.hidden = true;
    wanted = "";
    body.replaceChildren();
    layOver();
    const back = opener?.isConnected ? opener : document.getElementById("text");
    back?.focus({ preventScroll: true });
    opener = null;
    panel.dispatchEvent(new CustomEvent("panel:closed", { bubbles: true }));
  }

  // Back, of the browser or of a phone, closes it as well.
  function close() {
    hide();
    if (history.state?.panel) history.back();
  }

  // A link to a turn of this room is read beside the panel, where there is room for both.
  let hash = location.hash;

  addEventListener("popstate", () => {
    const isElsewhere = location.hash !== hash;
    hash = location.hash;
    if (!isElsewhere || narrow.matches) hide();
  });

  document.addEventListener("click", event => {
    if (event.target.closest?.("[data-panel-close]")) close();
  });

  document.addEventListener("keydown", event => {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing || !isOpen()) return;
    if (document.querySelector("dialog[open], details.menu[open], [popover]:popover-open")) return;
    event.preventDefault();
    close();
  });

  // What is taken away from a reader is not read beside what they may not see any more.
  document.addEventListener("room:gone", hide);

  /* --- over everything else: nothing behind it is reached by keyboard --- */

  function layOver() {
    // A style sheet that asked for it (`:has`) would have the browser look anew at the whole page with
    // each word and each key.
    panel.parentElement.classList.toggle("has-panel", isOpen());
    const isOver = isOpen() && narrow.matches;
    for (const part of document.querySelectorAll(".app > .sidebar, .app > .centre")) part.inert = isOver;
  }

  narrow.addEventListener("change", layOver);

  /* --- width, in hundredths of the window --- */

  function widen(percent) {
    const width = Math.round(Math.min(WIDTHS.most, Math.max(WIDTHS.least, percent)));
    document.documentElement.style.setProperty("--panel", `${width}vw`);
    edge.setAttribute("aria-valuenow", String(width));
    return width;
  }

  function keep(width) {
    try { localStorage.setItem("panel-width", String(width)); } catch { /* It is as wide as usual next time. */ }
  }

  try { widen(Number(localStorage.getItem("panel-width")) || WIDTHS.usual); } catch { widen(WIDTHS.usual); }

  const widthAt = event => 100 * (getComputedStyle(panel).direction === "rtl" ? event.clientX : innerWidth - event.clientX) / innerWidth;

  edge.addEventListener("pointerdown", event => {
    event.preventDefault();
    edge.setPointerCapture(event.pointerId);
    edge.addEventListener("pointermove", move);
  });

  function move(event) { widen(widthAt(event)); }

  edge.addEventListener("lostpointercapture", event => {
    edge.removeEventListener("pointermove", move);
    keep(widen(widthAt(event)));
  });

  edge.addEventListener("keydown", event => {
    // With these, arrows are the browser's: back and forward.
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const now = Number(edge.getAttribute("aria-valuenow"));
    const width = { ArrowLeft: now + WIDTHS.step, ArrowRight: now - WIDTHS.step, Home: WIDTHS.least, End: WIDTHS.most }[event.key];
    if (width === undefined) return;
    event.preventDefault();
    keep(widen(width));
  });
})();
