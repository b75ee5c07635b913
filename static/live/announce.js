/* What a screen reader hears: two regions for the whole page, in each one sentence after another.
   `tributary:announce` has {text, urgent, about, kind}: of what is said about the same only the newest
   sentence waits, for what is out of date nobody wants to hear. What is told of a live answer has a
   `kind`, and the person has chosen which kinds they hear. */
(() => {
  "use strict";

  // Sentences that come faster are dropped by some readers.
  const GAP_MS = 500;
  // As people choose it in their settings; what is of no kind, and what is urgent, is heard in any case.
  const HEARD = { states: ["state", "end"], paragraphs: ["state", "end", "text"], ends: ["end"] };

  function speaker(id) {
    const waiting = [];
    let isSpeaking = false;

    function speakNext() {
      const next = waiting.shift();
      isSpeaking = next !== undefined;
      if (!isSpeaking) return;
      // A node of its own: the same words twice are heard twice.
      document.getElementById(id)?.replaceChildren(document.createTextNode(next.text));
      setTimeout(speakNext, GAP_MS);
    }

    return sentence => {
      const stale = sentence.about ? waiting.findIndex(({ about }) => about === sentence.about) : -1;
      if (stale >= 0) waiting.splice(stale, 1);
      waiting.push(sentence);
      if (!isSpeaking) speakNext();
    };
  }

  const speakers = { true: speaker("assertive"), false: speaker("polite") };
  const chosen = document.getElementById("polite").dataset.announcements;
  const kinds = HEARD[chosen] ?? HEARD.states;

  document.addEventListener("tributary:announce", ({ detail }) => {
    if (!detail.urgent && detail.kind && !kinds.includes(detail.kind)) return;
    speakers[Boolean(detail.urgent)](detail);
  });
})();
