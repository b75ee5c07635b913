/* The controls of a preset as rows: choices, each with the parameters that it sets. What the form sends are the lines of
   text, which the rows are made from and written into. The parameters and their fields are those of the chosen model. */
import { element, on, onSwapped } from "../base/dom.js";
import { gettext, interpolate } from "../base/i18n.js";

const SWITCHES = { on: "true", off: "false" };
const WORDS = { true: "on", false: "off" };
const controls = () => [...document.querySelectorAll("[data-control]")];
const made = id => document.getElementById(id).content.firstElementChild.cloneNode(true);
const nameOf = control => control.querySelector("input");
const linesOf = control => control.querySelector("textarea");
const dialectNow = () => document.querySelector("#parameter-fields [data-dialect]")?.dataset.dialect ?? "";
let dialect = dialectNow();

/* --- lines --- */
function cut(text, mark) {
  const at = text.indexOf(mark);
  return (at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)]).map(part => part.trim());
}

function choicesIn(text) {
  return text.split("\n").filter(line => line.trim()).map(line => {
    const [label, rest] = cut(line, ":");
    const settings = rest.split(";").filter(pair => pair.trim()).map(pair => cut(pair, "="));
    return { label, settings };
  });
}

// These marks divide a line.
const plain = (text, marks) => text.replace(marks, " ").replace(/\s+/g, " ").trim();

function lineOf(choice) {
  const label = plain(choice.querySelector("[data-label]").value, /:/g);
  const settings = [...choice.querySelectorAll(".control-setting")].map(setting => {
    const parameter = setting.querySelector("[data-parameter]").value;
    const { value } = setting.querySelector("[data-value]");
    const isSwitch = parametersNow().get(parameter)?.kind === "boolean";
    return { parameter, value: isSwitch ? WORDS[value] : plain(value, /;/g) };
  });
  const set = settings.filter(({ parameter }) => parameter).map(({ parameter, value }) => `${parameter} = ${value}`);
  return label || set.length ? [`${label}: ${set.join("; ")}`] : [];
}

function write(control) {
  linesOf(control).value = [...control.querySelectorAll(".control-choice")].flatMap(lineOf).join("\n");
}

/* --- parameters --- */
/* The parameters of the chosen model that fit into a line, by name, each with the field that the form has for it. */
function parametersNow() {
  const fields = document.querySelectorAll("#parameter-fields [name]");
  return new Map([...fields].flatMap(field => {
    const place = field.closest(".field");
    const kind = place?.className.match(/option-(\w+)/)?.[1];
    const name = field.name.slice(dialectNow().length + 1);
    const label = place?.querySelector("label").textContent.trim();
    return ["lines", "json", undefined].includes(kind) ? [] : [[name, { kind, label, field }]];
  }));
}

function nameIn(parameters, written) {
  const folded = written.toLowerCase();
  const found = [...parameters].find(([name, { label }]) => [name.toLowerCase(), label.toLowerCase()].includes(folded));
  return found?.[0] ?? written;
}

function valueField(parameter, value) {
  let field = element("input", { type: "text", autocomplete: "off" });
  if (parameter && parameter.kind !== "text") {
    field = parameter.field.cloneNode(true);
    for (const name of ["id", "name", "placeholder", "aria-describedby"]) field.removeAttribute(name);
    if (field.matches("select")) field.options[0].remove();
  }
  field.classList.add("input");
  field.dataset.value = "";
  const shown = parameter?.kind === "boolean" ? SWITCHES[value.toLowerCase()] ?? value : value;
  if (shown || !field.matches("select")) field.value = shown;
  return field;
}

function settingFor([written, value]) {
  const setting = made("control-setting");
  const select = setting.querySelector("[data-parameter]");
  const parameters = parametersNow();
  const name = nameIn(parameters, written);
  select.append(new Option(gettext("Choose a parameter"), ""));
  for (const [each, { label }] of parameters) select.append(new Option(label, each));
  if (name && !parameters.has(name)) select.append(new Option(interpolate(gettext("%(name)s (not available)"), { name }), name));
  select.value = name;
  setting.querySelectorAll("label")[1].append(valueField(parameters.get(name), value));
  return setting;
}

/* --- rows --- */
function choiceFor({ label, settings }) {
  const choice = made("control-choice");
  choice.querySelector("[data-label]").value = label;
  nameGroup(choice);
  choice.querySelector(".control-settings").append(...(settings.length ? settings : [["", ""]]).map(settingFor));
  return choice;
}

function nameGroup(choice) {
  choice.ariaLabel = choice.querySelector("[data-label]").value || gettext("New choice");
}

const EMPTY = () => [{ label: "", settings: [] }, { label: "", settings: [] }];

function showRows(control) {
  const isEmpty = !linesOf(control).value.trim();
  control.querySelector(".control-rows")?.remove();
  const rows = made("control-rows");
  rows.querySelector(".control-choices").append(...(isEmpty ? EMPTY() : choicesIn(linesOf(control).value)).map(choiceFor));
  control.append(rows);
  control.classList.add("has-rows");
  control.hidden = isEmpty && !nameOf(control).value && !control.querySelector(".field-error");
}

function showAdd() {
  document.querySelector("[data-add-control]").hidden = controls().every(control => !control.hidden);
}

function change(part, work) {
  const control = part.closest("[data-control]");
  work(control);
  write(control);
}

on("input", "[data-control] .control-rows", rows => change(rows, () => rows.querySelectorAll(".control-choice").forEach(nameGroup)));

on("change", "[data-control] [data-parameter]", select => change(select, () => {
  const setting = select.closest(".control-setting");
  setting.querySelector("[data-value]").replaceWith(valueField(parametersNow().get(select.value), ""));
}));

on("change", "[data-control] select[data-value]", field => change(field, () => {}));

on("click", "[data-add-choice]", button => change(button, control => {
  const choice = choiceFor({ label: "", settings: [] });
  control.querySelector(".control-choices").append(choice);
  choice.querySelector("input").focus();
}));

on("click", "[data-add-setting]", button => change(button, () => {
  const setting = settingFor(["", ""]);
  button.closest(".control-choice").querySelector(".control-settings").append(setting);
  setting.querySelector("select").focus();
}));

on("click", "[data-remove-setting]", button => change(button, () => {
  const choice = button.closest(".control-choice");
  button.closest(".control-setting").remove();
  choice.querySelector("[data-add-setting]").focus();
}));

on("click", "[data-remove-choice]", button => change(button, control => {
  button.closest(".control-choice").remove();
  control.querySelector("[data-add-choice]").focus();
}));

on("click", "[data-remove-control]", button => change(button, control => {
  nameOf(control).value = "";
  control.querySelector(".control-choices").replaceChildren(...EMPTY().map(choiceFor));
  control.hidden = true;
  showAdd();
  document.querySelector("[data-add-control]").focus();
}));

on("click", "[data-add-control]", () => {
  const control = controls().find(each => each.hidden);
  control.hidden = false;
  showAdd();
  nameOf(control).focus();
});

// Another model may have other parameters.
onSwapped(() => {
  if (dialectNow() === dialect) return;
  dialect = dialectNow();
  controls().filter(control => !control.hidden).forEach(showRows);
});

if (controls().length) {
  controls().forEach(showRows);
  showAdd();
}
