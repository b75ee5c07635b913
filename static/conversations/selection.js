/* Loads the tools for text that is selected in a turn, when there is some for the first time. */
import { listen, on } from "../base/dom.js";
import { ASK_ABOUT } from "../base/events.js";

let isLoaded = false;

async function load() {
  if (document.getSelection().isCollapsed) return;
  document.removeEventListener("selectionchange", load);
  await import("./selection_tools.js");
  isLoaded = true;
}

document.addEventListener("selectionchange", load);
load();

// An action of a turn that is pressed before the tools are there waits for them: it is about the selection.
on("click", "#turns a[data-comment]", async (link, event) => {
  if (isLoaded || document.getSelection().isCollapsed) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  await load().catch(() => {});
  isLoaded = true;
  link.click();
}, true);

listen(ASK_ABOUT, async ({ turn }) => {
  const { ask } = await import("./ask.js");
  ask(turn);
});
