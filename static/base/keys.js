/* The keyboard: one table of what keys do, from which the help is made as well. Keys without Ctrl or
   Cmd act outside of text alone and can be switched off; none of them destroys anything. */
(() => {
  "use strict";

  const SEQUENCE_MS = 1500;
  const TWICE_MS = 1000;
  const ARRIVAL_MS = 5000;
  const STORED = "single-keys";
  const TYPING = "input, textarea, select, [contenteditable]";
  // What Escape closes before it means anything else.
  const LAYERS = "dialog[open], details.menu[open], :popover-open, #panel:not([hidden])";

  const first = selector => document.querySelector(selector);
  const turns = () => [...document.querySelectorAll("#turns > .turn")];
  const focused = () => document.activeElement?.closest?.("#turns > .turn") ?? null;
  const newestAnswer = () => turns().findLast(turn => turn.matches(".answer-turn"));
  const say = text => document.dispatchEvent(new CustomEvent("tributary:announce", { detail: { text } }));

  /* --- turns --- */

  function focusTurn(turn) {
    if (!turn) return;
    turn.tabIndex = -1;
    turn.focus({ preventScroll: true });
    turn.scrollIntoView({ block: "start" });
  }

  // Where nothing has the focus: what is being read.
  function current() {
    const edge = first(".room-bar")?.getBoundingClientRect().bottom ?? 0;
    return focused() ?? turns().find(turn => turn.getBoundingClientRect().bottom > edge + 8);
  }

  function move(step) {
    const all = turns();
    const at = all.indexOf(current());
    if (!focused()) return focusTurn(all[at] ?? all.at(-1));
    if (at + step < 0) first("#earlier a")?.click();
    focusTurn(all[at + step]);
  }

  function act(selector, otherwise) {
    const target = (focused() ?? newestAnswer())?.querySelector(selector);
    if (target) target.click();
    else if (otherwise) say(otherwise);
  }

  // Only in the turn that was chosen: nothing is written anew by a key that was hit by chance.
  function actOnFocused(selector, otherwise) {
    const target = focused()?.querySelector(selector);
    if (target) target.click();
    else say(otherwise);
  }

  // Another version takes the place of this one: the focus stays at that place.
  function branch(side) {
    const turn = focused() ?? turns().findLast(each => each.querySelector(":scope > footer .siblings"));
    const button = turn?.querySelector(`:scope > footer .siblings > form:${side} button`);
    if (!button) return say(side === "first-child" ? "No version before this one" : "No version after this one");
    const at = turns().indexOf(turn);
    // What is not here by then does not come, and a colleague's turn must not take the focus instead.
    const arrival = new AbortController();
    setTimeout(() => arrival.abort(), ARRIVAL_MS);
    document.addEventListener("room:shown", () => {
      // The room may be shown anew for another reason first.
      if (turns()[at]?.id === turn.id) return;
      arrival.abort();
      focusTurn(turns()[at]);
    }, { signal: arrival.signal });
    button.click();
  }

  function toggleReasoning() {
    const folds = [...(focused() ?? newestAnswer())?.querySelectorAll("details.reasoning") ?? []];
    const isAnyClosed = folds.some(fold => !fold.open);
    for (const fold of folds) fold.open = isAnyClosed;
    if (!folds.length) say("No reasoning here");
  }

  /* --- the page --- */

  function write() {
    first("#text")?.focus();
  }

  function stop() {
    first("#stop-form")?.requestSubmit();
  }

  const editing = () => document.activeElement?.closest?.("form.edit");

  /* --- the table: what is in a group is shown together; `on` are the keys, with Mod for Ctrl or Cmd;
         where `when` says no, the key is the browser's --- */

  const TABLE = [
    { group: "Everywhere", on: ["Mod", "K"], says: "Find a conversation", when: () => first("#find"), does: () => document.dispatchEvent(new Event("search:open")) },
    { group: "Everywhere", on: ["Mod", "Shift", "O"], says: "New conversation", does: () => location.assign(first(".sidebar-new")?.href ?? "/") },
    { group: "Everywhere", on: ["Mod", "Shift", "S"], says: "Show or hide the sidebar", does: () => document.dispatchEvent(new Event("sidebar:toggle")) },
    { group: "Everywhere", on: ["g", "i"], says: "Inbox", does: () => first("[data-inbox]")?.click() },
    { group: "Everywhere", on: ["?"], says: "This help", does: () => help() },
    { group: "Everywhere", on: ["Esc"], says: "Close what lies on top" },
    { group: "Writing", on: ["/"], says: "To the message", does: write },
    { group: "Writing", on: ["Shift", "Esc"], says: "To the message, from anywhere", does: write },
    { group: "Writing", on: ["Enter"], says: "Send" },
    { group: "Writing", on: ["Shift", "Enter"], says: "New line" },
    { group: "Writing", on: ["Mod", "Enter"], says: "Send, also on a touch screen" },
    { group: "Writing", on: ["Mod", "S"], says: "Save an edit", when: editing, does: () => editing().requestSubmit() },
    { group: "Writing", on: ["Mod", "."], says: "Stop the answer", does: stop },
    { group: "Writing", on: ["Esc", "Esc"], says: "Stop the answer, in the message" },
    { group: "Reading", on: ["j"], says: "Next turn", repeats: true, does: () => move(1) },
    { group: "Reading", on: ["k"], says: "Previous turn", repeats: true, does: () => move(-1) },
    { group: "Reading", on: ["g", "n"], says: "Newest answer", does: () => focusTurn(newestAnswer()) },
    { group: "Reading", on: ["t"], says: "Open or close its reasoning", does: toggleReasoning },
    { group: "Reading", on: ["["], says: "Version before this one", does: () => branch("first-child") },
    { group: "Reading", on: ["]"], says: "Version after this one", does: () => branch("last-child") },
    { group: "Reading", on: ["e"], says: "Edit the chosen message", does: () => actOnFocused("footer a[href$='/edit/']", "Choose a message with j or k first") },
    { group: "Reading", on: ["r"], says: "Try the chosen answer again", does: () => actOnFocused("footer form[action$='/retry/'] button", "Choose an answer with j or k first") },
    { group: "Reading", on: ["a"], says: "Files", does: () => first("#to-files")?.click() },
    { group: "Reading", on: ["i"], says: "Details of the answer", does: () => act("[data-details]", "No details here") },
    { group: "Reading", on: ["s"], says: "Who reads this", does: () => first("#to-people")?.click() },
  ];

  const hasMod = row => row.on.includes("Mod");
  const isSingle = row => row.does && !hasMod(row) && !row.on.includes("Shift");
  const singles = TABLE.filter(isSingle);

  /* --- whether single keys act --- */

  let isHereOn = true;  // where nothing can be stored

  function areOn() {
    try { return localStorage.getItem(STORED) !== "off"; } catch { return isHereOn; }
  }

  function switchTo(isOn) {
    isHereOn = isOn;
    try { localStorage.setItem(STORED, isOn ? "on" : "off"); } catch { /* As it was, next time. */ }
  }

  // For others who name a key.
  window.singleKeys = { areOn };

  /* --- pressing --- */

  let begun = null;  // the first key of two, and when
  let escapedAt = -TWICE_MS;

  // Some browsers report a key that belongs to a composition only by this code.
  const isComposing = event => event.isComposing || event.keyCode === 229;

  function combined(event) {
    const key = event.key.length === 1 ? event.key.toUpperCase() : event.key;
    return TABLE.find(row => hasMod(row) && row.does && row.on.at(-1).toUpperCase() === key && row.on.includes("Shift") === event.shiftKey);
  }

  function single(event) {
    const before = begun && performance.now() - begun.at < SEQUENCE_MS ? begun.key : null;
    begun = null;
    const found = singles.find(({ on }) => on.length === 2 && on[0] === before && on[1] === event.key)
      ?? singles.find(({ on }) => on.length === 1 && on[0] === event.key);
    if (!found && singles.some(({ on }) => on.length === 2 && on[0] === event.key)) begun = { key: event.key, at: performance.now() };
    return found;
  }

  function onEscape(event) {
    if (event.shiftKey) {
      event.preventDefault();
      return write();
    }
    const isTwice = performance.now() - escapedAt < TWICE_MS;
    escapedAt = event.target.id === "text" && !first(LAYERS) && !isTwice ? performance.now() : -TWICE_MS;
    if (isTwice && event.target.id === "text" && !first(LAYERS)) stop();
  }

  document.addEventListener("keydown", event => {
    if (event.defaultPrevented || isComposing(event)) return;
    if (event.key === "Escape") return onEscape(event);
    escapedAt = -TWICE_MS;
    const isCommand = event.ctrlKey || event.metaKey;
    // Before anything that looks through the page: with each letter that would be as slow as the page is long.
    if (event.altKey || (!isCommand && (event.target.closest?.(TYPING) || !areOn()))) return;
    if (first("dialog[open]")) return;
    const row = isCommand ? combined(event) : single(event);
    if (!row || (row.when && !row.when())) return;
    event.preventDefault();
    if (!event.repeat || row.repeats) row.does();
  });

  /* --- help --- */

  const isApple = /Mac|iPhone|iPad/.test(navigator.platform);

  function element(name, className, ...children) {
    const made = document.createElement(name);
    if (className) made.className = className;
    made.append(...children);
    return made;
  }

  function line(row) {
    const keys = row.on.map(key => element("kbd", "", key === "Mod" ? (isApple ? "⌘" : "Ctrl") : key));
    const isSequence = row.on.every(key => key.length === 1) || row.on[0] === row.on[1];
    const parts = keys.flatMap((key, at) => at && isSequence ? [element("span", "quiet", "then"), key] : [key]);
    return element("div", "key", element("dt", "", row.says), element("dd", "", ...parts));
  }

  function group(name) {
    const rows = TABLE.filter(row => row.group === name).map(line);
    return element("section", "key-group", element("h3", "", name), element("dl", "", ...rows));
  }

  function help() {
    const dialog = document.getElementById("keys");
    const place = dialog?.querySelector(".key-groups");
    if (!place) return;
    if (!place.hasChildNodes()) place.append(...[...new Set(TABLE.map(row => row.group))].map(group));
    dialog.querySelector("[name=single-keys]").checked = areOn();
    dialog.showModal();
  }

  document.addEventListener("change", event => {
    if (event.target.name === STORED) switchTo(event.target.checked);
  });

  document.addEventListener("click", event => {
    if (event.target.closest?.("[data-keys]")) help();
    // Beside the dialog, on its veil.
    if (event.target.id === "keys") event.target.close();
  });
})();
