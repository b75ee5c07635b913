/* Selecting several conversations: all of the page at once, and how many they are. */
import { on } from "../base/dom.js";
import { gettext, ngettext } from "../base/i18n.js";

const form = document.querySelector("[data-chosen]");
const all = form?.querySelector("[data-choose-all]");
const boxes = form ? [...form.querySelectorAll("input[name=conversation]")] : [];

function update() {
  const count = boxes.filter(box => box.checked).length;
  all.checked = count > 0 && count === boxes.length;
  all.indeterminate = count > 0 && count < boxes.length;
  form.querySelector("[data-count]").textContent = count
    ? ngettext("%(count)s selected", "%(count)s selected", count)
    : gettext("Select all");
  for (const button of form.querySelectorAll(".chosen-bar > button")) button.disabled = count === 0;
}

on("change", "[data-choose-all]", () => {
  for (const box of boxes) box.checked = all.checked;
  update();
});
on("change", "[data-chosen] input[name=conversation]", update);

if (form) {
  all.closest("label").hidden = boxes.length === 0;
  update();
}
// A page that the browser shows again has its boxes as they were.
addEventListener("pageshow", () => { if (form) update(); });
