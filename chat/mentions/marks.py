"""Marks mentions in the HTML of a message."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

# Values of attributes may have any characters but their quotes; text has no "<".
_TAG = re.compile(r"""(<(?:"[^"]*"|'[^']*'|[^>"'])*>)""")
_IS_CODE = re.compile(r"<(/?)(?:code|pre|a)\b")
MARKED = '<span class="mention">@{name}</span>'


def mark_mentions(html: str, names: Iterable[str]) -> str:
    """``html`` is what the renderer has made. Only text between tags changes, and none in code and links."""
    # Both forms are in use: one with escaped quotes, and one without.
    forms = {escape(name, quote=quote) for name in names for quote in (True, False)}
    if not forms:
        return html
    longest_first = sorted(forms, key=len, reverse=True)
    name = "|".join(map(re.escape, longest_first))
    pattern = re.compile(rf"(?<![\w@./])@({name})(?!\w)")
    depth = 0
    parts = _TAG.split(html)
    for at, part in enumerate(parts):
        if at % 2:
            code = _IS_CODE.match(part)
            depth += (-1 if code[1] else 1) if code else 0
        elif depth == 0:
            parts[at] = pattern.sub(lambda found: MARKED.format(name=found[1]), part)
    return "".join(parts)
