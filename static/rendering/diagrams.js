/* Diagrams that are closed and come into view are drawn in a frame without an origin; what cannot be
   drawn stays its source and says why. */
(() => {
  "use strict";

  // The room, what stands beside it, and an artifact on a page of its own.
  const places = ["turns", "panel-body", "preview"].map(id => document.getElementById(id)).filter(Boolean);
  const SELECTOR = "#turns .closed .codeblock.diagram, .preview-text .codeblock.diagram";
  const LEAST = 24;
  const MOST = 2000;
  const PATIENCE_MS = 20000;

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const blocks = new WeakMap();   // frame → its code block
  const heights = new Map();      // source → how high it was: drawn again, it moves nothing

  const sourceOf = block => block.querySelector("pre").textContent;
  const frames = () => [...document.querySelectorAll("iframe.drawing")];

  /* --- one diagram --- */

  function begin(block) {
    const frame = document.createElement("iframe");
    frame.className = "drawing";
    frame.title = "Diagram";
    frame.setAttribute("sandbox", "allow-scripts");
    frame.src = "/frames/diagram/";
    setHeight(frame, heights.get(sourceOf(block)));
    blocks.set(frame, block);
    block.querySelector("pre").before(frame);
    block.classList.add("is-drawn");
    block.querySelector(".code-tools").prepend(toggle());
    setTimeout(() => { if (frame.isConnected && !frame.dataset.height) fail(frame, "it took too long"); }, PATIENCE_MS);
  }

  function toggle() {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "code-tool source";
    button.textContent = "Source";
    button.setAttribute("aria-pressed", "false");
    return button;
  }

  function setHeight(frame, height) {
    if (height) frame.style.height = `${height}px`;
  }

  function send(frame) {
    // A frame without an origin has no address but this.
    frame.contentWindow.postMessage({ source: sourceOf(blocks.get(frame)), isDark: dark.matches }, "*");
  }

  function fail(frame, why) {
    const block = blocks.get(frame);
    const line = document.createElement("p");
    line.className = "diagram-failure";
    line.textContent = `The diagram cannot be drawn: ${why}`;
    frame.remove();
    block.querySelector(".code-tool.source")?.remove();
    block.classList.remove("is-drawn");
    block.append(line);
  }

  addEventListener("message", ({ source, data }) => {
    const frame = frames().find(each => each.contentWindow === source);
    if (!frame || !blocks.has(frame)) return;
    if (data?.isReady === true) send(frame);
    else if (typeof data?.failure === "string") fail(frame, data.failure.slice(0, 200));
    else if (Number.isFinite(data?.height) && data.height > 0) {
      const height = Math.min(Math.max(Math.ceil(data.height), LEAST), MOST);
      frame.dataset.height = height;
      heights.set(sourceOf(blocks.get(frame)), height);
      setHeight(frame, height);
    }
  });

  dark.addEventListener("change", () => { for (const frame of frames()) send(frame); });

  document.addEventListener("click", event => {
    const button = event.target.closest?.(".codeblock.diagram .source");
    if (!button) return;
    const isSource = button.closest(".codeblock").classList.toggle("shows-source");
    button.setAttribute("aria-pressed", String(isSource));
  });

  /* --- which there are --- */

  // Before they are seen: half a screen is about what is scrolled while one is drawn.
  const sight = new IntersectionObserver(entries => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      sight.unobserve(target);
      begin(target);
    }
  }, { rootMargin: "50% 0px" });

  function find(root) {
    if (root.matches?.(SELECTOR)) sight.observe(root);
    for (const block of root.querySelectorAll?.(SELECTOR) ?? []) sight.observe(block);
  }

  const arrivals = new MutationObserver(records => {
    for (const { addedNodes } of records) for (const node of addedNodes) find(node);
  });
  for (const place of places) {
    arrivals.observe(place, { childList: true, subtree: true });
    find(place);
  }
})();
