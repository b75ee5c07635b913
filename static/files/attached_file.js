/* The dialog of an attached file: its text as the model gets it, and the choice of its pages. */
import { announce, isPlainClick, notify, on } from "../base/dom.js";
import { unreachable } from "../base/network.js";
import { choose, read } from "./chips.js";

const TYPING_MS = 300;
const dialog = () => document.getElementById("attached-file");
const body = () => document.getElementById("attached-file-body");
let opened = null;
let timer = null;

export async function openFile(chip) {
  opened = chip;
  try {
    body().innerHTML = await read(chip.dataset.file);
  } catch {
    return notify(unreachable(), { isLost: true });
  }
  dialog().showModal();
}

on("click", "[data-open-file]", (link, event) => {
  if (!isPlainClick(event)) return;
  event.preventDefault();
  openFile(link.closest(".attachment"));
});

on("input", "[data-typed-pages]", field => {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const html = await read(`${opened.dataset.file}?${new URLSearchParams({ pages: field.value })}`).catch(() => null);
    const place = document.getElementById("attached-text");
    if (html === null || !place || !field.isConnected) return;
    place.innerHTML = html;
    announce(place.firstElementChild.textContent);
  }, TYPING_MS);
});

on("submit", "form[data-choose-file]", async (form, event) => {
  event.preventDefault();
  const said = new FormData(form);
  try {
    opened = await choose(opened, said.get("pages") ?? "", said.get("use"));
    dialog().close();
    opened.querySelector("[data-open-file]").focus();
  } catch (error) {
    form.querySelector("[data-refusal]").textContent = error.message;
  }
});
