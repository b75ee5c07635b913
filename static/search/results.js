/* The page of results: arrows go from the field through the hits, and its search is remembered. */
import { hasModifier, isComposing, on } from "../base/dom.js";
import { remember } from "./recent.js";

const page = document.querySelector("[data-searched]");
const field = page.querySelector("[name=q]");

function step(by) {
  const links = [...page.querySelectorAll(".hit-link, .hits-more a")];
  const at = links.indexOf(document.activeElement) + by;
  if (at < 0) field.focus();
  else links[at]?.focus();
}

on("keydown", ".search-page .search-words input, .search-page .hits a", (_, event) => {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by || isComposing(event) || hasModifier(event)) return;
  event.preventDefault();
  step(by);
});

// An address with what was chosen, and no more.
page.querySelector("form").addEventListener("formdata", ({ formData }) => {
  for (const [name, value] of [...formData]) if (value === "" && name !== "q") formData.delete(name);
});

remember(page.dataset.searched);
