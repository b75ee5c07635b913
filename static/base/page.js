/* The whole page: what failed of its requests, running clocks, the token of the forms. */
(() => {
  "use strict";

  /* --- requests: another tab may have signed in anew, which changes the token --- */

  document.addEventListener("htmx:config:request", event => {
    const token = document.cookie.match(/(?:^|; )(?:__Host-)?csrftoken=([^;]+)/);
    if (token) event.detail.ctx.request.headers["X-CSRFToken"] = token[1];
  });

  const SENTENCES = {
    403: "You may not do that here any more. Reload the page; your text is kept.",
    404: "This is no longer here, or no longer yours.",
    413: "That is too large to be sent.",
  };

  document.addEventListener("htmx:response:error", event => {
    const { ctx } = event.detail;
    if (ctx.hx.redirect || ctx.text.includes("<hx-partial")) return;
    ctx.swap = "none";
    if (ctx.sourceElement.matches?.("[data-quiet]")) return;
    tell(ctx, SENTENCES[ctx.response.status] ?? "The server could not do that. Try again; your text is kept.");
  });

  document.addEventListener("htmx:error", event => {
    if (!event.detail.ctx || event.detail.ctx.request?.method === "GET") return;
    tell(event.detail.ctx, "The server cannot be reached. Nothing is lost: try again in a moment.");
  });

  function tell({ sourceElement, request }, text) {
    const detail = { text, source: sourceElement, about: request.action };
    document.dispatchEvent(new CustomEvent("tributary:notice", { detail }));
  }

  /* --- running clocks: the server says how long it had lasted, the page counts on --- */

  const CLOCK = "time[data-elapsed-ms]";
  const clocks = new Set();
  const began = new WeakMap();

  function find(root) {
    if (root.matches?.(CLOCK)) clocks.add(root);
    for (const clock of root.querySelectorAll?.(CLOCK) ?? []) clocks.add(clock);
  }

  // Noted as they come: a long page has thousands of elements to look through.
  const watch = new MutationObserver(records => {
    for (const { addedNodes } of records) addedNodes.forEach(find);
  });

  for (const place of document.querySelectorAll("#turns, #dock")) {
    find(place);
    watch.observe(place, { childList: true, subtree: true });
  }

  function inWords(milliseconds) {
    const seconds = Math.floor(milliseconds / 1000);
    return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  }

  function tick() {
    for (const clock of clocks) {
      if (!clock.isConnected) clocks.delete(clock);
      if (!clock.closest("#strip, [data-live]")) continue;
      const said = clock.dataset.elapsedMs;
      if (began.get(clock)?.said !== said) began.set(clock, { said, at: performance.now() - Number(said) });
      const text = inWords(performance.now() - began.get(clock).at);
      if (clock.textContent !== text) clock.textContent = text;
    }
  }

  setInterval(() => { if (!document.hidden) tick(); }, 250);
})();
