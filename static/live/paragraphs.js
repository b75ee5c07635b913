/* A live answer paragraph by paragraph, as each is closed, for whoever has chosen to hear it so. */
(() => {
  "use strict";

  if (document.getElementById("polite").dataset.announcements !== "paragraphs") return;

  const turns = document.getElementById("turns");
  const MESSAGES = ".message, .refusal";
  // Nobody listens to more of one piece; the page has all of it.
  const MOST_CHARACTERS = 2000;

  const said = new Map();  // run → Map: message → how many of its blocks were said

  const sectionsOf = message => [...message.querySelectorAll(":scope > .flow > .closed .blocks")];
  // What is far from the reader has its blocks elsewhere, and was said long ago.
  const blocksIn = section => Number(section.dataset.blocks ?? section.childElementCount);
  const countOf = sections => sections.reduce((count, section) => count + blocksIn(section), 0);

  /* --- one block in words --- */

  function inWords(block) {
    if (block.matches(".codeblock")) return `Code, ${lines(block.querySelector("pre"))}`;
    const copy = block.cloneNode(true);
    for (const pre of copy.querySelectorAll(".codeblock")) pre.replaceWith(` Code, ${lines(pre.querySelector("pre"))}. `);
    // A drawn formula says its source, once: it holds it several times over.
    for (const formula of copy.querySelectorAll(".math")) {
      formula.replaceWith(formula.querySelector("annotation")?.textContent ?? formula.textContent);
    }
    for (const button of copy.querySelectorAll("button")) button.remove();
    for (const cell of copy.querySelectorAll("td, th")) cell.append(", ");
    for (const end of copy.querySelectorAll("li, p, tr, br, dt, dd")) end.append(" ");
    for (const end of copy.querySelectorAll("br")) end.replaceWith(" ");
    const text = copy.textContent.replace(/\s+/g, " ").trim();
    return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)} …` : text;
  }

  function lines(pre) {
    const count = (pre?.textContent.trimEnd().match(/\n/g)?.length ?? 0) + 1;
    return `${count.toLocaleString()} ${count === 1 ? "line" : "lines"}`;
  }

  /* --- which are new: a section that was made anew is not read again --- */

  function look(message, isSilent) {
    // Alternatives grow at the same time, and nobody can follow several.
    if (message.closest(".alternative")) return;
    const known = said.get(message.closest(".answer").dataset.run);
    const sections = sectionsOf(message);
    const [before, now] = [known.get(message.id) ?? 0, countOf(sections)];
    known.set(message.id, Math.max(before, now));
    if (isSilent || now <= before) return;
    for (const text of blocksFrom(sections, before).map(inWords)) {
      if (text) document.dispatchEvent(new CustomEvent("tributary:announce", { detail: { text, kind: "text" } }));
    }
  }

  function blocksFrom(sections, first) {
    return sections.flatMap(section => {
      const skipped = Math.min(first, blocksIn(section));
      first -= skipped;
      return skipped === blocksIn(section) ? [] : [...section.children].slice(skipped);
    });
  }

  // What had been written when this page came is there to be read.
  function begin(isSilent) {
    const shown = new Set();
    for (const answer of turns.querySelectorAll(".answer[data-live]")) {
      shown.add(answer.dataset.run);
      if (said.has(answer.dataset.run)) continue;
      said.set(answer.dataset.run, new Map());
      for (const message of answer.querySelectorAll(MESSAGES)) look(message, isSilent);
    }
    for (const run of said.keys()) if (!shown.has(run)) said.delete(run);
  }

  function take(records) {
    const touched = new Set();
    for (const { target, addedNodes } of records) {
      const message = target.closest(MESSAGES);
      if (message) touched.add(message);
      else for (const node of addedNodes) {
        for (const inside of node.querySelectorAll?.(MESSAGES) ?? []) touched.add(inside);
        if (node.matches?.(MESSAGES)) touched.add(node);
      }
    }
    for (const message of touched) {
      if (message.isConnected && said.has(message.closest(".answer")?.dataset.run)) look(message, false);
    }
  }

  const arrivals = new MutationObserver(take);
  arrivals.observe(turns, { childList: true, subtree: true });

  document.addEventListener("room:shown", () => { if (turns.isConnected) begin(false); });
  // What closes with the answer is said before its end is.
  document.addEventListener("live:ended", () => take(arrivals.takeRecords()), true);
  begin(true);
})();
