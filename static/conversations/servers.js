/* Servers that start no new answers at present: the model picker and a note below it say so. */
import { showChosen } from "../base/combobox.js";
import { listen, on } from "../base/dom.js";
import { AFTER_SWAP, SERVERS_DRAINING } from "../base/events.js";

const note = () => document.getElementById("choice-note");
const identity = option => option.value.split(":")[0];

function showNote() {
  const option = document.getElementById("id_choice")?.selectedOptions[0];
  const place = note();
  if (place) place.hidden = !option || !place.dataset.draining.split(" ").includes(identity(option));
}

listen(SERVERS_DRAINING, ({ draining }) => {
  if (!note()) return;
  note().dataset.draining = draining.join(" ");
  const select = document.getElementById("id_choice");
  const { drainingMark: mark } = select.dataset;
  for (const group of document.querySelectorAll("#id_choice optgroup")) {
    const name = group.label.replace(mark, "");
    group.label = draining.includes(identity(group.firstElementChild)) ? name + mark : name;
  }
  showChosen(select);
  showNote();
});

on("change", "#id_choice", showNote);
listen(AFTER_SWAP, (_, { target }) => { if (target.id !== "live") showNote(); });
addEventListener("pageshow", showNote);
showNote();
