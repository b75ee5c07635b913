/* A message that the server was too busy for: the form keeps it with its key, says when it will be sent,
   and sends it then. As long as the notice is there; nothing is sent behind somebody's back. */
import { listen, on, setText } from "../base/dom.js";
import { BEFORE_REQUEST, RESPONSE_ERROR } from "../base/events.js";
import { seconds } from "../base/i18n.js";
// Its own notice is replaced, so it has to come first.
import "../base/notices.js";

const BUSY = 503;
const TICK_MS = 250;
const timers = new WeakMap();

function cancel(form) {
  clearInterval(timers.get(form));
  timers.delete(form);
  form.querySelector(".note > [data-again]")?.remove();
}

function sendAgainAfter(form, delay) {
  cancel(form);
  const notice = document.getElementById("again-note").content.firstElementChild.cloneNode(true);
  const due = Date.now() + delay * 1000;

  function tick() {
    const left = Math.ceil((due - Date.now()) / 1000);
    if (!notice.isConnected) return cancel(form);
    if (left > 0) return setText(notice.querySelector("[data-seconds]"), seconds(left));
    cancel(form);
    form.requestSubmit();
  }

  form.querySelector(".note").replaceChildren(notice);
  timers.set(form, setInterval(tick, TICK_MS));
  tick();
}

// With the key, the server takes the message once, whatever became of this request.
const isRepeatable = form => form.matches?.("form:has(textarea[data-draft]):has([name=key])");

listen(RESPONSE_ERROR, ({ ctx: { response, sourceElement } }) => {
  const delay = Number(response.headers.get("Retry-After"));
  if (response.status === BUSY && delay > 0 && isRepeatable(sourceElement)) sendAgainAfter(sourceElement, delay);
});

// Whoever presses Send does not wait.
listen(BEFORE_REQUEST, (_, { target }) => { if (timers.has(target)) cancel(target); });
on("click", "[data-cancel-again]", button => cancel(button.closest("form")));
