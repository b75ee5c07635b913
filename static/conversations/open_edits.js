/* An edit with unsent text goes on when another version takes the place of its message: one from another
   tab, or what was sent before without the page seeing that it was accepted. */
import { listen, ofTab, onSwapped } from "../base/dom.js";
import { BEFORE_SWAP } from "../base/events.js";
import { keyOf, lastSent } from "./composer.js";

const turns = document.getElementById("turns");
let open = [];  // {turn, above, field}

// What was sent needs no form: the new version has that text.
const isUnsent = field => field.value.trim() && ![field.defaultValue, lastSent(field).text].includes(field.value);
const above = turn => turn.previousElementSibling?.id;
const isGone = ({ turn }) => !turn.isConnected;
// A reader who chooses another version wants to see it. The text stays with the one that was left.
const isChosen = element => element.matches?.("form[action$='/show/']");

listen(BEFORE_SWAP, ({ ctx }, { target }) => {
  if (target.id === "live") return;
  const fields = isChosen(ctx.sourceElement) ? [] : [...turns.querySelectorAll(".edit [data-draft]")];
  const typed = fields.filter(isUnsent).map(field => ({ field, turn: field.closest(".turn") }));
  open = [...open.filter(isGone), ...typed.map(each => ({ ...each, above: above(each.turn) }))];
});

onSwapped(() => {
  const gone = open.filter(isGone);
  open = open.filter(each => !isGone(each));
  gone.forEach(goOn);
});

function goOn({ field, turn, above: before }) {
  const next = turns.querySelector(`:scope > .person-turn[data-number="${turn.dataset.number}"]`);
  const edit = next?.querySelector("a[hx-get$='/edit/']");
  if (!edit || above(next) !== before) return;
  ofTab.set(keyOf(field), null);
  ofTab.set(`draft:edit:${next.dataset.turn}`, field.value);
  edit.click();
}
