/* Quotes a passage of a turn in the composer, as Markdown: its plain text, lists and rows line by line, code as code. */
import { announce, notify } from "../base/dom.js";
import { gettext, interpolate, number } from "../base/i18n.js";

// A question about a longer passage is better asked about a part of it. The model has the conversation anyway.
const MOST_CHARACTERS = 4000;
// Tools of the page, drawings, marks of sources and notes.
const LEFT_OUT = "button, svg, details:not([open]) > :not(summary), .visually-hidden, .code-bar, .drawing, .mark, .note-mark, .icon, .figures, summary .badge";
const BLOCKS = "p, div, section, h1, h2, h3, h4, h5, h6, ul, ol, li, blockquote, table, tr, details, summary, figure, hr";
const WHOLE = ".turn-body > .words, .answer .item.message";
const FENCE = "`".repeat(3);

const elementAt = node => node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement;
const languageOf = pre => pre.closest(".codeblock")?.querySelector(".language")?.textContent.trim().toLowerCase() ?? "";

/* A fence that the code does not end. */
function fenceFor(code) {
  const runs = code.match(/`+/g) ?? [];
  return "`".repeat(Math.max(FENCE.length, ...runs.map(run => run.length + 1)));
}

function fenced(code, language) {
  const fence = fenceFor(code);
  return [`${fence}${language}`, ...code.replace(/\n+$/, "").split("\n"), fence];
}

function inlineCode(text) {
  const fence = /`/.test(text) ? "``" : "`";
  return `${fence}${text}${fence}`;
}

function formula(math) {
  const source = math.querySelector("annotation")?.textContent ?? math.textContent;
  return math.classList.contains("display") ? `$$${source.trim()}$$` : `$${source.trim()}$`;
}

/* The lines of the text below a node. `keepsLines`: the words of people have their own line breaks. */
function linesOf(root, keepsLines) {
  const lines = [];
  let line = "";
  let marker = "";

  function end() {
    const text = line.replace(/[ \t]+/g, " ").trim();
    if (text) lines.push(`${marker}${text}`);
    if (text) marker = "";
    line = "";
  }

  function gap() {
    end();
    if (lines.length && lines.at(-1) !== "") lines.push("");
  }

  function addText(text) {
    if (!keepsLines) {
      line += text.replace(/\s+/g, " ");
      return;
    }
    text.split("\n").forEach((part, at) => {
      if (at) end();
      line += part;
    });
  }

  function markerOf(item) {
    const list = item.parentElement;
    if (list?.matches("ol")) return `${(list.start ?? 1) + [...list.children].indexOf(item)}. `;
    return "- ";
  }

  function add(node) {
    if (node.nodeType === Node.TEXT_NODE) return addText(node.data);
    if (node.nodeType !== Node.ELEMENT_NODE || node.matches(LEFT_OUT)) return undefined;
    if (node.matches("br")) return keepsLines ? undefined : end();
    if (node.matches(".math")) return void (line += formula(node));
    if (node.matches("pre")) {
      gap();
      lines.push(...fenced(node.textContent, languageOf(node)), "");
      return undefined;
    }
    if (node.matches("code")) return void (line += inlineCode(node.textContent));
    if (!node.matches(BLOCKS)) {
      node.childNodes.forEach(add);
      if (node.matches("td, th") && node.nextElementSibling) line += " | ";
      return undefined;
    }
    const isLine = node.matches("li, tr");
    if (isLine || node.parentElement?.matches("li")) end();
    else gap();
    if (node.matches("li")) marker = markerOf(node);
    node.childNodes.forEach(add);
    if (isLine) end();
    else if (!node.parentElement?.matches("li")) gap();
    return undefined;
  }

  add(root);
  end();
  while (lines.at(-1) === "") lines.pop();
  return lines;
}

/* A copy of a range. A list of which the first entries are left out keeps its numbers. */
function copyOf(range) {
  const around = range.commonAncestorContainer;
  const place = document.createElement(around.nodeName === "OL" ? "ol" : "div");
  place.append(range.cloneContents());
  const copy = place.matches("ol") ? place : place.querySelector("ol");
  let list = elementAt(range.startContainer).closest("ol");
  while (list !== around && list?.parentElement.closest("ol")) list = list.parentElement.closest("ol");
  if (copy && list) copy.start = list.start + [...list.children].findIndex(item => range.intersectsNode(item));
  return place;
}

function linesIn({ turn, part, range }) {
  if (!range) {
    const parts = [...turn.querySelectorAll(WHOLE)];
    return parts.flatMap((each, at) => [...(at ? [""] : []), ...linesOf(each, each.matches(".words"))]);
  }
  const around = elementAt(range.commonAncestorContainer);
  const [pre, math, code] = ["pre", ".math", "code"].map(selector => around.closest(selector));
  const text = String(range);
  if (pre && part.contains(pre)) return text.trim().includes("\n") ? fenced(text.replace(/^\n+/, ""), languageOf(pre)) : [inlineCode(text.trim())];
  if (math && part.contains(math)) return [formula(math)];
  if (code && part.contains(code)) return [inlineCode(text.trim())];
  return linesOf(copyOf(range), part.matches(".turn-body"));
}

/* The first lines, with as many characters as are quoted, and whether some are left out. */
function bounded(lines) {
  const kept = [];
  let left = MOST_CHARACTERS;
  let fence = "";
  for (const line of lines) {
    if (line.length > left) {
      const words = line.slice(0, left).replace(/\s+\S*$/, "");
      kept.push(...(words ? [`${words} …`] : ["…"]), ...(fence ? [fence] : []));
      return { kept, isCut: true };
    }
    const mark = line.match(/^`{3,}/)?.[0];
    if (mark) fence = fence ? "" : mark;
    kept.push(line);
    left -= line.length + 1;
  }
  return { kept, isCut: false };
}

/* Quotes `passage`, {turn, part, range}, at the caret of a field; without a range, all words of the turn. */
export function quote(passage, field) {
  const { kept, isCut } = bounded(linesIn(passage));
  if (!kept.length) return announce(gettext("There is no text to ask about"));
  const text = kept.map(line => `> ${line}`.trimEnd()).join("\n");
  const at = field.selectionEnd;
  const [before, after] = [field.value.slice(0, at), field.value.slice(at)];
  const lead = !before || before.endsWith("\n\n") ? "" : before.endsWith("\n") ? "\n" : "\n\n";
  field.setRangeText(`${lead}${text}\n\n`, at, at + after.match(/^\n*/)[0].length, "end");
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
  if (field.selectionEnd === field.value.length) field.scrollTop = field.scrollHeight;
  if (isCut) notify(interpolate(gettext("The passage is long. Its first %(count)s characters were quoted."), { count: number(MOST_CHARACTERS) }));
  else announce(gettext("Quoted in your message"));
  return undefined;
}
