/* Passages of the text that a page shows: a quotation, what is around it, and its place. White space does not count,
   so that a passage is found again wherever the page breaks lines, and however it divides text into elements. */

const CONTEXT = 32;
// As the server takes it (chat/comments/forms.py).
const MOST_QUOTED = 2000;
// The rest is white space.
const MOST_TEXT = 1600;
// A quotation of this length is recognized without what was around it.
const DISTINCT = 16;
// Looked at in a text that repeats itself.
const MOST_MATCHES = 2000;
// Tools of the page and drawings, which are there or not.
const NO_TEXT = "button, summary .icon, svg, .math, .visually-hidden";
const BLOCKS = "p, li, td, th, h1, h2, h3, h4, h5, h6, pre, blockquote, summary, div";

const dense = text => text.replace(/\s+/g, "");

/* --- texts --- */

function commonEnd(one, other) {
  let length = 0;
  while (length < Math.min(one.length, other.length) && one.at(-1 - length) === other.at(-1 - length)) length += 1;
  return length;
}

function commonStart(one, other) {
  let length = 0;
  while (length < Math.min(one.length, other.length) && one[length] === other[length]) length += 1;
  return length;
}

/* The anchor of `text.slice(start, end)`, in a text without white space. */
function describe(text, start, end) {
  return {
    quote: text.slice(start, end),
    prefix: text.slice(Math.max(start - CONTEXT, 0), start),
    suffix: text.slice(end, end + CONTEXT),
    start,
  };
}

/* Where the passage of an anchor is in a text without white space, as `[start, end]`, or null: of several the one with
   the same text around it, and of these the nearest to where it was. */
function locate(text, anchor) {
  const quote = dense(anchor.quote);
  if (!quote) return null;
  const [prefix, suffix] = [dense(anchor.prefix), dense(anchor.suffix)];
  let best = null;
  let found = text.indexOf(quote);
  for (let count = 0; found >= 0 && count < MOST_MATCHES; count += 1) {
    const end = found + quote.length;
    const around = commonEnd(text.slice(Math.max(found - CONTEXT, 0), found), prefix)
      + commonStart(text.slice(end, end + CONTEXT), suffix);
    const distance = Math.abs(found - anchor.start);
    if (!best || around > best.around || (around === best.around && distance < best.distance)) {
      best = { place: [found, end], around, distance };
    }
    found = text.indexOf(quote, found + 1);
  }
  const isSame = best && (quote.length >= DISTINCT || 2 * best.around >= prefix.length + suffix.length);
  return isSame ? best.place : null;
}

/* --- elements --- */

/* The text of an element without white space, with its nodes and where each begins. */
function read(part) {
  const pieces = [];
  const nodes = [];
  const starts = [];
  let length = 0;
  const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.parentElement.closest(NO_TEXT)) continue;
    const piece = dense(node.data);
    if (!piece) continue;
    pieces.push(piece);
    nodes.push(node);
    starts.push(length);
    length += piece.length;
  }
  return { text: pieces.join(""), nodes, starts, length };
}

function nodeAt(starts, place) {
  let [low, high] = [0, starts.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (starts[middle] <= place) low = middle;
    else high = middle - 1;
  }
  return low;
}

// The place in a node before its character with this number, white space not counted.
function offsetOf(node, number) {
  let count = 0;
  for (let at = 0; at < node.data.length; at += 1) {
    if (/\s/.test(node.data[at])) continue;
    if (count === number) return at;
    count += 1;
  }
  return node.data.length;
}

/* The ranges of anchors in an element, each or null. */
export function rangesOf(part, anchors) {
  const shown = read(part);
  return anchors.map(anchor => rangeIn(shown, anchor));
}

export const rangeOf = (part, anchor) => rangesOf(part, [anchor])[0];

function rangeIn({ text, nodes, starts }, anchor) {
  const place = locate(text, anchor);
  if (!place) return null;
  const [first, last] = [nodeAt(starts, place[0]), nodeAt(starts, place[1] - 1)];
  const range = document.createRange();
  range.setStart(nodes[first], offsetOf(nodes[first], place[0] - starts[first]));
  range.setEnd(nodes[last], offsetOf(nodes[last], place[1] - 1 - starts[last]) + 1);
  return range;
}

// Characters of the text before a point.
function countBefore({ nodes, starts, length }, container, offset) {
  const point = document.createRange();
  point.setStart(container, offset);
  for (const [number, node] of nodes.entries()) {
    if (node === container) return starts[number] + dense(node.data.slice(0, offset)).length;
    if (point.comparePoint(node, 0) >= 0) return starts[number];
  }
  return length;
}

/* As people read it: words that stand in different blocks do not run into each other. */
function inWords({ text, nodes, starts }, start, end) {
  let words = "";
  let block = null;
  for (let at = nodeAt(starts, start); at < nodes.length && starts[at] < end; at += 1) {
    const node = nodes[at];
    const around = node.parentElement.closest(BLOCKS);
    if (words && around !== block) words += " ";
    block = around;
    const from = starts[at] < start ? offsetOf(node, start - starts[at]) : 0;
    const isLast = (starts[at + 1] ?? text.length) >= end;
    words += node.data.slice(from, isLast ? offsetOf(node, end - starts[at] - 1) + 1 : undefined);
  }
  return words.replace(/\s+/g, " ").trim();
}

// Not between the two halves of a character.
const wholeEnd = (text, end) => end < text.length && /[\uD800-\uDBFF]/.test(text[end - 1]) ? end - 1 : end;

/* The anchor of a range in an element, or null where it has no text. */
export function anchorOf(part, range) {
  const shown = read(part);
  const start = countBefore(shown, range.startContainer, range.startOffset);
  const end = wholeEnd(shown.text, Math.min(countBefore(shown, range.endContainer, range.endOffset), start + MOST_TEXT));
  if (end <= start) return null;
  return { ...describe(shown.text, start, end), part: part.id, quote: inWords(shown, start, end).slice(0, MOST_QUOTED) };
}
