/* Tools of code blocks: keeps a block as a file, and wraps long lines of all of them, which is remembered. */
(() => {
  "use strict";

  const KEPT = "tributary.wrap";
  const root = document.documentElement;

  const announce = text => document.dispatchEvent(new CustomEvent("tributary:announce", { detail: { text } }));

  function keep(button) {
    const code = button.closest(".codeblock").querySelector("pre").textContent;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([code], { type: "text/plain;charset=utf-8" }));
    link.download = button.dataset.file;
    link.click();
    // The download has begun by the time that anything else does.
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function wrap(button) {
    const before = button.getBoundingClientRect().top;
    const wraps = root.classList.toggle("wraps-code");
    // Blocks above it may have changed their height: the one that was meant stays in its place.
    scrollBy({ top: button.getBoundingClientRect().top - before, behavior: "instant" });
    try {
      if (wraps) localStorage.setItem(KEPT, "");
      else localStorage.removeItem(KEPT);
    } catch { /* As long as the page. */ }
    announce(wraps ? "Long lines of code are wrapped." : "Long lines of code are not wrapped.");
  }

  document.addEventListener("click", event => {
    const button = event.target.closest?.(".codeblock .download, .codeblock .wrap");
    if (!button) return;
    if (button.matches(".wrap")) wrap(button);
    else keep(button);
  });

  // Other tabs of the same person follow.
  function follow() {
    try { root.classList.toggle("wraps-code", localStorage.getItem(KEPT) !== null); } catch { /* As it is. */ }
  }

  addEventListener("storage", event => { if (event.key === KEPT) follow(); });
  follow();
})();
