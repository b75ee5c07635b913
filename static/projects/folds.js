/* Which projects of the sidebar a person has opened and folded. Kept in a cookie, as chat/conversations/
   project_lines.py reads it, because the server draws the list. */
import { on, onSwapped } from "../base/dom.js";

const NAME = "projects";
const KEY_LENGTH = 8;
const MAX_KEPT = 60;
const YEAR_SECONDS = 31536000;

const stored = () => (document.cookie.match(new RegExp(`(?:^|; )${NAME}=([^;]*)`))?.[1] ?? "").split(".");

function keep(id, isOpen) {
  const key = id.slice(0, KEY_LENGTH);
  const others = stored().filter(each => each && !each.startsWith(key));
  const value = [...others, key + (isOpen ? "+" : "-")].slice(-MAX_KEPT).join(".");
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${NAME}=${value}; path=/; max-age=${YEAR_SECONDS}; samesite=lax${secure}`;
}

// Before the click folds or opens it.
on("click", "[data-project] > summary", ({ parentElement: fold }) => keep(fold.dataset.project, !fold.open));

// A list that was requested before the click comes after it, as it was before.
onSwapped(() => {
  const kept = new Map(stored().map(each => [each.slice(0, -1), each.at(-1) === "+"]));
  for (const fold of document.querySelectorAll("[data-project]")) {
    fold.open = kept.get(fold.dataset.project.slice(0, KEY_LENGTH)) ?? fold.open;
  }
});
