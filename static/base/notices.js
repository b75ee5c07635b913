/* Failed requests. What failed is said where it failed, or in a toast that stays until it is closed.
   NOTICE has {text, source, about, isLost}: the element that asked, the address that it asked for, and
   whether the server could not be reached. What is said of an address disappears when a request to it
   has succeeded, and that the server could not be reached when there is a connection again. */
import { csrfToken, listen, notify, on, onAdded } from "./dom.js";
import { AFTER_REQUEST, CONFIG_REQUEST, CONNECTION_STATE, NOTICE, REQUEST_ERROR, RESPONSE_ERROR } from "./events.js";
import { gettext } from "./i18n.js";

const MAX_TOASTS = 3;
listen(CONFIG_REQUEST, ({ ctx }) => {
  const token = csrfToken();
  if (token) ctx.request.headers["X-CSRFToken"] = token;
});

const SENTENCES = {
  403: gettext("You don’t have access to this anymore. Your text is kept. Reload the page."),
  404: gettext("This doesn’t exist anymore, or you no longer have access."),
  413: gettext("That’s too large to send."),
  503: gettext("The server is busy. Your text is kept. Try again in a moment."),
};

const about = ({ sourceElement, request }) => ({ source: sourceElement, about: request.action });

listen(RESPONSE_ERROR, ({ ctx }) => {
  if (ctx.hx.redirect || ctx.text.includes("<hx-partial")) return;
  ctx.swap = "none";
  if (ctx.sourceElement.matches?.("[data-quiet]")) return;
  const text = SENTENCES[ctx.response.status] ?? gettext("Something went wrong on the server. Your text is kept. Try again.");
  notify(text, about(ctx));
});

listen(REQUEST_ERROR, ({ ctx }) => {
  if (!ctx || ctx.request?.method === "GET") return;
  const text = navigator.onLine
    ? gettext("Can’t reach the server. Your text is kept. Try again in a moment.")
    : gettext("You’re offline. Your text is kept. Try again when you’re back online.");
  notify(text, { ...about(ctx), isLost: true });
});

function forgetLost() {
  for (const shown of document.querySelectorAll(".notice[data-lost]")) shown.remove();
}

listen(CONNECTION_STATE, ({ isConnected }) => { if (isConnected) forgetLost(); });
addEventListener("online", forgetLost);

// The place that a form has for a sentence: in it, or at the question that it answers.
function placeBeside(source) {
  if (!source?.isConnected) return null;
  return source.querySelector(".note") ?? source.closest(".ask")?.querySelector(".note") ?? null;
}

function noticeOf(text, address, isLost) {
  const notice = document.getElementById("failure").content.firstElementChild.cloneNode(true);
  notice.querySelector("p").textContent = text;
  if (address) notice.dataset.about = address;
  notice.toggleAttribute("data-lost", isLost === true);
  return notice;
}

listen(NOTICE, ({ text, source, about: address, isLost }) => {
  const notice = noticeOf(text, address, isLost);
  const place = placeBeside(source);
  if (place) {
    // The place is a live region by itself.
    notice.removeAttribute("role");
    place.replaceChildren(notice);
    return;
  }
  const toasts = document.getElementById("toasts");
  for (const shown of [...toasts.children]) if (shown.textContent === notice.textContent) shown.remove();
  toasts.append(notice);
  while (toasts.childElementCount > MAX_TOASTS) toasts.firstElementChild.remove();
});

// Above what lies on top by now: what was shown last is the highest.
onAdded([document.getElementById("toasts")].filter(Boolean), added => {
  const toasts = added.closest("#toasts");
  if (added === toasts || !toasts) return;
  toasts.hidePopover();
  toasts.showPopover();
});

on("click", "[data-close-notice]", button => button.closest(".notice").remove());

listen(AFTER_REQUEST, ({ ctx }) => {
  if (!ctx?.response || ctx.response.status >= 400) return;
  // A later action that worked shows that the server can be reached.
  if (ctx.request.method !== "GET") forgetLost();
  for (const shown of document.querySelectorAll(".notice[data-about]")) {
    if (shown.dataset.about === ctx.request.action) shown.remove();
  }
});
