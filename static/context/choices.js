/* The choices where a conversation fills the model's context: the note above the composer, and what changes the composer.
   Loaded when they are needed. */
import { announce, listen, on, request } from "../base/dom.js";
import { AFTER_REQUEST } from "../base/events.js";
import { gettext } from "../base/i18n.js";

/* Fills in an estimate where the server has counted nothing, or something else than what is sent now. A live answer
   sends its own figures. Returns whether there is a figure. */
export async function estimate(figures, address) {
  if (figures.dataset.begun || document.querySelector("#strip .phase")) return false;
  figures.dataset.begun = "asked";
  try {
    const response = await request(`${address}size/`, { headers: { "HX-Request": "true" } });
    figures.value = String((await response.json()).tokens);
    return figures.isConnected;
  } catch {
    // The gauge stays as it is until the page changes.
    return false;
  }
}

const place = () => document.getElementById("context-note");
let shown = "";

/* `level`: "near", "over", or nothing to say. The choices depend on the model. */
export async function showNote(address, model, level) {
  // Of files that are too long by themselves another note says what can be done.
  shown = document.getElementById("attach-too-long")?.hidden === false ? "" : level;
  if (!shown) return place()?.replaceChildren();
  if (place().firstElementChild?.dataset.for !== model) {
    const query = new URLSearchParams({ choice: model });
    try {
      const response = await request(`${address}note/?${query}`, { headers: { "HX-Request": "true" } });
      const html = await response.text();
      if (!shown) return;
      place().innerHTML = html;
    } catch {
      return;
    }
  }
  const note = place().firstElementChild;
  note.querySelector("[data-near]").hidden = shown !== "near";
  note.querySelector("[data-over]").hidden = shown !== "over";
}

/* --- the server's own condensing is a parameter of the composer --- */
on("click", "[data-condense]", ({ dataset: { condense, above } }) => {
  const field = document.querySelector(`#parameters [name="${CSS.escape(condense)}"]`);
  if (!field) return;
  field.value = above;
  field.dispatchEvent(new Event("change", { bubbles: true }));
  field.closest("details")?.setAttribute("open", "");
  document.getElementById("parameters").showPopover();
  field.focus();
  announce(gettext("The server condenses the conversation from the next message on."));
});

// The summary is written in the conversation, which a panel covers on a phone.
listen(AFTER_REQUEST, ({ ctx }) => {
  if (ctx.sourceElement?.id === "context-summary" && ctx.response?.status === 200) {
    document.querySelector("[data-panel-close]")?.click();
  }
});
