/* Diagrams that are complete and come into view are drawn in a frame without an origin; what cannot be
   drawn stays its source and says why. */
import { contentPlaces, element, listen, matching, on, onAdded } from "../base/dom.js";
import { THEME_CHANGE } from "../base/events.js";
import { gettext, interpolate } from "../base/i18n.js";

const SELECTOR = "#turns :is(.closed, .words) .codeblock.diagram, .preview-text .codeblock.diagram";
const LEAST = 24;
const MOST = 2000;
const PATIENCE_MS = 20000;
const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
const heights = new Map();   // source → how high it was: drawn again, it moves nothing

const sourceOf = block => block.querySelector("pre").textContent;
const blockOf = frame => frame.closest(".codeblock");
const frames = () => [...document.querySelectorAll("iframe.drawing")];

function begin(block) {
  const frame = element("iframe", { className: "drawing", title: gettext("Diagram"), src: "/frames/diagram/" });
  frame.setAttribute("sandbox", "allow-scripts");
  setHeight(frame, heights.get(sourceOf(block)));
  block.querySelector("pre").before(frame);
  block.classList.add("is-drawn");
  const toggle = element("button", { type: "button", className: "code-tool source", ariaPressed: "false" }, gettext("Source"));
  block.querySelector(".code-tools").prepend(toggle);
  setTimeout(() => { if (frame.isConnected && !frame.dataset.height) fail(frame, gettext("it took too long")); }, PATIENCE_MS);
}

const setHeight = (frame, height) => { if (height) frame.style.height = `${height}px`; };

function send(frame) {
  // A frame without an origin has no address but this.
  frame.contentWindow.postMessage({ source: sourceOf(blockOf(frame)), isDark: isDark() }, "*");
}

function fail(frame, reason) {
  const block = blockOf(frame);
  frame.remove();
  block.querySelector(".code-tool.source")?.remove();
  block.classList.remove("is-drawn");
  const text = interpolate(gettext("Can’t draw this diagram: %(reason)s"), { reason });
  block.append(element("p", { className: "diagram-failure" }, text));
}

addEventListener("message", ({ source, data }) => {
  const frame = frames().find(each => each.contentWindow === source);
  if (!frame) return;
  if (data?.isReady === true) send(frame);
  else if (typeof data?.failure === "string") fail(frame, data.failure.slice(0, 200));
  else if (Number.isFinite(data?.height) && data.height > 0) {
    const height = Math.min(Math.max(Math.ceil(data.height), LEAST), MOST);
    frame.dataset.height = height;
    heights.set(sourceOf(blockOf(frame)), height);
    setHeight(frame, height);
  }
});

dark.addEventListener("change", () => frames().forEach(send));
listen(THEME_CHANGE, () => frames().forEach(send));

on("click", ".codeblock.diagram .source", button => {
  button.ariaPressed = String(button.closest(".codeblock").classList.toggle("shows-source"));
});
// Before they are seen: half a screen is about what is scrolled while one is drawn.
const sight = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    sight.unobserve(target);
    begin(target);
  }
}, { rootMargin: "50% 0px" });

onAdded(contentPlaces(), root => { for (const block of matching(root, SELECTOR)) sight.observe(block); });
