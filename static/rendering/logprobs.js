/* The view of log probabilities: what is known of a token is shown below the text, by pointer and keyboard. */
import { on } from "../base/dom.js";

function show(token) {
  const text = token?.closest(".heat-text");
  if (!text) return;
  text.querySelector(".is-told")?.classList.remove("is-told");
  token.classList.add("is-told");
  text.parentElement.querySelector(".heat-line").textContent = token.title;
}

for (const type of ["pointerover", "click"]) on(type, ".heat-text > .odd", show);

document.addEventListener("keydown", event => {
  const text = event.target;
  if (!text.matches?.(".heat-text") || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
  // Those are the browser's: back and forward.
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const told = text.querySelector(".is-told");
  show(event.key === "ArrowRight" ? told?.nextElementSibling ?? text.firstElementChild : told?.previousElementSibling);
});
