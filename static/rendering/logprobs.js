/* The view of probabilities: what is told of a token stands below the text, by pointer and by keyboard. */
(() => {
  "use strict";

  function tell(token) {
    const text = token?.closest(".heat-text");
    if (!text) return;
    text.querySelector(".is-told")?.classList.remove("is-told");
    token.classList.add("is-told");
    text.parentElement.querySelector(".heat-line").textContent = token.title;
  }

  for (const name of ["pointerover", "click"]) {
    document.addEventListener(name, event => tell(event.target.closest?.(".heat-text > .odd")));
  }

  document.addEventListener("keydown", event => {
    const text = event.target;
    if (!text.matches?.(".heat-text") || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    // Those are the browser's: back and forward.
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const told = text.querySelector(".is-told");
    const next = event.key === "ArrowRight" ? told?.nextElementSibling ?? text.firstElementChild : told?.previousElementSibling;
    tell(next);
  });
})();
