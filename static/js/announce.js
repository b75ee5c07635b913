/* What a screen reader hears: one sentence at a time, and of a live answer its phases, not its text. */
(() => {
  "use strict";

  // Sentences that come faster are dropped by some readers.
  const GAP_MS = 500;
  const waiting = [];
  let isSpeaking = false;

  function speakNext() {
    const text = waiting.shift();
    isSpeaking = text !== undefined;
    if (!isSpeaking) return;
    document.getElementById("polite").textContent = text;
    setTimeout(speakNext, GAP_MS);
  }

  function say(text) {
    waiting.push(text);
    if (!isSpeaking) speakNext();
  }

  document.addEventListener("tributary:announce", event => {
    if (event.detail.urgent) document.getElementById("assertive").textContent = event.detail.text;
    else say(event.detail.text);
  });

  /* --- phases: the word, when it changes; figures and clocks change all the time --- */

  const dock = document.getElementById("dock");
  const word = () => dock.querySelector("#strip .word")?.textContent ?? "";

  if (dock) {
    let said = word();
    new MutationObserver(() => {
      const now = word();
      if (now === said) return;
      said = now;
      if (now) say(now);
    }).observe(dock, { childList: true, subtree: true, characterData: true });
  }
})();
