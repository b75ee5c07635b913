/* Tools of code blocks: saves a block as a file, and wraps long lines of all of them, which is one of the reading settings. */
import { announce, csrfToken, element, isPlainClick, ofBrowser, on, request } from "../base/dom.js";
import { gettext } from "../base/i18n.js";

const STORED = "tributary.wrap";
const root = document.documentElement;

on("click", ".codeblock .download", button => {
  const code = button.closest(".codeblock").querySelector("pre").textContent;
  const href = URL.createObjectURL(new Blob([code], { type: "text/plain;charset=utf-8" }));
  element("a", { href, download: button.dataset.file }).click();
  // The download has begun by the time that anything else does.
  setTimeout(() => URL.revokeObjectURL(href), 1000);
});

on("click", ".codeblock .wrap", button => {
  const before = button.getBoundingClientRect().top;
  const wraps = root.classList.toggle("wraps-code");
  // Blocks above it may have changed their height: this one stays in its place.
  scrollBy({ top: button.getBoundingClientRect().top - before, behavior: "instant" });
  announce(wraps ? gettext("Long lines of code wrap.") : gettext("Long lines of code don’t wrap."));
  const body = new URLSearchParams(wraps ? { wraps_code: "on" } : {});
  request("/settings/code-wrap/", { method: "POST", body, headers: { "X-CSRFToken": csrfToken() } }).catch(() => {});
  ofBrowser.set(STORED, wraps ? "" : null);
});

// The others are in a dialog.
on("click", "a[data-reading]", async (link, event) => {
  if (!isPlainClick(event)) return;
  event.preventDefault();
  const { openReading } = await import("../accounts/reading.js");
  openReading(link);
});

// Other tabs of the same person follow.
addEventListener("storage", ({ key, newValue }) => {
  if (key === STORED) root.classList.toggle("wraps-code", newValue !== null);
});
