/* The draft of this page's composer, on the server and in all tabs of its author. The text in this tab is kept by
   conversations/composer.js, and goes on without a network; when both have changed, the newer one wins and the
   other is offered. */
import { csrfToken, listen, ofTab, on, request } from "../base/dom.js";
import { AFTER_REQUEST, CONNECTION_STATE, ROOM_ACCEPTED } from "../base/events.js";
import { gettext } from "../base/i18n.js";
import { keep } from "../conversations/composer.js";
import { openChannel } from "../live/channels.js";

const SAVE_MS = 1000;
// Who has typed so recently is still writing here.
const WRITING_MS = 10000;
// As in chat/drafts/records.py.
const MOST_CHARACTERS = 20000;
// The server answers each of them, while it can be reached.
const MOST_UNANSWERED = 4;
const room = document.getElementById("room");
const field = () => document.querySelector("#composer textarea[data-draft]");
const place = room?.dataset.room ?? field()?.dataset.draft;
const STORED = `known-draft:${place}`;

// The version and the text that the server and this tab have agreed on, what the server was told since, which it
// may have stored without an answer that arrived, and when the text was last edited.
let known = { version: 0, text: "", unanswered: [], editedAt: Date.now(), ...JSON.parse(ofTab.get(STORED) ?? "{}") };
// What the server was told last, which it may not have stored yet.
let told = { number: 0, text: known.text };
let isOnStream = false;
let isConnected = false;
let timer = null;
let typedAt = -WRITING_MS;
let offered = "";

function know(change) {
  known = { ...known, ...change };
  const isWorthKeeping = known.version || known.text || known.unanswered.length;
  ofTab.set(STORED, isWorthKeeping ? JSON.stringify(known) : null);
}

/* --- saving --- */
// A new conversation in a project has a draft in its tab only.
const { say } = place && !place.startsWith("new-")
  ? openChannel("draft", { shown: () => ({ version: known.version, has_files: Boolean(document.querySelector("#attaching > *")) }), take })
  : { say: null };

function save() {
  clearTimeout(timer);
  timer = null;
  const text = field()?.value;
  if (!say || !isConnected || room?.dataset.isGone || text === undefined) return;
  if (text === told.text || text.length > MOST_CHARACTERS) return;
  told = { number: told.number + 1, text };
  know({ unanswered: [...known.unanswered, text].slice(-MOST_UNANSWERED) });
  if (isOnStream) post(text);
  else say({ version: known.version, text, number: told.number });
}

async function post(text) {
  const address = room ? `${location.pathname}draft/` : "/drafts/new/";
  const body = new URLSearchParams({ text, version: known.version, csrfmiddlewaretoken: csrfToken() });
  // The stream tells of the new version.
  await request(address, { method: "POST", body }).catch(() => { told = { ...told, text: known.text }; });
}

on("input", "#composer textarea[data-draft]", () => {
  typedAt = performance.now();
  know({ editedAt: Date.now() });
  timer ??= setTimeout(save, SAVE_MS);
});

addEventListener("pagehide", save);
document.addEventListener("visibilitychange", () => { if (document.hidden) save(); });

listen(CONNECTION_STATE, detail => {
  const isNew = detail.isConnected && (!isConnected || detail.isStream !== isOnStream);
  ({ isConnected, isStream: isOnStream } = detail);
  if (!isNew) return;
  // What was said before may not have arrived.
  told = { ...told, text: known.text };
  if (ofTab.get(STORED) !== null || field()?.value) save();
});

// After composer.js, which has emptied the field.
listen(AFTER_REQUEST, ({ ctx }, { target }) => {
  if (target.id !== "composer" || ctx.hx.trigger !== ROOM_ACCEPTED) return;
  document.getElementById("draft-note")?.replaceChildren();
  save();
});

/* --- what the server says: that it has stored a text, or that there is another one --- */
function take({ version, text, saved, age, files }) {
  if (files) takeFiles(files);
  else if (text !== undefined) meet({ version, text, age });
  else if (saved === told.number) know({ version, text: told.text, unanswered: [] });
  else know({ version });
}

async function takeFiles(files) {
  const { meetFiles } = await import("../files/other_tabs.js");
  meetFiles(files);
}

function meet({ version, text, age }) {
  const area = field();
  const local = area?.value ?? "";
  const isUnchanged = local === known.text;
  const isFocused = document.activeElement === area && document.hasFocus() && local !== "";
  const isWriting = isFocused && performance.now() - typedAt < WRITING_MS;
  const isNewer = isUnchanged || age < Date.now() - known.editedAt;
  const isFromHere = known.unanswered.includes(text);
  know({ version, text, unanswered: [] });
  told = { ...told, text };
  if (!area || local === text) return;
  // What this tab said before, and has edited or sent since.
  if (isFromHere) return save();
  // The composer has the focus also where nobody is.
  if (isUnchanged && !isWriting) return put(text);
  // Sent or removed elsewhere: what was written here since is a draft of its own.
  if (!text) return isUnchanged ? undefined : save();
  if (!isNewer) {
    offer(text, gettext("You have another draft from another device."), gettext("Use it"));
    save();
  } else if (isFocused) {
    offer(text, gettext("You have a newer draft from another device."), gettext("Use it"));
  } else {
    put(text);
    offer(local, gettext("Your draft was replaced by a newer one from another device."), gettext("Undo"));
  }
}

function put(text) {
  const area = field();
  area.value = text;
  keep(area);
}

function offer(text, sentence, label) {
  const notice = document.getElementById("draft-offer").content.firstElementChild.cloneNode(true);
  offered = text;
  notice.querySelector("p").textContent = sentence;
  notice.querySelector("button").textContent = label;
  document.getElementById("draft-note").replaceChildren(notice);
}

on("click", "[data-use-draft]", () => {
  document.getElementById("draft-note").replaceChildren();
  put(offered);
  know({ editedAt: Date.now() });
  field().focus();
  save();
});
