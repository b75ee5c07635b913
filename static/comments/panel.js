/* The panel of comments: kept as the server has it, without taking away what somebody is writing in it. */
import { announce, isPlainClick, listen, on, request } from "../base/dom.js";
import { AFTER_REQUEST, COMMENTS_CHANGED, PANEL_SHOWN, ROOM_ACCEPTED } from "../base/events.js";
import { gettext } from "../base/i18n.js";

const FORMS = ".comment-form, .comment-act";
const list = () => document.getElementById("comments");
let isFetching = false;
let isStale = false;

/* --- keeping it up to date --- */

/* Fetches the list, and replaces what has changed. */
async function refresh() {
  isStale = true;
  while (isStale && !isFetching && list()) {
    isStale = false;
    isFetching = true;
    try {
      const shown = list();
      const response = await request(shown.dataset.comments, { headers: { "HX-Request": "true" } });
      const html = await response.text();
      if (shown === list()) await patch(shown, html);
    } catch {
      // The next change, or the next visit, brings it.
    } finally {
      isFetching = false;
    }
  }
}

async function patch(shown, html) {
  const next = new DOMParser().parseFromString(html, "text/html").body.children;
  const ids = new Set([...next].map(({ id }) => id));
  const writing = focusedField();
  for (const child of [...shown.children]) if (!ids.has(child.id) && !isWrittenIn(child)) child.remove();
  let before = null;
  for (const child of [...next]) {
    const here = document.getElementById(child.id);
    if (!here) await insert(shown, before, child.outerHTML);
    // An open editor stays until it is closed.
    else if (here.dataset.mark !== child.dataset.mark && !here.querySelector(".comment-edit")) await swap(here, "outerHTML", child.outerHTML);
    before = document.getElementById(child.id);
  }
  if (writing) returnTo(writing);
}

// A reply reopens a thread that somebody has resolved meanwhile.
const isWrittenIn = thread => [...thread.querySelectorAll("textarea")].some(field => field.value.trim());

const swap = (target, how, text) => htmx.swap({ sourceElement: target, target, swap: how, text, transition: false });
const insert = (shown, before, html) => before ? swap(before, "afterend", html) : swap(shown, "afterbegin", html);

function focusedField() {
  const field = document.activeElement;
  return field?.matches("#comments textarea") ? { id: field.id, at: [field.selectionStart, field.selectionEnd] } : null;
}

// Its text was kept as a draft.
function returnTo({ id, at }) {
  const field = document.getElementById(id);
  if (!field || field === document.activeElement) return;
  field.focus({ preventScroll: true });
  field.setSelectionRange(...at);
}

listen(COMMENTS_CHANGED, () => { if (list()) refresh(); });

/* --- forms --- */
listen(AFTER_REQUEST, async ({ ctx }, { target }) => {
  if (!target.matches?.(FORMS) || ctx.hx.trigger !== ROOM_ACCEPTED) return;
  const form = target;
  const added = ctx.response.headers.get("X-Comment");
  const isNew = form.matches(".comment-new");
  if (isNew) form.remove();
  form.classList.remove("comment-edit");
  await refresh();
  const comment = document.getElementById(`comment-${added}`);
  if (form.matches(".comment-act")) announce(gettext("Done"));
  else if (comment) announce(gettext("Comment saved"));
  if (isNew) focusOn(comment);
  else if (!document.getElementById("comments").contains(document.activeElement)) focusOn(comment ?? document.getElementById("panel-title"));
});

on("click", "[data-comment-cancel]", (link, event) => {
  if (!isPlainClick(event) || !list()) return;
  event.preventDefault();
  const thread = link.closest(".comment-thread");
  const { id } = link.closest(".comment");
  link.closest(".comment-edit").remove();
  delete thread.dataset.mark;
  refresh().then(() => focusOn(document.getElementById(id)));
});

/* --- leading to a comment --- */
export function focusOn(comment) {
  if (!comment) return;
  comment.focus({ preventScroll: true });
  comment.scrollIntoView({ block: "nearest" });
}

// An entry of a menu that was used; a copied link is told on its entry.
on("click", ".comment-menu .menu-item:not([data-copy-link])", item => { item.closest("details").open = false; });

listen(PANEL_SHOWN, () => {
  const field = document.getElementById("comment-text");
  if (field) field.focus();
});
