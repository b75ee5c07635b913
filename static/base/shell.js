/* What every page needs and HTML alone cannot do: menus that close, confirmation, showing a password,
   and times in the reader's own time zone. */
import { listen, matching, on } from "./dom.js";
import { AFTER_PROCESS } from "./events.js";
import { exactTime, gettext, time, timeZone } from "./i18n.js";

function prepare(root) {
  for (const place of matching(root, "time[data-when]")) {
    const date = new Date(place.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    place.textContent = time(date, place.dataset.when);
    place.title = exactTime(date);
    place.removeAttribute("data-when");
  }
  for (const button of matching(root, "[data-reveal][hidden]")) button.hidden = false;
  // On a phone the current tab may lie outside of the row.
  for (const tab of matching(root, ".tabs > [aria-current]")) {
    const { parentElement: row } = tab;
    row.scrollLeft = tab.offsetLeft - row.offsetLeft - (row.clientWidth - tab.offsetWidth) / 2;
  }
}

/* --- menus: a click elsewhere or Escape closes them --- */
document.addEventListener("click", event => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("keydown", event => {
  // Not with each letter: it looks through the whole page.
  const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
  if (!menu) return;
  event.preventDefault();
  menu.open = false;
  menu.querySelector("summary").focus();
});
on("click", "[data-reveal]", button => {
  const input = document.getElementById(button.dataset.reveal);
  const isShown = input.type === "password";
  input.type = isShown ? "text" : "password";
  button.setAttribute("aria-pressed", String(isShown));
  const use = button.querySelector("use");
  use.setAttribute("href", use.getAttribute("href").replace(/#.*/, isShown ? "#eye-off" : "#eye"));
});

// A link to a part of the page opens what is folded there.
on("click", ".side-list a", ({ hash }) => {
  const fold = document.querySelector(`${hash} > details`);
  if (fold) fold.open = true;
});

on("change", "[data-submit]", field => field.form.requestSubmit());

/* --- forms that ask before they act, whatever or with one of their buttons: data-confirm holds the
   question, data-confirm-go the verb --- */
let confirmed = null;

document.addEventListener("submit", event => {
  const { target: form, submitter } = event;
  const dialog = document.getElementById("confirm");
  const asking = submitter?.dataset.confirm ? submitter : form;
  if (!asking.dataset?.confirm || !dialog) return;
  if (confirmed === form) {
    confirmed = null;
    return;
  }
  event.preventDefault();
  event.stopImmediatePropagation();
  dialog.querySelector("#confirm-text").textContent = asking.dataset.confirm;
  dialog.querySelector("#confirm-go").textContent = asking.dataset.confirmGo ?? gettext("Continue");
  dialog.returnValue = "";
  dialog.addEventListener("close", () => {
    if (dialog.returnValue !== "go") return;
    confirmed = form;
    form.requestSubmit(submitter);
  }, { once: true });
  dialog.showModal();
}, true);

/* --- the reader's time zone, in which the server writes times as well (chat.web.time_zone) --- */
const secure = location.protocol === "https:" ? "; secure" : "";
if (timeZone) document.cookie = `timezone=${timeZone}; path=/; max-age=31536000; samesite=lax${secure}`;

prepare(document);
// Only what was inserted: the whole document at every frame would be quadratic.
listen(AFTER_PROCESS, (_, event) => prepare(event.target));
