/* Sends a file to import in pieces: it may be larger than a request, and its progress is known. A piece
   whose response is lost is sent again. Without this script the form sends the file as a whole. */
import { csrfToken, on } from "../base/dom.js";
import { gettext, interpolate, number, percent } from "../base/i18n.js";

const MOST_ATTEMPTS = 5;
const PAUSE_MS = 1000;
// The storage has no room: trying again does not help.
const FULL = 507;
const LOST = gettext("The upload was interrupted. Check your connection and upload the file again.");
const BROKEN = gettext("The server couldn’t take the file. Try again in a moment.");
const pause = ms => new Promise(resolve => setTimeout(resolve, ms));
const inMegabytes = bytes =>
  number(bytes / 1024 ** 2, { style: "unit", unit: "megabyte", maximumFractionDigits: 1 });

// The message is for people. What is refused for good isn't sent again.
class Answered extends Error {}
class Refused extends Answered {}

async function post(address, body, signal) {
  const headers = { "X-CSRFToken": csrfToken() };
  const response = await fetch(address, { method: "POST", body, headers, signal, redirect: "error" });
  if (response.ok) return response;
  const text = response.headers.get("Content-Type")?.startsWith("text/plain") ? await response.text() : BROKEN;
  throw response.status < 500 || response.status === FULL ? new Refused(text) : new Answered(text);
}

async function postPatiently(address, body, signal) {
  for (let attempt = 1; ; attempt++) {
    try { return await post(address, body, signal); } catch (error) {
      if (signal.aborted || error instanceof Refused || attempt === MOST_ATTEMPTS) throw error;
      await pause(attempt * PAUSE_MS);
    }
  }
}

function show(form, done, total) {
  form.querySelector(".upload-figures").textContent = interpolate(gettext("%(done)s of %(total)s"), {
    done: inMegabytes(done), total: inMegabytes(total),
  });
  const bar = form.querySelector("progress");
  bar.value = 100 * done / total;
  bar.setAttribute("aria-valuetext", percent(Math.floor(bar.value)));
}

function setBusy(form, isBusy) {
  form.querySelector(".upload-state").hidden = !isBusy;
  form.querySelector(".upload-cancel").hidden = !isBusy;
  for (const control of form.querySelectorAll("input, select, button:not(.upload-cancel)")) control.disabled = isBusy;
}

async function upload(form, file, team, signal) {
  const about = new URLSearchParams({ team, name: file.name, size: file.size });
  const begun = await (await post(form.dataset.upload, about, signal)).json();
  const cancel = () => post(begun.cancel, null).catch(() => null);
  try {
    for (let sent = 0, piece = 0; sent < file.size; piece++) {
      show(form, sent, file.size);
      const part = file.slice(sent, sent + begun.piece_bytes);
      await postPatiently(`${begun.pieces}${piece}/`, part, signal);
      sent += part.size;
    }
    await postPatiently(begun.end, null, signal);
  } catch (error) {
    await cancel();
    throw error;
  }
}

on("submit", "form[data-upload]", async (form, event) => {
  const file = form.elements.file.files[0];
  if (!file) return;
  event.preventDefault();
  const team = form.elements.team.value;
  const stopping = new AbortController();
  const said = form.querySelector(".upload-error");
  form.querySelector(".upload-cancel").onclick = () => stopping.abort();
  said.textContent = "";
  setBusy(form, true);
  try {
    await upload(form, file, team, stopping.signal);
    location.reload();
  } catch (error) {
    setBusy(form, false);
    if (!stopping.signal.aborted) said.textContent = error instanceof Answered ? error.message : LOST;
  }
});
