"""The title of a conversation, made from its first message."""

from __future__ import annotations

import re

from django.utils.translation import gettext_lazy

from chat.core.text import without_hidden

# A longer first line is cut at a word for the title.
TITLE_LENGTH = 60
UNTITLED = gettext_lazy("New conversation")
# Characters read of a line. More can reach the title only behind a very long address.
MOST_READ = 1000
# Marks in marks, such as emphasis in the words of a link.
MOST_NESTED = 3

# The first sentence: not a greeting alone, and not up to the point of an abbreviation, after which a
# sentence goes on with a small letter or a figure.
_FIRST_SENTENCE = re.compile(r".{12,}?(?:[.!?](?=\s+[^\s\d])(?!\s+[a-zà-öø-ÿ])|[。！？])")
# Beginnings of lines in Markdown: headings, quotations, entries of lists, tasks.
_BEGINNING = re.compile(r"^(?:#{1,6}\s+|>\s*|[-*+]\s+|\d{1,9}[.)]\s+|\[[ xX]\]\s+)+(?=\S)")
_CLOSED_HEADING = re.compile(r"\s+#+$")
# Rules, underlined headings, and the borders of code blocks with their language.
_NO_WORDS = re.compile(r"[-*_=#>+\s]*|(?:`{3,}[^`]*|~{3,}.*)")
_ADDRESS = r"\((?:[^()\s]|\([^()\s]*\))*(?:\s+\"[^\"]*\")?\)"
_INLINE = re.compile(
    "|".join(
        [
            r"(?<!`)(?P<ticks>`+)(?!`)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)",
            rf"!?\[(?P<label>[^\[\]]+)\]{_ADDRESS}",
            r"<(?P<link>https?://[^<>\s]+)>",
            # Stars and underscores inside of words and sums are none of emphasis.
            r"(?<![\w*])(?P<stars>\*{1,3})(?=[^\s*])(?P<starred>.+?)(?<=[^\s*])(?P=stars)(?![\w*])",
            r"(?<![\w_])(?P<lines>_{1,3})(?=[^\s_])(?P<lined>.+?)(?<=[^\s_])(?P=lines)(?!\w)",
            r"~~(?=\S)(?P<struck>.+?)(?<=\S)~~",
            r"\\(?P<escaped>[!-/:-@\[-`{-~])",
        ]
    )
)


def title_of(text: str) -> str:
    """The title of a conversation that begins with ``text``."""
    return first_sentence(text) or str(UNTITLED)


def first_sentence(text: str) -> str:
    """The first sentence of the first line with words, without the marks of Markdown, cut at a word.
    Empty if there are no words."""
    lines = (without_hidden(line[:MOST_READ]).strip() for line in text.splitlines())
    line = next((line for line in lines if not _NO_WORDS.fullmatch(line)), "")
    title = _without_marks(_CLOSED_HEADING.sub("", _BEGINNING.sub("", line))).strip()
    if sentence := _FIRST_SENTENCE.match(title):
        title = sentence[0].rstrip(".")
    if len(title) <= TITLE_LENGTH:
        return title
    cut = title[:TITLE_LENGTH].rsplit(" ", 1)[0].rstrip(",.;:–-")
    return f"{cut}…"


def _without_marks(text: str, depth: int = 0) -> str:
    def words(found: re.Match[str]) -> str:
        as_it_is = found["code"] or found["link"] or found["escaped"]
        if as_it_is:
            return as_it_is.strip()
        inside = found["label"] or found["starred"] or found["lined"] or found["struck"]
        return _without_marks(inside, depth + 1) if depth < MOST_NESTED else inside

    return _INLINE.sub(words, text)
