/* Marks of comments: the passages in the text, and beside each turn how many comments it has. The passages are
   highlights of the browser (CSS Custom Highlight API), so that nothing in a text changes that is being written. */
import { announce, element, emit, isPlainClick, listen, onSwapped } from "../base/dom.js";
import { ANSWER_ENDED, COMMENTS_CHANGED, ROOM_GONE } from "../base/events.js";
import { gettext, interpolate, ngettext, number } from "../base/i18n.js";
import { openChannel } from "../live/channels.js";
import { rangesOf } from "./anchors.js";
import { panelAddress, openBy } from "./passages.js";

const NAME = "comments";
// While a text is written, its passages are looked for this often at most.
const PAUSE_MS = 500;
const room = document.getElementById("room");
const turns = document.getElementById("turns");

let version = 0;
let threads = [];
// Ids of the comments that were told; null until those are told that came before the page.
let known = "commented" in room.dataset ? null : new Set();
let ranges = new Map();  // thread → range
let timer = null;

/* --- what the server tells --- */
openChannel(NAME, {
  shown: () => ({ version }),

  take(message) {
    version = message.version;
    threads = message.threads;
    tellNew();
    show();
    emit(COMMENTS_CHANGED, {});
  },
});

// Once for each comment of somebody else that comes while the page is open.
function tellNew() {
  const before = known;
  known = new Set(threads.flatMap(({ comments }) => comments.map(({ id }) => id)));
  if (!before) return;
  for (const { turn, comments } of threads) {
    for (const { id, by, person } of comments) {
      if (before.has(id) || person === room.dataset.person) continue;
      const place = turnOf(turn)?.dataset.number;
      const text = place ? gettext("%(name)s commented on message %(number)s") : gettext("%(name)s commented");
      announce(interpolate(text, { name: by, number: place }), { about: `comment-${id}` });
    }
  }
}

/* --- beside the turns --- */
const turnOf = hex => document.getElementById(`m${hex}`);
const open = () => threads.filter(({ isResolved, comments }) => !isResolved && comments.length);

function countsByTurn() {
  const counts = new Map();
  for (const { turn, comments } of open()) counts.set(turn, (counts.get(turn) ?? 0) + comments.length);
  return counts;
}

function showCounts() {
  const counts = countsByTurn();
  for (const mark of turns.querySelectorAll(".comment-mark")) if (!counts.has(mark.closest(".turn").dataset.turn)) mark.remove();
  for (const [hex, count] of counts) {
    const turn = turnOf(hex);
    if (turn) showCount(turn, count);
  }
}

function showCount(turn, count) {
  const action = turn.querySelector(":scope > footer > [data-comment]");
  if (!action) return;
  let mark = turn.querySelector(":scope > .turn-head > .comment-mark");
  if (!mark) {
    mark = element("a", { className: "comment-mark", href: panelAddress() });
    mark.dataset.panel = "";
    mark.append(action.querySelector("svg").cloneNode(true), element("span", { ariaHidden: "true" }));
    turn.querySelector(":scope > .turn-head").append(mark);
  }
  const first = open().find(thread => thread.turn === turn.dataset.turn);
  mark.hash = `comment-${first.comments[0].id}`;
  if (mark.dataset.count === String(count)) return;
  mark.dataset.count = String(count);
  mark.lastElementChild.textContent = number(count);
  mark.ariaLabel = mark.title = ngettext("%(count)s comment", "%(count)s comments", count);
}

/* --- in the text --- */
function showPassages() {
  ranges = new Map();
  // The text of a part is read once for all of its threads.
  for (const [id, some] of Map.groupBy(open().filter(({ quote }) => quote), ({ part }) => part)) {
    const part = turnOf(some[0].turn) && document.getElementById(id);
    const found = part ? rangesOf(part, some) : [];
    found.forEach((range, at) => { if (range) ranges.set(some[at].id, range); });
  }
  if (!CSS.highlights) return;
  if (ranges.size) CSS.highlights.set(NAME, new Highlight(...ranges.values()));
  else CSS.highlights.delete(NAME);
}

function show() {
  if (room.dataset.isGone) return;
  clearTimeout(timer);
  timer = null;
  showCounts();
  showPassages();
  watch();
}

/* --- from a passage to its thread --- */
function threadAt(x, y) {
  const point = document.caretPositionFromPoint?.(x, y);
  if (!point) return undefined;
  for (const [hex, range] of ranges) if (range.isPointInRange(point.offsetNode, point.offset)) return hex;
  return undefined;
}

turns.addEventListener("click", event => {
  const isTool = event.target.closest("a, button, summary, input, textarea, footer");
  if (isTool || !isPlainClick(event) || !document.getSelection().isCollapsed) return;
  const hex = threadAt(event.clientX, event.clientY);
  const mark = hex && event.target.closest(".turn")?.querySelector(":scope > .turn-head > .comment-mark");
  if (mark) openBy(mark, `${panelAddress()}#comment-${firstOf(hex)}`);
});

// The first comment of a thread may be deleted.
const firstOf = hex => threads.find(({ id }) => id === hex).comments[0].id;

/* --- when texts change: only turns with passages are watched --- */
const observer = new MutationObserver(() => { timer ??= setTimeout(show, PAUSE_MS); });

function watch() {
  observer.disconnect();
  const commented = new Set(open().filter(({ quote }) => quote).map(({ turn }) => turn));
  for (const hex of commented) {
    for (const text of turnOf(hex)?.querySelectorAll(":scope > .turn-body, :scope > .runs") ?? []) {
      observer.observe(text, { childList: true, subtree: true, characterData: true });
    }
  }
}

onSwapped(() => { if (threads.length) show(); });
listen(ANSWER_ENDED, () => { if (threads.length) show(); });
listen(ROOM_GONE, () => {
  observer.disconnect();
  CSS.highlights?.delete(NAME);
});
