"""Loads our templates without the line breaks that only indent their source.

Sources have one element a line; pages and patches are sent without that whitespace. The rule is
JSX's: a line break, with the whitespace around it, disappears beside a tag, and is one space
between words and values. Where a space belongs beside a tag at the end of a line, the source says
``{{ " " }}``. Inside of a tag a line break is one space. ``<pre>``, ``<textarea>``, ``<script>``,
``<style>`` and ``{% blocktranslate %}`` keep their text as it is written.
"""

from __future__ import annotations

import re

from django.template import Origin
from django.template.loaders import filesystem

SPACE = '{{ " " }}'
_COMMENT = re.compile(r"\{#.*?#\}|\{%\s*comment\b.*?\{%\s*endcomment\s*%\}", re.DOTALL)
# The parts of a source; text is everything that no pattern matches.
_PART = re.compile(
    r"""
    (?P<kept> \{%\s*blocktranslate\b .*? \{%\s*endblocktranslate\s*%\} )
  | (?P<value> \{\{ .*? \}\} )
  | (?P<block> \{% .*? %\} )
  | (?P<element> <[/!a-zA-Z]
        (?: \{% .*? %\} | \{\{ .*? \}\} | "(?: \{% .*? %\} | \{\{ .*? \}\} | [^"] )*" | [^">] )*
    > )
    """,
    re.VERBOSE | re.DOTALL,
)
# Elements in which every line break counts.
_VERBATIM = re.compile(r"<(pre|textarea|script|style)\b")
_BREAK = re.compile(r"[ \t]*\n\s*")
_BREAK_BEFORE_END = re.compile(r"\s*\n\s*(?=/?>$)")


def parts_of(source: str) -> list[tuple[str, str]]:
    """The kind and the text of each part: "text", "value", "space", "block", "element", "kept"."""
    source = _COMMENT.sub("", source)
    parts = []
    position = 0
    while match := _PART.search(source, position):
        if position < match.start():
            parts.append(("text", source[position : match.start()]))
        parts.append(("space" if match[0] == SPACE else str(match.lastgroup), match[0]))
        position = match.end()
        if verbatim := _VERBATIM.match(match[0]):
            end = f"</{verbatim[1]}>"
            start, position = position, source.index(end, position) + len(end)
            parts.append(("kept", source[start:position]))
    if position < len(source):
        parts.append(("text", source[position:]))
    return parts


def without_indentation(source: str) -> str:
    """The source as it is compiled."""
    parts = parts_of(source)
    kinds = ["", *(kind for kind, _ in parts), ""]
    kept = []
    for number, (kind, text) in enumerate(parts):
        if kind == "text":
            is_after_value, is_before_value = (
                kinds[index] == "value" for index in (number, number + 2)
            )
            kept.append(_text(text, is_after_value, is_before_value))
        elif kind == "element":
            kept.append(_BREAK.sub(" ", _BREAK_BEFORE_END.sub("", text)))
        else:
            kept.append(" " if kind == "space" else text)
    return "".join(kept)


def _text(text: str, is_after_value: bool, is_before_value: bool) -> str:
    """A text between two parts. A break at its start or end disappears beside a tag."""
    words = text.strip(" \t\n")
    if not words and "\n" in text:
        return " " if is_after_value and is_before_value else ""
    text = _BREAK.sub("\n", text)
    if text.startswith("\n"):
        text = text[1:] if not is_after_value else text
    if text.endswith("\n"):
        text = text[:-1] if not is_before_value else text
    return text.replace("\n", " ")


class Loader(filesystem.Loader):
    """Django's loader of ``DIRS``, for HTML without the indentation of the source."""

    def get_contents(self, origin: Origin) -> str:
        source = super().get_contents(origin)
        return without_indentation(source) if origin.name.endswith(".html") else source
