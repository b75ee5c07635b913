/* The words that were searched for, marked in the turn to which a hit leads. They are highlights of the
   browser (CSS Custom Highlight API): nothing on the page changes, and a browser without them marks none. */
import { announce } from "../base/dom.js";
import { ngettext } from "../base/i18n.js";

const NAME = "found";
// Of a longer text the beginning is looked through.
const MOST_CHARACTERS = 1_000_000;
// Slices of a long text that are loaded to find the words in it.
const MOST_SLICES = 8;
// What stands above may find its height only now: for so many frames the first mark is kept in sight.
const LEAD_FRAMES = 40;

const LETTER = "[\\p{L}\\p{N}]";
// Scripts without spaces between words, as in chat.search.tokens.
const UNSPACED = `[${["Han", "Hiragana", "Katakana", "Hangul", "Thai", "Lao", "Myanmar", "Khmer"].map(name => `\\p{scx=${name}}`).join("")}]`;
const SPACED = `(?:(?!${UNSPACED})${LETTER})`;
const BLOCKS = "p, li, td, th, h1, h2, h3, h4, h5, h6, pre, blockquote, summary, div";

/* Without case and accents, as the server compares. */
function folded(text) {
  if (/^[\x00-\x7f]*$/.test(text)) return text.toLowerCase();
  return text.normalize("NFKD").replace(/\p{M}+/gu, "").normalize("NFC").toLowerCase().replaceAll("ß", "ss");
}

/* A pattern for what was searched for: words that follow each other, the last one open with `*`. */
function patternOf(search) {
  const words = folded(search).match(new RegExp(`${LETTER}+`, "gu")) ?? [];
  const isPrefix = search.endsWith("*");
  return words.map((word, at) => {
    const pieces = word.match(new RegExp(`${UNSPACED}+|${SPACED}+`, "gu")) ?? [];
    return pieces.map((piece, within) => {
      if (new RegExp(UNSPACED, "u").test(piece)) return piece;
      const isOpen = isPrefix && at === words.length - 1 && within === pieces.length - 1;
      return `(?<!${SPACED})${piece}${isOpen ? `${SPACED}*` : `(?!${SPACED})`}`;
    }).join("");
  }).join(`[^\\p{L}\\p{N}]+`);
}

/* The text of a turn, folded, and for each of its characters the node and the place in it. */
function readText(turn) {
  const text = [];
  const nodes = [];
  const starts = [];
  const ends = [];
  let block = null;
  for (const part of turn.querySelectorAll(":scope > .turn-body, :scope > .runs")) {
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    while (walker.nextNode() && text.length < MOST_CHARACTERS) {
      const node = walker.currentNode;
      const around = node.parentElement.closest(BLOCKS);
      if (around !== block) add(" ", node, 0, 0);
      block = around;
      let at = 0;
      for (const character of node.data) {
        for (const each of folded(character)) add(each, node, at, at + character.length);
        at += character.length;
      }
    }
  }
  function add(character, node, start, end) {
    for (const unit of character.split("")) {
      text.push(unit);
      nodes.push(node);
      starts.push(start);
      ends.push(end);
    }
  }
  return { text: text.join(""), nodes, starts, ends };
}

function rangesIn(turn, pattern) {
  const { text, nodes, starts, ends } = readText(turn);
  return [...text.matchAll(pattern)].map(({ index, 0: found }) => {
    const last = index + found.length - 1;
    const range = document.createRange();
    range.setStart(nodes[index], starts[index]);
    range.setEnd(nodes[last], ends[last]);
    return range;
  });
}

/* --- what hides a mark --- */
function reveal(range, turn) {
  const node = range.startContainer.parentElement;
  for (let fold = node.closest("details"); fold && turn.contains(fold); fold = fold.parentElement.closest("details")) fold.open = true;
  const words = node.closest(".words")?.nextElementSibling;
  if (words?.matches(".words-fold")) words.open = true;
}

let aim = null;
for (const name of ["wheel", "touchmove", "pointerdown", "keydown"]) {
  addEventListener(name, () => { aim = null; }, { passive: true, capture: true });
}

function lead(range) {
  aim = range;
  let left = LEAD_FRAMES;
  requestAnimationFrame(function look() {
    if (aim !== range) return;
    const { top, bottom } = range.getBoundingClientRect();
    if (top < 80 || bottom > 0.6 * innerHeight) scrollBy({ top: top - innerHeight / 3, behavior: "instant" });
    left -= 1;
    if (left) requestAnimationFrame(look);
  });
}

/* --- one hit at a time --- */
let observer = null;

/* Marks `searches` in a turn of the page, and leads to the first of them. `kind` is that of the hit. */
function showHit(turn, searches, kind) {
  observer?.disconnect();
  CSS.highlights?.delete(NAME);
  const source = searches.map(patternOf).filter(Boolean).join("|");
  if (!CSS.highlights || !source) return;
  const pattern = new RegExp(source, "gu");
  let slices = kind === "answer" || kind === "reasoning" ? MOST_SLICES : 0;
  let hasLed = false;

  function mark() {
    const ranges = rangesIn(turn, pattern);
    CSS.highlights.set(NAME, new Highlight(...ranges));
    const first = ranges[0];
    if (!first) return loadMore();
    if (hasLed && aim === null) return;
    reveal(first, turn);
    lead(first);
    if (!hasLed) announce(ngettext("%(count)s match", "%(count)s matches", ranges.length), { about: "found" });
    hasLed = true;
  }

  function loadMore() {
    const button = turn.querySelector(".rest > .later:not([aria-busy])");
    if (!button || !slices) return;
    slices -= 1;
    button.click();
  }

  if (kind === "reasoning") for (const fold of turn.querySelectorAll("details.reasoning")) fold.open = true;
  let isAsked = false;
  observer = new MutationObserver(() => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => { isAsked = false; mark(); });
  });
  observer.observe(turn, { childList: true, subtree: true });
  mark();
}

/* What the address of a hit says. */
export function showHitOf(address) {
  const turn = document.getElementById(address.hash.slice(1))?.closest(".turn");
  const searches = address.searchParams.getAll("mark");
  if (turn && searches.length) showHit(turn, searches, address.searchParams.get("kind"));
  return turn !== undefined && turn !== null;
}

showHitOf(new URL(location.href));
