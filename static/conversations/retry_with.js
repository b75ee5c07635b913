/* "Try another model…": a dialog with the model picker of the composer. What is chosen there becomes the model of the
   conversation, and the answer is tried again with it. */
import { on } from "../base/dom.js";

const NAMES = ["id", "for", "aria-controls"];
const dialog = document.getElementById("retry-with");
const choice = () => document.getElementById("id_choice");
let form = null;

/* Another picker with the same models: its ids begin with `prefix`, and no form sends it. */
export function copyOfPicker(prefix) {
  const picker = choice().closest("[data-combobox]").cloneNode(true);
  for (const name of NAMES) {
    for (const node of picker.querySelectorAll(`[${name}]`)) node.setAttribute(name, `${prefix}-${node.getAttribute(name)}`);
  }
  const select = picker.querySelector("select");
  select.removeAttribute("name");
  select.selectedIndex = -1;
  return picker;
}

on("click", "[data-retry-with]", button => {
  form = button.form;
  const picker = copyOfPicker("retry");
  // A menu is closed by a click elsewhere and by Escape; here Escape closes the dialog.
  picker.querySelector("details").classList.remove("menu");
  dialog.querySelector("[data-models]").replaceChildren(picker);
  dialog.showModal();
  picker.querySelector("details").open = true;
});

on("change", "#retry-with select", ({ value }) => {
  dialog.close();
  choice().value = value;
  choice().dispatchEvent(new Event("change", { bubbles: true }));
  form.requestSubmit();
});
