/* The view of log probabilities: what is known of a token is shown below the text, by pointer and keyboard. */
import { hasModifier, on } from "../base/dom.js";

const isTold = element => element.classList.contains("is-told");

// A token that ends a bold word and goes on behind it has several elements.
function show(element) {
  if (!element) return;
  const text = element.closest(".heat-text");
  for (const each of text.querySelectorAll(".odd")) {
    each.classList.toggle("is-told", each.dataset.token === element.dataset.token);
  }
  text.parentElement.querySelector(".heat-line").textContent = element.title;
  element.scrollIntoView({ block: "nearest", inline: "nearest" });
}

for (const type of ["pointerover", "click"]) on(type, ".heat-text .odd", show);

on("keydown", ".heat-text", (text, event) => {
  // With another key they are the browser's: back and forward.
  if (!["ArrowLeft", "ArrowRight"].includes(event.key) || hasModifier(event)) return;
  event.preventDefault();
  const elements = [...text.querySelectorAll(".odd")];
  const isAfter = event.key === "ArrowRight";
  const from = isAfter ? elements.findLastIndex(isTold) : elements.findIndex(isTold);
  show(isAfter ? elements[from + 1] : elements[from - 1]);
});
