/* The queue of messages: shows it as the server tells, but never takes an open editor away. */
import { announce, notify } from "../base/dom.js";
import { gettext, interpolate } from "../base/i18n.js";
import { openChannel } from "../live/channels.js";

const queue = document.getElementById("queue");
const sync = document.getElementById("turns-sync");

const mark = () => queue.querySelector("[data-mark]")?.dataset.mark ?? "";
const states = () => [...queue.querySelectorAll(".queue-state > span")].map(line => line.textContent).join(" ");

openChannel("message_queue", {
  shown: () => ({ mark: mark() }),

  take({ mark: next, content }) {
    // The answer to a form has brought it already.
    if (next === mark()) return undefined;
    const editor = queue.querySelector(".queued-edit textarea");
    // Where the editor is closed, the queue is fetched.
    if (editor && content.includes(`id="${editor.closest(".queued").id}"`)) return undefined;
    if (editor) rescue(editor);
    return show(content);
  },
});

async function show(content) {
  const before = states();
  await htmx.swap({ sourceElement: sync, target: sync, swap: "none swapEmpty:false", text: content, transition: false });
  const now = states();
  if (now && now !== before) announce(interpolate(gettext("Queued messages: %(state)s"), { state: now }));
}

/* The message was sent or removed while it was edited: the text goes to the composer, if that is empty. */
function rescue(editor) {
  const composer = document.getElementById("text");
  if (editor.value === editor.defaultValue || !composer || composer.value) return;
  composer.value = editor.value;
  composer.dispatchEvent(new Event("input", { bubbles: true }));
  notify(gettext("This message was sent or removed while you were editing it. Your text is in the message field."));
}
