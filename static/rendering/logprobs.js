/* The view of log probabilities: what is known of a token is shown below the text, by pointer and keyboard. */
import { hasModifier, on } from "../base/dom.js";

function show(token) {
  const text = token?.closest(".heat-text");
  if (!text) return;
  text.querySelector(".is-told")?.classList.remove("is-told");
  token.classList.add("is-told");
  text.parentElement.querySelector(".heat-line").textContent = token.title;
}

for (const type of ["pointerover", "click"]) on(type, ".heat-text > .odd", show);

on("keydown", ".heat-text", (text, event) => {
  // With another key they are the browser's: back and forward.
  if (!["ArrowLeft", "ArrowRight"].includes(event.key) || hasModifier(event)) return;
  event.preventDefault();
  const told = text.querySelector(".is-told");
  show(event.key === "ArrowRight" ? told?.nextElementSibling ?? text.firstElementChild : told?.previousElementSibling);
});
