/* Virtual list: what of a very long answer is far from the reader. Its elements wait here until the
   reader comes near, and its text stays in its place, where a search in the page finds it. So the page
   carries what is visible and the text, however long an answer becomes. */
import { isSelectionVisible, selectPlaces, selectedPlaces } from "./selection.js";

const turns = document.getElementById("turns");
// Answers of a usual length are left whole, for people who read a page by its headings or links.
const WHOLE_SECTIONS = 8;
// Screens above and below, further than the browser itself looks ahead.
const NEAR = "300% 0px";
// Far sections stand together in one box: where each box is, the browser asks with every frame.
const GROUP_SECTIONS = 20;
// Of what stands in a closed fold nobody knows how high it will be: the style sheet's guess.
const UNSEEN_HEIGHT = 12000;
// What stands in the text between two blocks.
const BETWEEN = "\n\n";

const kept = new WeakMap();      // far section → its elements
const heights = new WeakMap();   // far section → how high it was, in pixels
const known = new WeakSet();     // sections that were looked at since they became full

export const farSections = () => turns.querySelectorAll(".closed .is-far");
export const elementsOf = section => kept.get(section);
const isGroup = box => box?.classList.contains("far-group");

/* --- one section --- */
function putAway(section, height) {
  if (kept.has(section) || isHeld(section)) return;
  const elements = document.createDocumentFragment();
  const text = [...section.children].map(block => block.textContent).join(BETWEEN);
  section.dataset.blocks = section.childElementCount;
  elements.append(...section.childNodes);
  section.append(text);
  section.classList.add("is-far");
  kept.set(section, elements);
  group(section, height);
}

export function bringBack(section) {
  const elements = kept.get(section);
  if (!elements) return;
  if (isGroup(section.parentElement)) clear(section.parentElement);
  const selected = selectedPlaces();
  const text = section.firstChild;
  const isFound = selected[0] === text && isSelectionVisible();
  kept.delete(section);
  section.replaceChildren(elements);
  section.classList.remove("is-far");
  for (const name of ["style", "data-blocks"]) section.removeAttribute(name);
  selectPlaces(selected, (node, offset) => node === text ? placeIn(section, offset) : [node, offset]);
  // What a search has found in the text stands higher or lower among the elements.
  if (isFound) document.getSelection().anchorNode.parentElement.scrollIntoView({ block: "center" });
}

// Where a place in the text is among the elements.
function placeIn(section, offset) {
  for (const block of section.children) {
    const words = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    while (words.nextNode()) {
      const { length } = words.currentNode;
      if (offset <= length) return [words.currentNode, offset];
      offset -= length;
    }
    offset = Math.max(offset - BETWEEN.length, 0);
  }
  return [section, section.childNodes.length];
}

// What somebody has chosen, or stands on, is not taken away under them.
function isHeld(section) {
  const selection = document.getSelection();
  return section.contains(document.activeElement) || (!selection.isCollapsed && selection.containsNode(section, true));
}

/* --- several together --- */
function group(section, height) {
  const [before, behind] = [section.previousElementSibling, section.nextElementSibling];
  const hasRoom = box => isGroup(box) && box.childElementCount < GROUP_SECTIONS;
  heights.set(section, height);
  setHeight(section, height);
  sight.unobserve(section);
  if (hasRoom(before)) before.append(section);
  else if (hasRoom(behind)) behind.prepend(section);
  else {
    const box = document.createElement("div");
    box.className = "far-group";
    section.replaceWith(box);
    box.append(section);
    sight.observe(box);
  }
  fit(section.parentElement);
}

function fit(box) {
  setHeight(box, [...box.children].reduce((sum, section) => sum + heights.get(section), 0));
}

// They stand alone again until it is known which of them are near.
function clear(box) {
  const sections = [...box.children];
  const selected = selectedPlaces();
  sight.unobserve(box);
  box.replaceWith(...sections);
  selectPlaces(selected);
  for (const section of sections) sight.observe(section);
}

const setHeight = (box, height) => { box.style.height = `${height}px`; };

/* --- which are far --- */
const sight = new IntersectionObserver(entries => {
  for (const { target, isIntersecting, boundingClientRect } of entries) {
    if (!target.isConnected) continue;
    if (isGroup(target)) { if (isIntersecting) clear(target); }
    else if (isIntersecting) bringBack(target);
    else if (kept.has(target)) group(target, heights.get(target));
    else if (target.nextElementSibling) putAway(target, boundingClientRect.height || UNSEEN_HEIGHT);
  }
}, { rootMargin: NEAR });

// Only full sections are followed by another; those before were looked at when they became full.
function look(closed) {
  if (closed.childElementCount <= WHOLE_SECTIONS && !closed.querySelector(":scope > .far-group")) return;
  let section = closed.lastElementChild?.previousElementSibling;
  for (; section && !known.has(section) && !isGroup(section); section = section.previousElementSibling) {
    known.add(section);
    sight.observe(section);
  }
}

function find(root) {
  if (root.matches?.(".closed")) look(root);
  for (const closed of root.getElementsByClassName?.("closed") ?? []) look(closed);
}

new MutationObserver(records => {
  for (const { target, addedNodes } of records) {
    if (target.matches(".closed")) look(target);
    else if (!target.matches(".blocks, .far-group")) addedNodes.forEach(find);
  }
}).observe(turns, { childList: true, subtree: true });
find(turns);
