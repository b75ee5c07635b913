/* Answers side by side: tabs where they don't fit beside each other, and what follows a choice or a stop. */
import { element, listen, on, onSwapped } from "../base/dom.js";
import { AFTER_REQUEST, BEFORE_REQUEST, FINALLY_REQUEST, ROOM_ACCEPTED } from "../base/events.js";
import { gettext, milliseconds, seconds } from "../base/i18n.js";

// The style sheet has the same width.
const isNarrow = matchMedia("(width < 56rem)");
const tabsIn = place => [...place.querySelectorAll("[role=tab]")];
const columnOf = tab => document.getElementById(tab.getAttribute("aria-controls"));

function select(tab) {
  for (const each of tabsIn(tab.parentElement)) {
    const isSelected = each === tab;
    each.ariaSelected = String(isSelected);
    each.tabIndex = isSelected ? 0 : -1;
    columnOf(each).classList.toggle("is-selected", isSelected);
  }
}

/* Where all columns are seen, they are sections and no panels of tabs. */
function prepare(columns) {
  const tabs = tabsIn(columns);
  columns.querySelector("[role=tablist]").hidden = !isNarrow.matches;
  columns.classList.add("has-tabs");
  for (const tab of tabs) {
    const column = columnOf(tab);
    if (isNarrow.matches) Object.assign(column, { role: "tabpanel", tabIndex: 0 });
    else for (const name of ["role", "tabindex"]) column.removeAttribute(name);
  }
  select(tabs.find(tab => tab.ariaSelected === "true") ?? tabs[0]);
}

function prepareAll() {
  for (const columns of document.querySelectorAll(".columns")) prepare(columns);
  for (const phase of document.querySelectorAll(".column-state > .phase")) watch(phase);
}

/* --- the time to the first token, before the answer ends and the server says all figures --- */
const WRITES = /#(pen-line|brain)$/;
const watched = new WeakSet();

function watch(phase) {
  if (watched.has(phase)) return;
  watched.add(phase);
  const observer = new MutationObserver(() => { if (noteFirstToken(phase)) observer.disconnect(); });
  // Changes once a second, and not with each word.
  if (!noteFirstToken(phase)) observer.observe(phase, { childList: true });
}

/* Returns whether it is shown. */
function noteFirstToken(phase) {
  const state = phase.parentElement;
  if (!state || state.parentElement.querySelector(".measures")) return true;
  const { sinceMs } = phase.querySelector("time")?.dataset ?? {};
  if (!sinceMs || !WRITES.test(phase.querySelector("use")?.getAttribute("href") ?? "")) return false;
  const value = sinceMs < 95 ? milliseconds(sinceMs) : seconds(sinceMs / 1000, 1);
  state.after(element("dl", { className: "measures" }, element(
    "div", {}, element("dt", {}, gettext("First token")), element("dd", { className: "figure" }, value),
  )));
  return true;
}

on("click", ".column-tab", select);
on("keydown", ".column-tab", (tab, event) => {
  const tabs = tabsIn(tab.parentElement);
  const at = tabs.indexOf(tab);
  const next = {
    ArrowRight: tabs[(at + 1) % tabs.length], ArrowLeft: tabs.at(at - 1), Home: tabs[0], End: tabs.at(-1),
  }[event.key];
  if (!next) return;
  event.preventDefault();
  select(next);
  next.focus();
});

/* --- stop and choose --- */
const buttonOf = form => form.querySelector("button");

listen(BEFORE_REQUEST, (_, { target }) => {
  if (target.matches?.("[data-stop-column]")) buttonOf(target).disabled = true;
});

// The response to it is empty, and the button goes with the end of the answer.
listen(FINALLY_REQUEST, ({ ctx }) => {
  const form = ctx.sourceElement;
  if (form.matches?.("[data-stop-column]") && ctx.response?.status !== 204) buttonOf(form).disabled = false;
});

// The next message goes to the model of the answer, as on the next page.
listen(AFTER_REQUEST, ({ ctx }, { target }) => {
  const value = target.dataset?.choose;
  const choice = document.getElementById("id_choice");
  if (!value || !choice || ctx.hx.trigger !== ROOM_ACCEPTED) return;
  if (choice.value === value || ![...choice.options].some(option => option.value === value)) return;
  choice.value = value;
  choice.dispatchEvent(new Event("change", { bubbles: true }));
});

isNarrow.addEventListener("change", prepareAll);
onSwapped(prepareAll);
prepareAll();
