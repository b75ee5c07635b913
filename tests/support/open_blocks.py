"""What a page does with the patches of a shared frame, as `static/live/open_blocks.js` does it."""

from typing import Any

from chat.rendering.parts import APPEND, MORPH, REPLACE, partial

SWAPS = {"=": REPLACE, "~": MORPH, "+": APPEND}


def completed(frame: dict[str, Any], held: dict[str, str]) -> str:
    """The content of a frame as HTML. ``held`` is the element of each open block, and its HTML."""
    if isinstance(frame["content"], str):
        return frame["content"]
    patches: list[str] = []
    for target, swap, tail, *source in frame["content"]:
        html = tail
        if source:
            like, length, head = source
            before = held.get(like, "").encode("utf-16-le")
            assert 2 * length <= len(before), f"the page lacks the HTML of {like}"
            html = head + before[: 2 * length].decode("utf-16-le") + tail
        if target.endswith("-open"):
            held[target] = html
        full = target[1:] if target.startswith("#") else f"r{frame['run']}-{target}"
        patches.append(partial(full, SWAPS[swap], html))
    return "".join(patches)
