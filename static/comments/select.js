/* Commenting on what was selected: a tool beside the selection, and the action of the turn, which does the same for the
   keyboard. */
import { listen, on } from "../base/dom.js";
import { PANEL_SHOWN } from "../base/events.js";
import { gettext } from "../base/i18n.js";
import { addTool, selectedPassage } from "../base/selection.js";
import { anchorOf } from "./anchors.js";
import { activate } from "./passages.js";

const actionOf = ({ turn }) => turn.querySelector(":scope > footer > [data-comment]");
let pending = null;  // {turn, anchor, range} for the form that the panel is about to show

addTool("[data-comment-selection]", passage => actionOf(passage) !== null, passage => {
  pending = anchored(passage);
  actionOf(passage).click();
});

function anchored(passage) {
  const anchor = passage && anchorOf(passage.part, passage.range);
  return anchor && { ...passage, anchor };
}

on("click", "#turns a[data-comment]", link => {
  const found = anchored(selectedPassage()) ?? pending;
  pending = found?.turn === link.closest(".turn") ? found : null;
}, true);

listen(PANEL_SHOWN, () => {
  const form = document.querySelector("#panel-body .comment-new");
  const passage = pending;
  pending = null;
  if (!form || passage?.turn.dataset.turn !== form.dataset.ofTurn) return;
  for (const [name, value] of Object.entries(passage.anchor)) form.elements.namedItem(name).value = value;
  const quote = form.querySelector(".comment-quote");
  quote.textContent = passage.anchor.quote;
  quote.hidden = false;
  form.querySelector(".label").textContent = gettext("Comment on this passage");
  activate(passage.range);
});
