/* Patches of a frame that all viewers share. They leave out the HTML that pages have already: of each open
   block, page and server hold the HTML, and a patch says how much of its beginning it goes on from. */

const SWAPS = { "=": "innerHTML", "~": "innerMorph", "+": "beforeend" };
const END_TAGS = /^(?:<\/[a-z1-6]+>\s*)+$/;

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
    const words = target === like ? wordsAdded(before.slice(length), tail) : null;
    content += words
      ? partial(id + " &gt; :last-child".repeat(words.depth), "beforeend", words.text)
      : partial(id, SWAPS[swap], html);
  }
  for (const [target, html] of next) held.set(target, html);
  frame.content = content;
  return true;
}

const partial = (target, swap, html) => `<hx-partial hx-target="${target}" hx-swap="${swap}">${html}</hx-partial>`;

/* Text that only goes on with the last text of a block, and how deep in the block that is. Appending it costs
   what comes; morphing costs the whole block. */
function wordsAdded(ends, tail) {
  const text = tail.slice(0, -ends.length);
  if (!END_TAGS.test(ends) || !tail.endsWith(ends) || text.includes("<")) return null;
  return { text, depth: ends.split("</").length - 1 };
}
