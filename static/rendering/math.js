/* Draws formulas: KaTeX is loaded when the first one is on the page, each is drawn once, and what cannot
   be drawn stays its source. */
import { contentPlaces, matching, onTouched } from "../base/dom.js";

// One frame's worth; the rest of a long page follows in the next ones.
const BUDGET_MS = 12;
const MAX_DRAWN = 300;
const AGAIN_MS = 30000;
const MARKS = /^(?:\$\$?|\\[([])|(?:\$\$?|\\[)\]])$/g;
// No command that loads, links or names anything; a macro that explodes ends; no rule as wide as the page.
const OPTIONS = { throwOnError: true, trust: refuse, maxExpand: 300, maxSize: 20, strict: code => code === "htmlExtension" ? "error" : "ignore" };

function refuse({ command }) {
  throw new katex.ParseError(`${command} is not drawn`);
}

const shown = new WeakMap();  // element → the source that was tried, and whether it could be drawn
const drawn = new Map();      // source → what was drawn for it
const waiting = new Set();
let isAsked = false;
let isLoaded = false;
let loading = null;
// In the view of token probabilities, formulas stay as they were written.
const MATH = ".math:not(.heat-text *)";

/* --- drawing --- */
// Attributes that the page's policy would refuse; the same is said by classes and properties elsewhere.
function withoutStyle(node) {
  if (node.attributes) delete node.attributes.style;
  for (const child of node.children ?? []) withoutStyle(child);
  return node;
}

function picture(source, displayMode) {
  const key = `${displayMode}${source}`;
  if (!drawn.has(key)) {
    const tree = katex.__renderToDomTree(source.replace(MARKS, ""), { ...OPTIONS, displayMode });
    if (drawn.size >= MAX_DRAWN) drawn.delete(drawn.keys().next().value);
    drawn.set(key, withoutStyle(tree).toNode());
  }
  return drawn.get(key).cloneNode(true);
}

function draw(element) {
  const source = element.textContent;
  const state = { source, isDrawn: false };
  shown.set(element, state);
  try {
    element.replaceChildren(picture(source, element.classList.contains("display")));
    state.isDrawn = true;
  } catch (error) {
    if (!(error instanceof katex.ParseError) && !(error instanceof RangeError)) throw error;
  }
}

function drawSome() {
  const end = performance.now() + BUDGET_MS;
  for (const element of waiting) {
    waiting.delete(element);
    if (element.isConnected && !isShown(element)) draw(element);
    if (performance.now() > end) break;
  }
  isAsked = waiting.size > 0;
  if (isAsked) requestAnimationFrame(drawSome);
}

/* --- loading: a style sheet and a classic script, which the page names in a template --- */
async function load() {
  const parts = [...document.getElementById("katex").content.cloneNode(true).children];
  const isThere = part => new Promise((resolve, reject) => { part.onload = resolve; part.onerror = reject; });
  const loaded = Promise.all(parts.map(isThere));
  document.head.append(...parts);
  try {
    await loaded;
    isLoaded = true;
    drawSome();
  } catch {
    // What a network or a filter refuses is asked for once more after a while, not with each new word.
    parts.forEach(part => part.remove());
    setTimeout(() => { loading = null; ask(); }, AGAIN_MS);
  }
}

/* --- which there are --- */
// The growing end is rendered again and again, which puts text where something was drawn.
function isShown(element) {
  const state = shown.get(element);
  return state !== undefined && (state.isDrawn ? element.firstElementChild !== null : element.textContent === state.source);
}

function ask() {
  if (!waiting.size) return;
  loading ??= load();
  // Before the next paint, where all is at hand: a formula that moved from one block to another does not blink.
  if (isLoaded && !isAsked) drawSome();
}

function lookAt(elements) {
  for (const element of elements) {
    if (element.closest("#turns, .preview-text") && !isShown(element)) waiting.add(element);
  }
  ask();
}

for (const place of contentPlaces()) {
  onTouched(place, MATH, lookAt);
  lookAt(matching(place, MATH));
}
