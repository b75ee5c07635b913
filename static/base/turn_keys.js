/* What keys do among the turns of a conversation: move the focus, act on a turn, choose a version. */
import { announce, emit } from "./dom.js";
import { ASK_ABOUT, ROOM_SHOWN } from "./events.js";
import { gettext } from "./i18n.js";

const ARRIVAL_MS = 5000;
const first = selector => document.querySelector(selector);
const turns = () => [...document.querySelectorAll("#turns > .turn")];
const focused = () => document.activeElement?.closest?.("#turns > .turn") ?? null;
const newestAnswer = () => turns().findLast(turn => turn.matches(".answer-turn"));

/* Focuses the turn; returns whether there is one. */
function focus(turn) {
  if (!turn) return false;
  turn.tabIndex = -1;
  turn.focus({ preventScroll: true });
  turn.scrollIntoView({ block: "start" });
  return true;
}

export const focusNewestAnswer = () => focus(newestAnswer());
export const focusNewestTurn = () => focus(turns().at(-1));

// Where nothing has the focus: what is being read.
function current() {
  const edge = first(".room-bar")?.getBoundingClientRect().bottom ?? 0;
  return focused() ?? turns().find(turn => turn.getBoundingClientRect().bottom > edge + 8);
}

export function move(step) {
  const all = turns();
  const at = all.indexOf(current());
  if (!focused()) return focus(all[at] ?? all.at(-1));
  if (at + step < 0) first("#earlier a")?.click();
  focus(all[at + step]);
}

function clickIn(turn, selector, otherwise) {
  const target = turn?.querySelector(selector);
  if (target) target.click();
  else announce(otherwise);
}

export const act = (selector, otherwise) => clickIn(focused() ?? newestAnswer(), selector, otherwise);

export function ask(otherwise) {
  const turn = focused() ?? newestAnswer();
  if (turn && first("#text")) emit(ASK_ABOUT, { turn });
  else announce(otherwise);
}

/* Only in the turn that was chosen: no key that was hit by chance starts an answer. */
const actOnFocused = (selector, otherwise) => clickIn(focused(), selector, otherwise);

/* Where the newest answer is chosen, one's own last message is meant. */
export function edit(otherwise) {
  const isAtNewest = focused() !== null && focused() === newestAnswer();
  const own = `[data-author="${first("#room")?.dataset.person}"]`;
  const turn = isAtNewest ? turns().findLast(each => each.matches(own)) : focused();
  clickIn(turn, "footer a[href$='/edit/']", otherwise);
}

/* When another turn takes the place of this one, the focus goes to it. */
function stayAtPlaceOf(turn) {
  const at = turns().indexOf(turn);
  // What is not here by then does not come, and a colleague's turn must not take the focus instead.
  const arrival = new AbortController();
  setTimeout(() => arrival.abort(), ARRIVAL_MS);
  document.addEventListener(ROOM_SHOWN, () => {
    // The room may be shown again for another reason first.
    if (turns()[at]?.id === turn.id) return;
    arrival.abort();
    focus(turns()[at]);
  }, { signal: arrival.signal });
}

export function retry(otherwise) {
  if (focused()) stayAtPlaceOf(focused());
  actOnFocused("footer form[action$='/retry/'] button, .retry", otherwise);
}

/* Another version takes the place of this one. */
export function branch(side, otherwise) {
  const turn = focused() ?? turns().findLast(each => each.querySelector(":scope > footer .siblings"));
  const button = turn?.querySelector(`:scope > footer .siblings > form:${side} button`);
  if (!button) return announce(otherwise);
  stayAtPlaceOf(turn);
  button.click();
}

export function toggleReasoning() {
  const folds = [...(focused() ?? newestAnswer())?.querySelectorAll("details.reasoning") ?? []];
  const isAnyClosed = folds.some(fold => !fold.open);
  for (const fold of folds) fold.open = isAnyClosed;
  if (!folds.length) announce(gettext("No thinking here"));
}
