/* What a screen reader hears: two regions for the whole page, in each one sentence after another.
   ANNOUNCE has {text, urgent, about, kind}: of what is said about the same only the newest sentence
   waits, because nobody wants to hear what is out of date. What is told of a live answer has a `kind`,
   and the person has chosen which kinds they hear. */
import { listen } from "./dom.js";
import { ANNOUNCE } from "./events.js";

// Sentences that come faster are dropped by some readers.
const GAP_MS = 500;
// As people choose it in their settings; what has no kind and what is urgent is heard in any case.
const KINDS = { states: ["state", "end"], paragraphs: ["state", "end", "text"], ends: ["end"] };

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
const kinds = KINDS[document.getElementById("polite").dataset.announcements] ?? KINDS.states;

listen(ANNOUNCE, sentence => {
  if (!sentence.urgent && sentence.kind && !kinds.includes(sentence.kind)) return;
  speakers[Boolean(sentence.urgent)](sentence);
});
