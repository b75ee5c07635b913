/* Rating an answer: a click on a thumb is stored at once, and a form above the page asks for reasons and a note. */
import { announce, csrfToken, element, emit, listen, notify, on, onSwapped, request } from "../base/dom.js";
import { AFTER_REQUEST, ROOM_ACCEPTED, ROOM_CHANGED, ROOM_GONE } from "../base/events.js";
import { gettext } from "../base/i18n.js";
import { unreachable } from "../base/network.js";

const MARGIN = 8;
const FRAGMENT = { "HX-Request": "true" };
const above = element("div", { id: "rating", className: "feedback-above", popover: "auto", role: "dialog" });
above.setAttribute("aria-label", gettext("Feedback"));
document.body.append(above);
let opened = null;  // {address, value} of the thumb whose form is shown

/* --- the thumbs: a turn that is rendered again has other ones --- */
const thumbsOf = address => [...document.querySelectorAll("[data-thumb]")].filter(({ dataset }) => dataset.thumb === address);

// The page shows it by its live connection as well, a moment later.
function press(address, value) {
  for (const thumb of thumbsOf(address)) thumb.ariaPressed = String(thumb.value === value);
}

const thumb = () => thumbsOf(opened.address).find(({ value }) => value === opened.value);

/* --- a click on one --- */
export async function rate(button) {
  const { value, dataset: { thumb: address } } = button;
  if (button.ariaBusy) return;
  button.ariaBusy = "true";
  try {
    const isRated = button.ariaPressed === "true";
    const response = isRated ? await request(address, { headers: FRAGMENT }) : await post(address, value);
    press(address, value);
    if (!isRated) emit(ROOM_CHANGED, {});
    await show(address, value, await response.text());
  } catch ({ response }) {
    const text = response?.headers.get("Content-Type")?.startsWith("text/plain") && await response.text();
    notify(text || (response ? gettext("Your rating wasn’t saved. Try again.") : unreachable()), { isLost: !response });
  } finally {
    button.ariaBusy = null;
  }
}

const post = (address, value) => request(address, {
  method: "POST",
  headers: { ...FRAGMENT, "X-CSRFToken": csrfToken() },
  body: new URLSearchParams({ value }),
});

/* --- the form above the page --- */
async function show(address, value, html) {
  opened = { address, value };
  await htmx.swap({ sourceElement: above, target: above, swap: "innerHTML", text: html, transition: false });
  above.showPopover();
  place();
  const reasons = [...above.querySelectorAll("[type=checkbox]")].filter(box => box.checkVisibility());
  (reasons.find(({ checked }) => checked) ?? reasons[0]).focus();
}

// Above the thumb or below it; a style sheet puts it at the foot of a phone.
function place() {
  const button = thumb();
  if (!button) return;
  const { left, top, bottom } = button.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = above;
  const y = top - height - MARGIN < MARGIN ? bottom + MARGIN : top - height - MARGIN;
  above.style.left = `${Math.max(MARGIN, Math.min(left, innerWidth - width - MARGIN))}px`;
  above.style.top = `${Math.max(MARGIN, Math.min(y, innerHeight - height - MARGIN))}px`;
}

// What others do, or the line of the rating itself, moves the thumb.
onSwapped(() => { if (above.matches(":popover-open")) place(); });

on("change", "#rating [name=value]", ({ value }) => {
  opened.value = value;
  place();
});

on("click", "#rating [data-skip]", () => above.hidePopover());

// The thumb that had the focus is another one when its turn was rendered again.
above.addEventListener("toggle", ({ newState }) => {
  if (newState !== "closed") return;
  above.replaceChildren();
  if (document.activeElement === document.body) thumb()?.focus({ preventScroll: true });
});

// People who lost access must not read on.
listen(ROOM_GONE, () => above.hidePopover());

/* --- what was sent --- */
listen(AFTER_REQUEST, async ({ ctx }, { target }) => {
  if (ctx.hx.trigger !== ROOM_ACCEPTED) return;
  if (target.matches?.(".feedback-removal")) {
    document.getElementById("panel-title")?.focus({ preventScroll: true });
    return refresh();
  }
  const form = target.closest?.(".feedback-form");
  if (!form) return;
  const isWithdrawn = target !== form;
  const address = form.action;
  press(address, isWithdrawn ? "" : form.querySelector("[name=value]:checked").value);
  announce(isWithdrawn ? gettext("Rating withdrawn") : gettext("Rating saved"));
  if (above.contains(form)) above.hidePopover();
  else await renew(form, address);
  emit(ROOM_CHANGED, {});
});

// In the panel, the form has its other buttons now.
async function renew(form, address) {
  const focus = document.activeElement;
  const response = await request(address, { headers: { ...FRAGMENT, "X-Panel": "1" } });
  const next = new DOMParser().parseFromString(await response.text(), "text/html").querySelector(".feedback-form");
  await htmx.swap({ sourceElement: form, target: form, swap: "outerHTML", text: next.outerHTML, transition: false });
  if (focus && !focus.isConnected) document.getElementById("panel-title")?.focus({ preventScroll: true });
  await refresh();
}

/* The list in the panel, as the server has it now. */
export async function refresh() {
  const list = document.getElementById("feedback-list");
  try {
    const response = await request(`${list.dataset.of}?part=list`, { headers: FRAGMENT });
    const html = await response.text();
    if (list.isConnected && list.dataset.html !== html) list.innerHTML = list.dataset.html = html;
  } catch {
    // The next change, or the next visit, brings it.
  }
}
