/* Puts changed lines into the list of conversations where a new list would have them. */
const room = document.getElementById("room");
// As in chat/conversations/project_lines.py: of a project, and beside them the one that the page shows.
const PROJECT_LINES = 5;

function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

const placeOf = line =>
  line.closest("[data-project]")?.dataset.project ?? (line.closest("[data-pinned]") ? "pinned" : "recent");
const linkIn = line => line.querySelector("[data-room]");
const isShown = line => linkIn(line).ariaCurrent === "page";

/* False for what lines cannot say: then the list is fetched. The newest of the `lines` is the last. */
export function putLines(list, { lines, day }) {
  for (const each of lines) if (!put(list, each, day)) return false;
  return true;
}

function put(list, { room: id, place, html }, day) {
  const old = list.querySelector(`[data-room="${id}"]`)?.closest("li");
  if (!place) return !old;
  if (old && placeOf(old) !== place) return false;
  const line = parse(html);
  // Changes cross each other, and some come twice.
  if (old && !isNewer(linkIn(line).dataset, linkIn(old).dataset)) return true;
  if (id === room?.dataset.room) linkIn(line).setAttribute("aria-current", "page");
  if (place === "pinned") {
    old?.replaceWith(line);
    return old !== undefined;
  }
  if (place !== "recent") return putInProject(list.querySelector(`[data-project="${place}"]`), line, old);
  if (old) takeOut(old);
  let first = list.querySelector("[data-recent]");
  if (headingOf(first)?.textContent !== day) first = addDay(list, first, day);
  putInOrder(first, line);
  return true;
}

const isNewer = (one, other) => Number(one.revision) > Number(other.revision) || Number(one.updated) > Number(other.updated);

function putInOrder(lines, line) {
  const updated = each => Number(linkIn(each)?.dataset.updated ?? 0);
  lines.insertBefore(line, [...lines.children].find(each => updated(each) <= updated(line)) ?? null);
}

const headingOf = lines => lines?.previousElementSibling?.matches("h2") ? lines.previousElementSibling : null;

function addDay(list, before, day) {
  const heading = Object.assign(document.createElement("h2"), { className: "nav-title", textContent: day });
  const lines = Object.assign(document.createElement("ul"), { className: "nav", role: "list" });
  lines.dataset.recent = "";
  list.querySelector(".nav-empty")?.remove();
  const next = headingOf(before) ?? before;
  if (next) next.before(heading, lines);
  else list.append(heading, lines);
  return lines;
}

// With the last of its day goes the heading, unless that day goes on on the next page of the list.
function takeOut(line) {
  const lines = line.parentElement;
  line.remove();
  if (lines.childElementCount) return;
  if (!lines.nextElementSibling?.matches("[data-recent]")) headingOf(lines)?.remove();
  lines.remove();
}

function putInProject(project, line, old) {
  if (!project) return false;
  old?.remove();
  putInOrder(project.querySelector("ul"), line);
  const inside = [...project.querySelectorAll("li:not(.project-rest)")];
  for (const each of inside.slice(PROJECT_LINES)) if (!isShown(each)) each.remove();
  const summary = project.querySelector("summary");
  const mark = project.querySelector("li .mark-waiting") ?? project.querySelector("li .mark-running");
  summary.querySelector(".mark")?.remove();
  if (mark) summary.append(mark.cloneNode(true));
  return true;
}
