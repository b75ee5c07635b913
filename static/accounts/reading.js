/* The reading settings: each change is shown at once. Over a conversation their form is a dialog that also stores it;
   the settings page has a button for that. */
import { csrfToken, element, notify, on, request } from "../base/dom.js";
import { gettext } from "../base/i18n.js";

const FORM = "[data-reading-form]";
const root = document.documentElement;
const STANDARD = { width: "", size: "", density: "" };

/* The turn that is being read, and its place. */
function placeOfReading() {
  const turn = [...document.querySelectorAll("#turns > .turn")].find(each => each.getBoundingClientRect().bottom > 80);
  return { turn, top: turn?.getBoundingClientRect().top };
}

function show(form) {
  const { turn, top } = placeOfReading();
  const { width, size, density, wraps_code: wraps } = form.elements;
  const chosen = [width, size, density].map(field => field.value).filter(Boolean).join(" ");
  if (chosen) root.dataset.reading = chosen;
  else delete root.dataset.reading;
  root.classList.toggle("wraps-code", wraps.checked);
  if (turn) scrollBy({ top: turn.getBoundingClientRect().top - top, behavior: "instant" });
}

async function store(form) {
  try {
    const headers = { "HX-Request": "true", "X-CSRFToken": csrfToken() };
    await request(form.action, { method: "POST", body: new FormData(form), headers });
  } catch {
    notify(gettext("Your reading settings couldn’t be saved."));
  }
}

function take(form) {
  show(form);
  if (form.closest("dialog")) store(form);
}

on("change", `${FORM} input`, field => take(field.form));

on("click", "[data-reading-reset]", ({ form }) => {
  for (const [name, value] of Object.entries(STANDARD)) form.elements[name].value = value;
  form.elements.wraps_code.checked = false;
  take(form);
});

/* Opens the dialog; where it can’t be fetched, the link leads to the settings page. */
export async function openReading(link) {
  try {
    const html = await (await request(link.href, { headers: { "HX-Request": "true" } })).text();
    document.getElementById("reading-place")?.remove();
    const place = element("div", { id: "reading-place" });
    place.innerHTML = html;
    document.body.append(place);
    const dialog = place.querySelector("dialog");
    const menu = link.closest("details");
    if (menu) menu.open = false;
    dialog.addEventListener("close", () => {
      place.remove();
      (menu?.querySelector("summary") ?? link).focus();
    });
    dialog.showModal();
  } catch {
    location.assign(link.href);
  }
}
