/* The whole page: keyboard, one notice, running clocks, the token of the forms. */
(() => {
  "use strict";

  /* --- a notice above the content, for what has no place of its own --- */

  document.addEventListener("tributary:notice", event => {
    const notice = document.createElement("div");
    notice.className = "notice notice-bad";
    const text = document.createElement("p");
    text.textContent = event.detail.text;
    notice.append(text);
    document.getElementById("notices").replaceChildren(notice);
  });

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
    const sentence = SENTENCES[ctx.response.status] ?? "The server could not do that. Try again; your text is kept.";
    document.dispatchEvent(new CustomEvent("tributary:notice", { detail: { text: sentence } }));
  });

  document.addEventListener("htmx:error", event => {
    if (!event.detail.ctx || event.detail.ctx.request?.method === "GET") return;
    const text = "The server cannot be reached. Nothing is lost: try again in a moment.";
    document.dispatchEvent(new CustomEvent("tributary:notice", { detail: { text } }));
  });

  /* --- keyboard --- */

  const isTyping = target => target.closest?.("input, textarea, select, [contenteditable]");

  document.addEventListener("keydown", event => {
    const hasCommand = event.ctrlKey || event.metaKey;
    if (hasCommand && event.shiftKey && event.key.toLowerCase() === "o") {
      event.preventDefault();
      location.assign(document.querySelector(".sidebar-new").href);
    } else if (hasCommand && event.key === ".") {
      const stop = document.getElementById("stop-form");
      if (!stop) return;
      event.preventDefault();
      stop.requestSubmit();
    } else if (event.key === "/" && !hasCommand && !event.altKey && !isTyping(event.target)) {
      const text = document.getElementById("text");
      if (!text) return;
      event.preventDefault();
      text.focus();
    }
  });

  /* --- running clocks: the server says how long it had lasted, the page counts on --- */

  const began = new WeakMap();

  function inWords(milliseconds) {
    const seconds = Math.floor(milliseconds / 1000);
    return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  }

  function tick() {
    // Only where something is live: a long page has thousands of elements.
    for (const place of document.querySelectorAll("#strip, [data-live]")) {
      for (const clock of place.querySelectorAll("time[data-elapsed-ms]")) {
        const said = clock.dataset.elapsedMs;
        if (began.get(clock)?.said !== said) began.set(clock, { said, at: performance.now() - Number(said) });
        const text = inWords(performance.now() - began.get(clock).at);
        if (clock.textContent !== text) clock.textContent = text;
      }
    }
  }

  setInterval(() => { if (!document.hidden) tick(); }, 250);
})();
