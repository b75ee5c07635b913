/* Fields for words: they grow, Enter sends, drafts survive; and the choice beside the composer. */
(() => {
  "use strict";

  const PREFIX = "draft:";
  const isCoarse = matchMedia("(pointer: coarse)");
  const composer = document.getElementById("composer");

  /* --- growing, where the browser does not do it by itself --- */

  function grow(field) {
    if (CSS.supports("field-sizing", "content")) return;
    field.style.height = "auto";
    field.style.height = `${field.scrollHeight + 2}px`;
  }

  /* --- drafts: kept per room until the server has accepted the words --- */

  const store = {
    get: name => { try { return sessionStorage.getItem(PREFIX + name); } catch { return null; } },
    set: (name, text) => { try { sessionStorage.setItem(PREFIX + name, text); } catch { /* full or off */ } },
    remove: name => { try { sessionStorage.removeItem(PREFIX + name); } catch { /* off */ } },
  };

  function prepare(field) {
    if (field.dataset.isReady) return;
    field.dataset.isReady = "true";
    const kept = store.get(field.dataset.draft);
    const isPrefilled = field.id === "text" && field.value;
    if (kept && !isPrefilled) field.value = kept;
    grow(field);
    if ("focus" in field.dataset) {
      field.focus();
      field.setSelectionRange(field.value.length, field.value.length);
    }
  }

  function prepareAll() {
    for (const field of document.querySelectorAll("textarea[data-draft]")) prepare(field);
  }

  function keep(field) {
    if (field.value) store.set(field.dataset.draft, field.value);
    else store.remove(field.dataset.draft);
  }

  document.addEventListener("input", event => {
    const field = event.target;
    if (!field.matches?.("textarea[data-draft]")) return;
    grow(field);
    keep(field);
  });

  /* --- sending --- */

  // Some browsers report the Enter that ends a composition only by this code.
  const isComposing = event => event.isComposing || event.keyCode === 229;

  // Not the element of the beginning: who may write here now may not have been able to then.
  const isBusy = form => form.id === "composer" && form.querySelector("[data-stop], .send-stopping") !== null;

  function mayBeSent(form) {
    if (!form.querySelector("textarea").value.trim()) return false;
    if (isBusy(form)) sayBusy();
    return !isBusy(form);
  }

  function sayBusy() {
    const note = document.getElementById("busy-note").content.cloneNode(true);
    document.getElementById("composer-note").replaceChildren(note);
  }

  function forgetBusy() {
    const note = document.querySelector("#composer-note > [data-busy]");
    if (note && !isBusy(note.closest("form"))) note.remove();
  }

  document.addEventListener("keydown", event => {
    const field = event.target;
    if (event.key !== "Enter" || !field.matches?.("textarea[data-enter]") || isComposing(event)) return;
    const isCommand = event.ctrlKey || event.metaKey;
    if (!isCommand && (event.shiftKey || event.altKey || isCoarse.matches)) return;
    event.preventDefault();
    if (mayBeSent(field.form)) field.form.requestSubmit();
  });

  // Enter in the settings beside the composer must not send, or stop, anything.
  composer?.addEventListener("keydown", event => {
    if (event.key === "Enter" && event.target.matches("input:not([type=file]), select")) event.preventDefault();
  });

  document.addEventListener("submit", event => {
    const field = event.target.querySelector?.("textarea[data-enter]");
    if (!field || mayBeSent(event.target)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    field.focus();
  }, true);

  // Where Send was, Stop is: the second half of a double click must not stop what the first began.
  document.addEventListener("click", event => {
    if (event.detail > 1 && event.target.closest?.("[data-stop]")) event.preventDefault();
  });

  // Pressed at once: the answer to it is empty, and the button goes when the page hears of the end.
  // Only what did not succeed gives it back.
  function showStopping(isStopping) {
    const button = document.querySelector("[data-stop]");
    if (button) button.disabled = isStopping;
  }

  document.addEventListener("htmx:before:request", event => { if (event.target.id === "stop-form") showStopping(true); });

  document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
    if (ctx.sourceElement.id === "stop-form" && ctx.response?.status !== 204) showStopping(false);
  });

  // What was typed while the request was under way is not what was accepted.
  const sent = new WeakMap();

  document.addEventListener("htmx:before:request", event => {
    const field = event.target.querySelector?.("textarea[data-draft]");
    if (field) sent.set(event.target, field.value);
  });

  // Before the swap: afterwards the form of an edit is no longer on the page.
  document.addEventListener("htmx:after:request", event => {
    const field = event.target.querySelector?.("textarea[data-draft]");
    if (!field || event.target === document || event.detail.ctx.hx.trigger !== "room:accepted") return;
    field.value = field.value === sent.get(event.target) ? "" : field.value;
    keep(field);
    grow(field);
  });

  document.addEventListener("click", event => {
    const cancel = event.target.closest?.("[data-forget]");
    if (cancel) store.remove(cancel.dataset.forget);
    const starter = event.target.closest?.("[data-fill]");
    if (!starter || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const field = document.getElementById("text");
    field.value = starter.dataset.fill;
    keep(field);
    grow(field);
    field.focus();
  });

  /* --- the parameters of the chosen server's dialect, and only those --- */

  function showDialect() {
    const option = composer?.querySelector("#id_choice")?.selectedOptions[0];
    for (const group of composer?.querySelectorAll("[data-dialect].options-group") ?? []) {
      group.hidden = group.disabled = group.dataset.dialect !== option?.dataset.dialect;
    }
  }

  composer?.addEventListener("change", event => { if (event.target.id === "id_choice") showDialect(); });
  document.addEventListener("htmx:after:swap", event => {
    if (event.target.id === "live") return;
    prepareAll();
    forgetBusy();
  });
  addEventListener("pageshow", () => { prepareAll(); showDialect(); });
  prepareAll();
  showDialect();
})();
