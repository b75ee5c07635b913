/* A message that did not get through: the form keeps it with its key, says when it will be sent, and sends
   it then. A busy server names the time; without a connection it is when there is one again. As long as the
   notice is there; nothing is sent behind somebody's back. */
import { listen, on, setText } from "../base/dom.js";
import { AFTER_REQUEST, BEFORE_REQUEST, CONFIG_REQUEST, CONNECTION_STATE, REQUEST_ERROR, RESPONSE_ERROR } from "../base/events.js";
import { gettext, seconds } from "../base/i18n.js";
// Its own notice is replaced, so it has to come first.
import "../base/notices.js";

const BUSY = 503;
const TICK_MS = 250;
// Something between here and the server may refuse this message only, for example because of its size.
const MOST_TRIES = 3;
const timers = new WeakMap();
// form → {parent, tries}. The turn that the message was written below stays the same: if somebody has
// written since, the server refuses it, and its author reads that first.
const unsent = new WeakMap();

// With the key, the server takes the message once, whatever became of this request.
const isRepeatable = form => form?.matches?.("form:has(textarea[data-draft]):has([name=key])");

function cancel(form) {
  clearInterval(timers.get(form));
  timers.delete(form);
  form.querySelector(".note > [data-again]")?.remove();
}

function show(form, template) {
  cancel(form);
  const notice = document.getElementById(template).content.firstElementChild.cloneNode(true);
  form.querySelector(".note").replaceChildren(notice);
  return notice;
}

/* --- after the time that a busy server has named --- */
function sendAgainAfter(form, delay) {
  const notice = show(form, "again-note");
  const due = Date.now() + delay * 1000;

  function tick() {
    const left = Math.ceil((due - Date.now()) / 1000);
    if (!notice.isConnected) return cancel(form);
    if (left > 0) return setText(notice.querySelector("[data-seconds]"), seconds(left));
    cancel(form);
    form.requestSubmit();
  }

  timers.set(form, setInterval(tick, TICK_MS));
  tick();
}

listen(RESPONSE_ERROR, ({ ctx: { response, sourceElement } }) => {
  const delay = Number(response.headers.get("Retry-After"));
  if (response.status === BUSY && delay > 0 && isRepeatable(sourceElement)) sendAgainAfter(sourceElement, delay);
});

/* --- when there is a connection again --- */
listen(REQUEST_ERROR, ({ ctx }) => {
  const form = ctx?.sourceElement;
  if (!isRepeatable(form)) return;
  const { parent = ctx.request.body.get("parent"), tries = 0 } = unsent.get(form) ?? {};
  if (tries === MOST_TRIES) return;
  unsent.set(form, { parent, tries: tries + 1 });
  const text = navigator.onLine
    ? gettext("Can’t reach the server. Your message is kept and will be sent when the connection is back.")
    : gettext("You’re offline. Your message is kept and will be sent when you’re back online.");
  setText(show(form, "unsent-note").querySelector("p"), text);
});

function sendUnsent() {
  for (const notice of document.querySelectorAll(".note > [data-unsent]")) {
    const form = notice.closest("form");
    // It may have been stored, so that its own answer is under way: the server knows.
    cancel(form);
    form.dataset.isAgain = "";
    form.requestSubmit();
    delete form.dataset.isAgain;
  }
}

addEventListener("online", sendUnsent);
listen(CONNECTION_STATE, ({ isConnected }) => { if (isConnected) sendUnsent(); });

listen(CONFIG_REQUEST, ({ ctx }, { target }) => {
  if (!("isAgain" in (target.dataset ?? {}))) unsent.delete(target);
  else if (unsent.get(target)?.parent) ctx.request.body.set("parent", unsent.get(target).parent);
});

listen(AFTER_REQUEST, (_, { target }) => { unsent.delete(target); });

// A text that changes is sent when its author says so.
on("input", "textarea[data-draft]", ({ form }) => { if (form.querySelector(".note > [data-unsent]")) cancel(form); });

// A press of Send ends the pause before the next attempt.
listen(BEFORE_REQUEST, (_, { target }) => { if (isRepeatable(target)) cancel(target); });
on("click", "[data-cancel-again]", button => cancel(button.closest("form")));
