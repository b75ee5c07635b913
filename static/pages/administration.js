/* A list of the administration: the box in its head selects all rows of the page. */
import "./base.js";
import { on } from "../base/dom.js";

on("change", "#action-toggle", toggle => {
  for (const box of document.querySelectorAll("input.action-select")) box.checked = toggle.checked;
});
