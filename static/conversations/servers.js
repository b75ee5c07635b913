/* Servers that begin nothing at present: the list beside the composer and a note below it say so. */
(() => {
  "use strict";

  // As the page has it from the server (chat.conversations.forms).
  const DRAINING = " (paused)";

  const identity = option => option.value.split(":")[0];

  function showNote() {
    const note = document.getElementById("choice-note");
    const option = document.getElementById("id_choice")?.selectedOptions[0];
    if (note) note.hidden = !option || !note.dataset.draining.split(" ").includes(identity(option));
  }

  document.addEventListener("servers:draining", event => {
    const note = document.getElementById("choice-note");
    if (!note) return;
    note.dataset.draining = event.detail.draining.join(" ");
    for (const group of document.querySelectorAll("#id_choice optgroup")) {
      const isDraining = event.detail.draining.includes(identity(group.firstElementChild));
      const name = group.label.replace(DRAINING, "");
      group.label = isDraining ? name + DRAINING : name;
    }
    showNote();
  });

  document.addEventListener("change", event => { if (event.target.id === "id_choice") showNote(); });
  document.addEventListener("htmx:after:swap", event => { if (event.target.id !== "live") showNote(); });
  addEventListener("pageshow", showNote);
  showNote();
})();
