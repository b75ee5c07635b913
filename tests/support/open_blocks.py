"""What a page does with the patches of a shared frame, as `static/live/open_blocks.js` does it."""

import re
from typing import Any

from chat.rendering.parts import APPEND, MORPH, REPLACE, partial

SWAPS = {"=": REPLACE, "~": MORPH, "+": APPEND}
END_TAGS = re.compile(r"(?:</[a-z1-6]+>\s*)+")


def completed(frame: dict[str, Any], held: dict[str, str]) -> str:
    """The content of a frame as HTML. ``held`` is the element of each open block, and its HTML."""
    if isinstance(frame["content"], str):
        return frame["content"]
    patches: list[str] = []
    for target, swap, tail, *source in frame["content"]:
        html, ends = tail, ""
        if source:
            like, length, head = source
            before = held.get(like, "").encode("utf-16-le")
            assert 2 * length <= len(before), f"the page lacks the HTML of {like}"
            html = head + before[: 2 * length].decode("utf-16-le") + tail
            ends = before[2 * length :].decode("utf-16-le") if like == target else ""
        if target.endswith("-open"):
            held[target] = html
        full = target[1:] if target.startswith("#") else f"r{frame['run']}-{target}"
        text = tail[: len(tail) - len(ends)]
        if END_TAGS.fullmatch(ends) and tail.endswith(ends) and "<" not in text:
            # Only the last text goes on.
            patches.append(partial(full + " &gt; :last-child" * ends.count("</"), APPEND, text))
        else:
            patches.append(partial(full, SWAPS[swap], html))
    return "".join(patches)
