/* Presets in the composer: one that is chosen in the list of models fills the model, the settings and the tools, and the
   page says when something differs from it. Settings can be reset, and saved as a preset. */
import { announce, csrfToken, notify, on, onSwapped, request, showIf } from "../base/dom.js";
import { gettext, interpolate } from "../base/i18n.js";

const KIND = "preset:";
const SETTINGS = "#parameters [name]:not([name^=preset_])";
const INVALID = 422;
const select = () => document.getElementById("id_choice");
const used = () => document.getElementById("preset-name");
const settings = () => [...document.querySelectorAll(SETTINGS)];
const settingNamed = name => settings().find(field => field.name === name);
const tools = () => [...document.querySelectorAll("#tools-list input[type=checkbox]:not(:disabled)")];
const changed = field => field.dispatchEvent(new Event("change", { bubbles: true }));

// The model that stays if a preset can't be fetched.
let model = select()?.value;
let asked = 0;

/* --- what differs from the preset --- */
const valuesOf = option => JSON.parse(option.dataset.values ?? "{}");
// 1 and 1.0 are the same.
const numberIn = text => (text === "" ? null : Number(text));
const has = (field, value) => (field.type === "number" ? numberIn(field.value) === numberIn(value) : field.value === value);
const isSet = values => Object.entries(values).every(([name, value]) => {
  const field = settingNamed(name);
  return field && has(field, value);
});

// Somebody may have set in the panel what no choice of a control does.
function showControls() {
  for (const control of document.querySelectorAll("[data-preset-control]")) {
    const [...options] = control.options;
    const custom = options.pop();
    (options.find(option => isSet(valuesOf(option))) ?? custom).selected = true;
    // Another model may have none of these parameters.
    control.closest("label").hidden = !options.some(option => Object.keys(valuesOf(option)).some(settingNamed));
  }
}

function differs() {
  const { choice, fields, tools: wanted } = JSON.parse(used().dataset.preset);
  const expected = { ...fields };
  for (const { selectedOptions: [chosen] } of document.querySelectorAll("[data-preset-control]")) {
    Object.assign(expected, valuesOf(chosen));
  }
  return (choice !== "" && select().value !== choice)
    || settings().some(field => !has(field, expected[field.name] ?? ""))
    || tools().some(tool => tool.checked !== wanted.includes(tool.value));
}

function compare() {
  if (!used()) return;
  showControls();
  showIf("preset-changed", differs());
}

/* --- choosing --- */
function offerModel(value) {
  const [...options] = select().options;
  if (options.some(option => option.value === value)) return;
  // A model that the server doesn't list.
  const [server, ...name] = value.split(":");
  const sibling = options.find(option => option.value.startsWith(`${server}:`));
  if (!sibling) return;
  const option = sibling.cloneNode();
  Object.assign(option, { value, label: name.join(":"), textContent: name.join(":") });
  delete option.dataset.hint;
  sibling.parentElement.append(option);
}

function offerPreset({ value, name }) {
  const [...options] = select().options;
  if (options.some(option => option.value === value)) return;
  let group = options.find(option => option.value.startsWith(KIND))?.parentElement;
  if (!group) {
    group = Object.assign(document.createElement("optgroup"), { label: gettext("Presets") });
    select().prepend(group);
  }
  group.append(new Option(name, value));
}

function take(html) {
  const parts = new DOMParser().parseFromString(html, "text/html");
  for (const part of parts.querySelectorAll("[data-into]")) {
    document.getElementById(part.dataset.into)?.replaceChildren(...part.childNodes);
  }
  const { choice, fields, tools: wanted } = JSON.parse(used().dataset.preset);
  offerPreset({ value: used().dataset.option, name: used().querySelector("span").textContent });
  if (choice) offerModel(choice);
  settingNamed("system_prompt").value = fields.system_prompt;
  settingNamed("typed_model").value = "";
  const switched = tools().filter(tool => tool.checked !== wanted.includes(tool.value));
  for (const tool of switched) tool.checked = !tool.checked;
  // In a conversation this stores all of them.
  if (switched.length) changed(switched[0]);
  select().value = choice || model;
  changed(select());
}

async function choose(address) {
  const mine = ++asked;
  const query = new URLSearchParams({ choice: model, conversation: roomOf() });
  try {
    const response = await request(`${address}?${query}`, { headers: { "HX-Request": "true" } });
    const html = await response.text();
    if (mine !== asked) return;
    take(html);
    announce(interpolate(gettext("%(name)s is chosen."), { name: used().innerText }));
  } catch {
    if (mine !== asked) return;
    select().value = model;
    changed(select());
    notify(gettext("The preset couldn’t be loaded."));
  }
}

// The page has the address with a place for the id.
const addressOf = value => document.getElementById("preset-slot").dataset.address.replace(/0{8}-[0-9-]+/, value.slice(KIND.length));
const roomOf = () => document.getElementById("room")?.dataset.room ?? "";

on("change", "#id_choice", ({ value }) => {
  if (!document.getElementById("preset-slot")) return;
  if (value.startsWith(KIND)) {
    choose(addressOf(value));
    return;
  }
  model = value;
  compare();
});

on("change", "[data-preset-control]", ({ selectedOptions: [option] }) => {
  for (const [name, value] of Object.entries(valuesOf(option))) {
    const field = settingNamed(name);
    if (!field) continue;
    field.value = value;
    changed(field);
  }
});

/* --- reset and save --- */
on("click", "[data-reset-settings]", () => {
  if (used()) {
    choose(used().dataset.address);
    return;
  }
  for (const field of settings()) field.value = "";
  changed(settingNamed("system_prompt"));
});

const place = () => document.getElementById("preset-save");

function showForm(html) {
  place().innerHTML = html;
  place().querySelector("[aria-invalid=true], input")?.focus();
}

on("click", "[data-open-save]", async button => {
  const key = document.querySelector("#preset-slot [name=preset]")?.value ?? "";
  const isOpen = place().childElementCount > 0;
  button.ariaExpanded = String(!isOpen);
  if (isOpen) return place().replaceChildren();
  const response = await request(`${button.dataset.address}?${new URLSearchParams({ preset: key })}`, { headers: { "HX-Request": "true" } });
  showForm(await response.text());
});

on("click", "[data-save-preset]", async button => {
  const body = new FormData(document.getElementById("composer"));
  for (const name of ["text", "pictures"]) body.delete(name);
  body.set("conversation", roomOf());
  if (button.dataset.savePreset === "update") body.set("update", "1");
  const opener = document.querySelector("[data-open-save]");
  try {
    const response = await request(opener.dataset.address, {
      method: "POST", body, headers: { "HX-Request": "true", "X-CSRFToken": csrfToken() },
    });
    take(await response.text());
    opener.ariaExpanded = "false";
    opener.focus();
    announce(gettext("Preset saved"));
  } catch ({ response }) {
    if (response?.status === INVALID || response?.status === 409) showForm(await response.text());
    else notify(gettext("The preset couldn’t be saved."));
  }
});

for (const type of ["input", "change"]) on(type, "#parameters, #tools-list", compare);
onSwapped(compare);
addEventListener("pageshow", () => {
  model = select()?.value;
  compare();
});
