/* Shows a batch the way our pages show patches, sends events to all of it, and reports what does not
   belong there. It is a script of the page because scripts of DevTools are subject to no policy. */
(() => {
  "use strict";

  const rules = JSON.parse(document.getElementById("rules").textContent);
  const tags = new Set(rules.tags);
  const attributes = new Set(rules.attributes);
  const classes = new Set(rules.classes);
  const answer = document.getElementById(rules.answer);
  const live = document.getElementById("live");

  window.hits = [];
  window.hit = (...said) => { window.hits.push(said.join()); };
  for (const name of ["alert", "confirm", "prompt", "print", "open"]) window[name] = window.hit;
  window.violations = [];
  addEventListener("securitypolicyviolation", event => window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));

  // A click leads nowhere, so that the rest can be inspected; only scripts of links run.
  document.addEventListener("click", event => {
    const link = event.target.closest?.("a, area");
    if (link && link.protocol !== "javascript:") event.preventDefault();
  }, true);

  /* --- what does not belong there --- */

  // Not by the element's own property: the fields of a form hide it if they have its name.
  const allOf = Object.getOwnPropertyDescriptor(Element.prototype, "attributes").get;
  const attributesOf = element => [...allOf.call(element)];

  // What KaTeX made may be anything without a name, a URL or an event handler.
  const DRAWN = ".math :is(.katex, .katex-display, .katex *, .katex-display *)";
  const ACTIVE = /^(on|hx|data|sse|ws|id$|name$|src|href|xlink|is$)/i;
  const [kept, medium, note] = [rules.kept, rules.medium, rules.note].map(pattern => new RegExp(pattern));
  const isOurs = href => href.startsWith("/static/icons.svg#") || href.startsWith(`#${rules.answer}-`) || kept.test(href) || note.test(href);

  function wrongLink(a) {
    const href = a.getAttribute("href");
    if (href === null || isOurs(href)) return "";
    // An invalid URL has no protocol and leads nowhere.
    if (!/^(https?|mailto):$/.test(a.protocol) && !(a.protocol === ":" && /^(https?|mailto):/i.test(href))) return `scheme ${a.protocol}`;
    if (a.origin === rules.origin) return "leads into the application";
    const rel = (a.getAttribute("rel") ?? "").split(" ");
    if (!rel.includes("noopener") || !rel.includes("noreferrer") || a.getAttribute("target") !== "_blank") return "no rel or target";
    return "";
  }

  function wrongAttribute(element, { name, value }) {
    if (/^(on|style|hx-|sse-|ws-|data-hx-|is$|slot$|srcdoc)/i.test(name) || !attributes.has(name)) return true;
    if (name === "id") return !value.includes(rules.answer) && !note.test(value);
    if (name === "class") return value.split(" ").some(one => one && !classes.has(one) && !/^hl-[a-z-]+$/.test(one));
    if (name === "src" && element.localName === "audio") return !medium.test(value);
    if (name === "src") return !value.startsWith("data:image/");
    if (name === "href" && element.localName !== "a") return !isOurs(value);
    return false;
  }

  function problemsIn(fragment) {
    const found = [];
    const drawn = new Set(fragment.querySelectorAll(DRAWN));
    for (const element of drawn) for (const { name } of attributesOf(element)) if (ACTIVE.test(name)) found.push(`drawn ${name} ${element.outerHTML}`);
    for (const element of [fragment, ...fragment.querySelectorAll("*")]) {
      if (drawn.has(element) || element.hasAttribute("data-n")) continue;
      const outer = () => `${element.closest("[data-n]")?.dataset.n}: ${element.outerHTML.slice(0, 300)}`;
      if (!tags.has(element.localName)) found.push(`tag ${outer()}`);
      for (const each of attributesOf(element)) if (wrongAttribute(element, each)) found.push(`attribute ${each.name} ${outer()}`);
      if (element.localName === "a" && wrongLink(element)) found.push(`${wrongLink(element)} ${outer()}`);
      // The form of a retry is below the answer.
      const isRetry = element.matches("button.retry") && /^retry-[0-9a-f]{32}$/.test(element.getAttribute("form"));
      if (element.localName === "button" && !isRetry && !element.matches(".code-tool, .later, .show-picture")) found.push(`button ${outer()}`);
      if (element.localName === "input" && !(element.disabled && element.type === "checkbox") && !element.matches(".choice input, input.choice, [type=radio]")) found.push(`input ${outer()}`);
    }
    return found;
  }

  // HTML that is serialised and parsed again must stay the same.
  function mutates(fragment) {
    const shown = fragment.cloneNode(true);
    for (const drawn of shown.querySelectorAll(".math")) drawn.replaceChildren();
    const again = document.createElement("template");
    again.innerHTML = shown.outerHTML;
    const isSame = again.innerHTML === shown.outerHTML;
    // What equals the fragment has been inspected with it.
    const others = [...again.content.children].filter(each => !each.isEqualNode(shown));
    return [...(isSame ? [] : ["read again it is something else"]), ...others.flatMap(problemsIn)];
  }

  // Copies of what was inspected, by place. A fragment that equals its copy has no other problems.
  const inspected = [];

  function problemsInAnswer() {
    return [...answer.children].flatMap((fragment, at) => {
      if (inspected[at]?.isEqualNode(fragment)) return [];
      inspected[at] = fragment.cloneNode(true);
      return [...problemsIn(fragment), ...mutates(fragment)];
    });
  }

  function outside(count) {
    const found = [];
    const pieces = [...answer.children];
    if (pieces.length !== count || pieces.some((each, at) => each.dataset.n !== String(at))) found.push("a fragment left its place");
    if (document.title !== "kept") found.push(`title ${document.title}`);
    if (document.getElementById("composer")?.value !== "draft" || document.querySelectorAll("#composer").length !== 1) found.push("the composer");
    if (document.body.children.length !== rules.body || document.querySelectorAll("form, base, iframe").length) found.push("the page around it");
    if (document.cookie !== "kept=1") found.push(`cookie ${document.cookie}`);
    return found;
  }

  const EVENTS = ["pointerover", "mouseover", "focus", "focusin", "keydown", "toggle", "load", "error", "click"];

  function sendEvents() {
    const ours = new Set(answer.querySelectorAll("button, button *, summary, summary *"));
    const drawn = new Set(answer.querySelectorAll(DRAWN));
    for (const element of answer.querySelectorAll("*")) {
      if (element.localName === "details") element.open = true;
      // Our own controls do what they should, and formulas have been inspected.
      if (ours.has(element) || drawn.has(element)) continue;
      for (const name of EVENTS) element.dispatchEvent(new MouseEvent(name, { bubbles: true, cancelable: true }));
    }
  }

  const settle = () => new Promise(resolve => setTimeout(resolve, rules.settle));

  function problemsOf(count) {
    return [...outside(count), ...problemsInAnswer()];
  }

  async function applyFrame(batch, count) {
    const text = await (await fetch(`/batch/${batch}`)).text();
    await htmx.swap({ text, sourceElement: live, target: live, swap: "none" });
    const found = problemsOf(count);
    sendEvents();
    await settle();
    return [...found, ...problemsOf(count)];
  }

  async function inspectBatch(batch, count) {
    const first = problemsOf(count);
    const second = await applyFrame(batch, count);
    return { problems: [...new Set([...first, ...second])], hits: window.hits.splice(0), violations: window.violations.splice(0) };
  }

  // Without a frame and without hx-ignore: what would happen if nothing protected the page.
  async function insertRaw(batch) {
    const texts = await (await fetch(`/batch/${batch}`)).json();
    for (const [at, text] of texts.entries()) {
      const place = document.createElement("div");
      place.dataset.n = at;
      answer.append(place);
      place.innerHTML = text;
      htmx.process(place);
    }
    answer.removeAttribute("hx-ignore");
    htmx.process(answer);
    sendEvents();
    await settle();
    return { problems: [...answer.children].flatMap(problemsIn), hits: window.hits.splice(0), violations: window.violations.splice(0) };
  }

  // Started by a timer of the page, so that its policy applies.
  for (const [name, run] of Object.entries({ inspectBatch, insertRaw })) {
    window[name] = (...parameters) => {
      window.report = null;
      setTimeout(async () => { window.report = await run(...parameters).catch(error => ({ failure: String(error?.stack ?? error) })); });
    };
  }
})();
