/* Files of a message: picked, pasted, dropped. They are uploaded at once, and sent by their ids. */
import { announce, listen, on, onSwapped, showIf } from "../base/dom.js";
import { AFTER_REQUEST, CONFIG_REQUEST, FILES_CHANGED, ROOM_ACCEPTED } from "../base/events.js";
import { gettext, interpolate, megabytes, ngettext, percent } from "../base/i18n.js";
import { keep } from "../conversations/composer.js";
import { changed, chips, composer, drop, list, put, say, shownOf } from "./chips.js";
import { upload } from "./uploads.js";
import "./attached_file.js";
import "./fitting.js";

const IMAGES = ["image/png", "image/jpeg", "image/webp", "image/gif"];
// Longer texts that are pasted become a file, as elsewhere: they are read, not edited.
const LONG_PASTE = 4000;
const field = () => document.getElementById("text");
const input = () => document.getElementById("attach-input");
const idsOf = place => [...place.querySelectorAll("[name=files]")].map(({ value }) => value);
const sent = new WeakMap();  // request → the ids of its files

/* Why these files can't be added, or nothing. */
function refusal(files) {
  const { most, mostImages, mostBytes, mostImageBytes } = input().dataset;
  const isImage = file => IMAGES.includes(file.type);
  const limitOf = file => Number(isImage(file) ? mostImageBytes : mostBytes);
  const large = files.find(file => file.size > limitOf(file));
  const images = files.filter(isImage).length + chips().filter(chip => chip.dataset.kind === "image").length;
  if (large) return interpolate(gettext("“%(name)s” is larger than %(size)s."), { name: large.name, size: megabytes(limitOf(large)) });
  if (images > Number(mostImages)) {
    return ngettext("A message can have up to %(count)s image.", "A message can have up to %(count)s images.", Number(mostImages));
  }
  if (files.length + chips().length > Number(most)) {
    return ngettext("A message can have up to %(count)s file.", "A message can have up to %(count)s files.", Number(most));
  }
  return "";
}

/* The chips of the uploads, or nothing. */
function add(files) {
  const reason = refusal(files);
  say(reason);
  return reason ? [] : files.map(start);
}

/* --- a chip while its file is uploaded --- */
function start(file) {
  const chip = document.getElementById("attach-pending").content.firstElementChild.cloneNode(true);
  chip.dataset.name = file.name;
  chip.dataset.kind = IMAGES.includes(file.type) ? "image" : "document";
  chip.querySelector(".attachment-name").textContent = file.name;
  chip.querySelector("[data-retry]").onclick = () => run(chip, file);
  list().append(chip);
  // The list scrolls when it is long.
  chip.scrollIntoView({ block: "nearest" });
  run(chip, file);
  return chip;
}

async function run(chip, file) {
  const stopping = new AbortController();
  const bar = chip.querySelector("progress");
  const button = chip.querySelector("[data-cancel]");
  const facts = chip.querySelector(".attachment-facts");

  function show(text, isRunning) {
    facts.textContent = text;
    bar.hidden = !isRunning;
    chip.toggleAttribute("data-uploading", isRunning);
    chip.classList.toggle("attachment-refused", !isRunning);
    chip.querySelector("[data-retry]").hidden = true;
    button.title = isRunning ? gettext("Cancel") : gettext("Remove");
    button.ariaLabel = interpolate(
      isRunning ? gettext("Cancel the upload of %(name)s") : gettext("Remove %(name)s"), file,
    );
  }

  function onProgress(done) {
    bar.value = done;
    bar.ariaLabel = interpolate(gettext("Upload of %(name)s"), file);
    facts.textContent = interpolate(gettext("Uploading… %(percent)s"), { percent: percent(done) });
  }

  button.onclick = () => {
    stopping.abort();
    drop(chip);
  };
  show("", true);
  onProgress(0);
  try {
    const html = await upload(list().dataset.address, file, { signal: stopping.signal, onProgress });
    if (stopping.signal.aborted) return;
    put(html, chip);
    announce(interpolate(gettext("%(name)s attached."), file));
  } catch (error) {
    if (stopping.signal.aborted) return;
    show(error.message, false);
    chip.querySelector("[data-retry]").hidden = !error.mayHelp;
    announce(`${file.name}: ${error.message}`, { urgent: true });
    changed();
  }
}

/* --- ways in --- */
const filesOf = transfer => [...(transfer?.files ?? [])];
const hasFiles = event => [...(event.dataTransfer?.types ?? [])].includes("Files");

on("change", "#attach-input", place => {
  const files = filesOf(place);
  place.value = "";
  add(files);
});

let pasted = null;  // {chip, text, at}: what was made a file last

document.addEventListener("paste", event => {
  if (!composer() || event.target.form !== composer()) return;
  const files = filesOf(event.clipboardData);
  const text = event.clipboardData.getData("text/plain");
  // Office programs put a picture of the text beside the text; then the text is meant.
  if (files.length && !text) {
    event.preventDefault();
    add(files);
  } else if (text.length > LONG_PASTE && event.target === field()) {
    const [chip] = add([new File([text], `${gettext("Pasted text")}.txt`, { type: "text/plain" })]);
    if (!chip) return;
    event.preventDefault();
    pasted = { chip, text, at: [field().selectionStart, field().selectionEnd] };
    changed();
  }
});

on("click", "[data-undo-paste]", () => {
  const { chip, text, at } = pasted;
  const shown = shownOf(chip);
  pasted = null;
  field().setRangeText(text, ...at, "end");
  keep(field());
  shown.querySelector("[data-remove-file], [data-cancel]")?.click();
  field().focus();
});

// The offer to undo it is there as long as the file is.
listen(FILES_CHANGED, () => {
  showIf("attach-pasted", pasted && shownOf(pasted.chip));
});

for (const type of ["dragover", "drop", "dragleave"]) {
  document.addEventListener(type, event => {
    if (!composer() || !hasFiles(event)) return;
    // Everywhere on the page: beside the composer the browser would leave for the file.
    event.preventDefault();
    composer().classList.toggle("is-dropping", type === "dragover");
    if (type === "drop") add(filesOf(event.dataTransfer));
  });
}

/* --- sending --- */
// A message never goes without a file that its author sees on it.
document.addEventListener("submit", event => {
  if (event.target !== composer()) return;
  const missing = chips().filter(chip => !idsOf(chip).length);
  if (!missing.length) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  say(missing.some(chip => "uploading" in chip.dataset)
    ? gettext("Wait until the upload has finished, or cancel it.")
    : gettext("Remove the files that couldn’t be attached, or try again."));
}, true);

listen(CONFIG_REQUEST, ({ ctx }, { target }) => {
  if (target === composer()) sent.set(ctx, ctx.request.body.getAll("files"));
});

// What was added meanwhile stays.
listen(AFTER_REQUEST, ({ ctx }, { target }) => {
  if (target !== composer() || ctx.hx.trigger !== ROOM_ACCEPTED) return;
  say("");
  for (const chip of chips()) if (idsOf(chip).some(id => sent.get(ctx).includes(id))) chip.remove();
  changed();
});

onSwapped(changed);
addEventListener("pageshow", changed);
