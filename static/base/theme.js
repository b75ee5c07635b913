/* The person's choice of colours, known before anything is drawn: light, dark, or those of the system. */
(() => {
  "use strict";

  const STORED = "theme";
  const { dataset } = document.documentElement;

  function show(theme) {
    if (theme === "light" || theme === "dark") dataset.theme = theme;
    else delete dataset.theme;
  }

  try { show(localStorage.getItem(STORED)); } catch { /* Those of the system. */ }

  document.addEventListener("theme:change", ({ detail: { theme } }) => {
    show(theme);
    try { localStorage.setItem(STORED, theme); } catch { /* Until the next page. */ }
  });
  addEventListener("storage", ({ key, newValue }) => { if (key === STORED) show(newValue); });
})();
