/* Pictures of a message: picked, pasted, dropped, or of the project; shown before they are sent. */
import { announce, element, listen, ofTab, on, showIf } from "../base/dom.js";
import { AFTER_REQUEST, AFTER_SWAP, CONFIG_REQUEST, ROOM_ACCEPTED } from "../base/events.js";
import { gettext, interpolate, megabytes, ngettext } from "../base/i18n.js";
import { chosenModel } from "../conversations/model_choice.js";
import { keepPictures, keptPictures } from "./kept_pictures.js";

const composer = () => document.getElementById("composer");
const input = () => document.getElementById("pictures");
const draft = () => composer().querySelector("[data-draft]").dataset.draft;
const shared = () => [...document.querySelectorAll("#composer [name=project_files]:checked")];
let chosen = [];
const sent = new WeakMap();  // request → its pictures
const say = text => { document.getElementById("attach-note").textContent = text; };

/* --- the list, and the field that is posted: always the same files --- */
function set(files) {
  chosen = files;
  const transfer = new DataTransfer();
  for (const file of files) transfer.items.add(file);
  input().files = transfer.files;
  keepPictures(draft(), files);
  show();
}

function show() {
  const pictures = [...shared().map(sharedPreview), ...chosen.map(preview)];
  composer().querySelector(".attaching").replaceChildren(...pictures);
  ofTab.set(sharedKey(), shared().map(({ value }) => value).join(" ") || null);
  showLimits();
}

const sharedKey = () => `shared:${draft()}`;

/* What was attached before a reload. */
async function restore() {
  const values = ofTab.get(sharedKey())?.split(" ") ?? [];
  for (const box of document.querySelectorAll("#composer [name=project_files]")) box.checked ||= values.includes(box.value);
  if (shared().length) show();
  const kept = await keptPictures(draft());
  if (kept.length && composer()) set([...kept, ...chosen]);
}

/* Why these files cannot be added, or nothing. */
function refusal(files) {
  const { accept, dataset } = input();
  const total = [...chosen, ...files].reduce((sum, file) => sum + file.size, 0);
  const wrong = files.find(file => !accept.split(",").includes(file.type));
  const large = files.find(file => file.size > Number(dataset.mostBytes));
  if (wrong) return interpolate(gettext("“%(name)s” isn’t a PNG, JPEG, WebP or GIF image."), wrong);
  if (large) return interpolate(gettext("“%(name)s” is larger than %(size)s."), { name: large.name, size: megabytes(dataset.mostBytes) });
  if (shared().length + chosen.length + files.length > Number(dataset.most)) {
    return ngettext("A message can have up to %(count)s image.", "A message can have up to %(count)s images.", Number(dataset.most));
  }
  return total > Number(dataset.mostTotal) ? gettext("Together, these images are too large for one message.") : "";
}

function add(files) {
  const reason = refusal(files);
  say(reason);
  set(reason ? chosen : [...chosen, ...files]);
  if (!reason) announce(files.map(({ name }) => interpolate(gettext("%(name)s attached."), { name })).join(" "));
}

function remove(index) {
  const [{ name }] = chosen.splice(index, 1);
  set(chosen);
  removed(name, shared().length + index);
}

function removed(name, index) {
  say("");
  announce(interpolate(gettext("%(name)s removed."), { name }));
  const buttons = composer().querySelectorAll(".attaching button");
  (buttons[Math.min(index, buttons.length - 1)] ?? input()).focus();
}

/* --- what one sees --- */
function cross() {
  const icon = composer().querySelector(".attach .icon").cloneNode(true);
  const use = icon.querySelector("use");
  use.setAttribute("href", use.getAttribute("href").replace(/#.*/, "#x"));
  return icon;
}

function preview(file, index) {
  const image = element("img", { alt: file.name });
  const reader = new FileReader();
  reader.addEventListener("load", () => { image.src = reader.result; });
  reader.readAsDataURL(file);
  return removable(image, () => remove(index));
}

function sharedPreview(box, index) {
  const { src } = box.parentElement.querySelector("img");
  const name = box.parentElement.textContent.trim();
  return removable(element("img", { src, alt: name }), () => {
    box.checked = false;
    show();
    removed(name, index);
  });
}

function removable(image, onRemove) {
  const ariaLabel = interpolate(gettext("Remove %(name)s"), { name: image.alt });
  const button = element("button", { type: "button", className: "attaching-remove", ariaLabel, title: gettext("Remove") }, cross());
  button.addEventListener("click", onRemove);
  return element("li", {}, image, button);
}

// A server may not take pictures at all: then they stay here, and that is said before sending.
function showLimits() {
  showIf("attach-unsent", (chosen.length || shared().length) && chosenModel()?.dataset.images === "no");
}

/* --- four ways in --- */
const filesOf = transfer => [...(transfer?.files ?? [])];
const hasFiles = event => [...(event.dataTransfer?.types ?? [])].includes("Files");
on("change", "#id_choice", showLimits);

on("change", "#pictures", ({ files }) => {
  const picked = [...files];
  if (picked.length) add(picked);
  else set(chosen);
});

on("change", "[name=project_files]", box => {
  const reason = refusal([]);
  if (reason) box.checked = false;
  say(reason);
  show();
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
listen(CONFIG_REQUEST, ({ ctx }, { target }) => {
  if (target === composer()) sent.set(ctx, { files: [...chosen], boxes: shared() });
});

listen(AFTER_REQUEST, ({ ctx }, { target }) => {
  if (target !== composer() || ctx.hx.trigger !== ROOM_ACCEPTED) return;
  say("");
  const { files, boxes } = sent.get(ctx);
  for (const box of boxes) box.checked = false;
  set(chosen.filter(file => !files.includes(file)));
});

// A composer that is inserted, because one may write again, has a field without files.
listen(AFTER_SWAP, () => { if (input() && chosen.length !== input().files.length) set(chosen); });

if (composer()) restore();
