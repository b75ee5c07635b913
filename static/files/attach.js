/* Pictures beside the words: picked, pasted or dropped; shown before they are sent. */
(() => {
  "use strict";

  const MEGABYTE = 1024 * 1024;
  const composer = () => document.getElementById("composer");
  const input = () => document.getElementById("pictures");
  let chosen = [];
  let sent = [];

  /* --- the list, and the field that is posted: always the same files --- */

  function set(files) {
    chosen = files;
    const transfer = new DataTransfer();
    for (const file of files) transfer.items.add(file);
    input().files = transfer.files;
    show();
  }

  function add(files) {
    const { accept, dataset } = input();
    const most = Number(dataset.most);
    const total = files.reduce((sum, file) => sum + file.size, chosen.reduce((sum, file) => sum + file.size, 0));
    const wrong = files.find(file => !accept.split(",").includes(file.type));
    const large = files.find(file => file.size > Number(dataset.mostBytes));
    say("");
    if (wrong) say(`“${wrong.name}” is not a PNG, JPEG, WebP or GIF picture.`);
    else if (large) say(`“${large.name}” is larger than ${Math.round(dataset.mostBytes / MEGABYTE)} MB.`);
    else if (chosen.length + files.length > most) say(`A message takes ${most} pictures at most.`);
    else if (total > Number(dataset.mostTotal)) say("These pictures are together too large for one message.");
    else {
      set([...chosen, ...files]);
      announce(files.map(file => `${file.name} attached.`).join(" "));
      return;
    }
    set(chosen);
  }

  function remove(index) {
    const [file] = chosen.splice(index, 1);
    set(chosen);
    say("");
    announce(`${file.name} removed.`);
    const buttons = composer().querySelectorAll(".attaching button");
    (buttons[Math.min(index, buttons.length - 1)] ?? input()).focus();
  }

  /* --- what one sees and hears --- */

  function announce(text) {
    document.dispatchEvent(new CustomEvent("tributary:announce", { detail: { text } }));
  }

  function say(text) {
    document.getElementById("attach-note").textContent = text;
  }

  function cross() {
    const icon = composer().querySelector(".attach .icon").cloneNode(true);
    const use = icon.querySelector("use");
    use.setAttribute("href", use.getAttribute("href").replace(/#.*/, "#x"));
    return icon;
  }

  function preview(file, index) {
    const item = document.createElement("li");
    const image = document.createElement("img");
    image.alt = file.name;
    const reader = new FileReader();
    reader.addEventListener("load", () => { image.src = reader.result; });
    reader.readAsDataURL(file);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "attaching-remove";
    button.setAttribute("aria-label", `Remove ${file.name}`);
    button.title = "Remove";
    button.append(cross());
    button.addEventListener("click", () => remove(index));
    item.append(image, button);
    return item;
  }

  function show() {
    composer().querySelector(".attaching").replaceChildren(...chosen.map(preview));
    showLimits();
  }

  // A server may not take pictures at all: then they stay here, and that is said before sending.
  function showLimits() {
    const option = document.getElementById("id_choice")?.selectedOptions[0];
    const note = document.getElementById("attach-unsent");
    if (note) note.hidden = !(chosen.length && option?.dataset.images === "no");
  }

  /* --- three ways in --- */

  const filesOf = transfer => [...(transfer?.files ?? [])];
  const hasFiles = event => [...(event.dataTransfer?.types ?? [])].includes("Files");

  document.addEventListener("change", event => {
    if (event.target.id === "id_choice") showLimits();
    if (event.target !== input()) return;
    const picked = [...event.target.files];
    if (picked.length) add(picked);
    else set(chosen);
  });

  document.addEventListener("paste", event => {
    const pictures = filesOf(event.clipboardData).filter(file => file.type.startsWith("image/"));
    // Office programs put a picture of the text beside the text; then the text is meant.
    if (!pictures.length || event.clipboardData.types.includes("text/plain")) return;
    if (event.target.form !== composer() || !composer()) return;
    event.preventDefault();
    add(pictures);
  });

  for (const type of ["dragover", "drop", "dragleave"]) {
    document.addEventListener(type, event => {
      if (!composer() || !hasFiles(event)) return;
      // Everywhere on the page: beside the composer the browser would leave for the picture.
      event.preventDefault();
      composer().classList.toggle("is-dropping", type === "dragover");
      if (type === "drop") add(filesOf(event.dataTransfer));
    });
  }

  /* --- sent: what was added meanwhile stays --- */

  document.addEventListener("htmx:before:request", event => {
    if (event.target === composer()) sent = [...chosen];
  });

  document.addEventListener("htmx:after:request", event => {
    if (event.target !== composer() || event.detail.ctx.hx.trigger !== "room:accepted") return;
    say("");
    set(chosen.filter(file => !sent.includes(file)));
  });

  // A composer that comes anew, because one may write again, has a field without files.
  document.addEventListener("htmx:after:swap", () => {
    if (input() && chosen.length !== input().files.length) set(chosen);
  });
})();
