/* What failed is said where it failed, or in a toast that stays until it is closed.
   `tributary:notice` has {text, source, about}: the element that asked, and the address that it asked
   for. What is said of an address goes when a request to it has succeeded. */
(() => {
  "use strict";

  const MOST = 3;

  // The place that a form has for a sentence: in it, or at the question that it answers.
  function placeBeside(source) {
    if (!source?.isConnected) return null;
    return source.querySelector(".note") ?? source.closest(".ask")?.querySelector(".note") ?? null;
  }

  function made(text, about) {
    const notice = document.getElementById("failure").content.firstElementChild.cloneNode(true);
    notice.querySelector("p").textContent = text;
    if (about) notice.dataset.about = about;
    return notice;
  }

  document.addEventListener("tributary:notice", ({ detail: { text, source, about } }) => {
    const notice = made(text, about);
    const place = placeBeside(source);
    if (place) {
      // The place is a live region by itself.
      notice.removeAttribute("role");
      place.replaceChildren(notice);
      return;
    }
    const toasts = document.getElementById("toasts");
    for (const said of [...toasts.children]) if (said.textContent === notice.textContent) said.remove();
    toasts.append(notice);
    while (toasts.childElementCount > MOST) toasts.firstElementChild.remove();
  });

  document.addEventListener("click", event => {
    event.target.closest?.("[data-close-notice]")?.closest(".notice").remove();
  });

  document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
    if (!ctx?.response || ctx.response.status >= 400) return;
    for (const said of document.querySelectorAll(".notice[data-about]")) {
      if (said.dataset.about === ctx.request.action) said.remove();
    }
  });
})();
