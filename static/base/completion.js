/* A list that completes what is being written in a text field: names after "@", prompts after "/". A server finds the
   options; the list is copied into the form of each field from an element of the page. */
import { announce, isComposing, on, request } from "./dom.js";

const FIELD = "textarea[data-draft]";
const PAUSE_MS = 120;

/* `id`: the element of the page with the list, whose data-find is asked for options. `wordsAt(field)`: the place `at`
   where the completion begins and the `words` to look for, or nothing. `choose(field, at, option)` is called with the
   option that a person has chosen. `found(count)`: the sentence for screen readers. */
export function complete({ id, wordsAt, choose, found }) {
  const template = document.getElementById(id);
  if (!template) return { close() {} };

  // The list that is open, its field, and the place where its words begin.
  let open = null;
  let asked = null;
  // Where a list was closed or an option chosen: it stays closed there until its sign is typed again.
  let closedAt = -1;

  function listFor(field) {
    const known = document.getElementById(`${id}-${field.id}`);
    if (known) return known;
    const made = template.cloneNode();
    made.id = `${id}-${field.id}`;
    field.form.append(made);
    return made;
  }

  const optionsOf = list => [...list.querySelectorAll("[role=option]")];

  function activate(option) {
    for (const each of optionsOf(open.list)) {
      each.classList.toggle("is-active", each === option);
      each.ariaSelected = String(each === option);
    }
    option.scrollIntoView({ block: "nearest" });
    open.field.setAttribute("aria-activedescendant", option.id);
  }

  function close() {
    clearTimeout(asked?.timer);
    asked?.abort.abort();
    asked = null;
    if (!open) return;
    open.list.hidden = true;
    open.list.replaceChildren();
    for (const name of ["role", "aria-expanded", "aria-controls", "aria-autocomplete", "aria-activedescendant"]) open.field.removeAttribute(name);
    open = null;
  }

  function show(field, at, html) {
    const list = listFor(field);
    list.innerHTML = html;
    const options = optionsOf(list);
    if (!options.length) return close();
    options.forEach((option, number) => { option.id = `${list.id}-${number}`; });
    list.hidden = false;
    // On a small screen the composer of the home page has no room above it.
    list.classList.remove("is-below");
    const top = document.querySelector(".topbar")?.getBoundingClientRect().bottom ?? 0;
    list.classList.toggle("is-below", list.getBoundingClientRect().top < top);
    if (!open) announce(found(options.length), { about: id });
    open = { field, list, at };
    field.setAttribute("role", "combobox");
    field.setAttribute("aria-autocomplete", "list");
    field.setAttribute("aria-expanded", "true");
    field.setAttribute("aria-controls", list.id);
    activate(options[0]);
  }

  function look(field) {
    const place = wordsAt(field);
    if (!place?.words || place.at !== closedAt) closedAt = -1;
    if (!place || place.at === closedAt || !template.isConnected) return close();
    clearTimeout(asked?.timer);
    asked?.abort.abort();
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      const address = `${template.dataset.find}?${new URLSearchParams({ q: place.words })}`;
      try {
        const response = await request(address, { signal: abort.signal, headers: { "HX-Request": "true" } });
        const html = await response.text();
        if (!abort.signal.aborted && document.activeElement === field) show(field, place.at, html);
      } catch { /* It is written without help. */ }
    }, PAUSE_MS);
    asked = { timer, abort };
  }

  function pick(option) {
    const { field, at } = open;
    close();
    closedAt = at;
    choose(field, at, option);
  }

  on("input", FIELD, look);
  on("focusout", FIELD, close);
  // Not on an option: the field would lose the focus, and the list with it.
  on("pointerdown", `[id^="${id}-"]`, (_, event) => event.preventDefault());
  on("click", `[id^="${id}-"] [role=option]`, pick);
  // Before the field's own keys: Enter sends, and Escape closes what lies below.
  document.addEventListener("keydown", event => {
    if (!open || event.target !== open.field || isComposing(event)) return;
    const options = optionsOf(open.list);
    const at = options.findIndex(option => option.matches(".is-active"));
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) activate(options.at((at + step) % options.length));
    else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey) pick(options[at]);
    else if (event.key === "Escape") {
      closedAt = open.at;
      close();
    } else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  return { close };
}
