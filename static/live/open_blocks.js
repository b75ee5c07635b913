/* Patches of a frame that all viewers share. They leave out the HTML that pages have already: of each open
   block, page and server hold the HTML, and a patch says how much of its beginning it goes on from. */

const SWAPS = { "=": "innerHTML", "~": "innerMorph", "+": "beforeend" };

/* Makes the content of a frame the HTML that htmx swaps. `held`: element → HTML of its open block. False
   if this page lacks some. */
export function complete(frame, held) {
  if (!Array.isArray(frame.content)) return true;
  const next = new Map(held);
  let content = "";
  for (const [target, swap, tail, like, length = 0, head = ""] of frame.content) {
    const before = next.get(like) ?? "";
    if (length > before.length) return false;
    const html = head + before.slice(0, length) + tail;
    if (target.endsWith("-open")) next.set(target, html);
    const id = target.startsWith("#") ? target : `#r${frame.run}-${target}`;
    content += `<hx-partial hx-target="${id}" hx-swap="${SWAPS[swap]}">${html}</hx-partial>`;
  }
  for (const [target, html] of next) held.set(target, html);
  frame.content = content;
  return true;
}
