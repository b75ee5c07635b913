/* The button that puts the example of a schema into its field. */
import { on } from "../base/dom.js";

on("click", "[data-insert-example]", button => {
  const field = document.getElementById(button.dataset.into);
  field.value = document.getElementById(button.dataset.insertExample).textContent;
  // The form checks what is typed.
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
});
