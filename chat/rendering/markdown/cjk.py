"""Emphasis and addresses in Chinese, Japanese and Korean, which are written without spaces around them.

CommonMark decides by the characters on both sides of a mark, and takes spaces between words for granted.
The amendment for these scripts is https://github.com/tats-u/markdown-cjk-friendly.
"""

import re
from typing import Any

from linkify_it import LinkifyIt
from markdown_it import MarkdownIt
from markdown_it.common.utils import isMdAsciiPunct, isPunctChar, isWhiteSpace
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Scanned
from markdown_it.token import Token

# The amendment's CJK characters, to be used inside brackets of a pattern. Gaps without characters are left out.
CJK = (
    "\u1100-\u11ff\u20a9\u2329\u232a\u2630-\u2637\u268a-\u268f\u2e80-\u303e\u3041-\u3247\u3250-\ua4c6"
    "\ua960-\ua97c\uac00-\ud7fb\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6b\uff01-\uffee"
    "\U00016fe0-\U00018df2\U0001aff0-\U0001b2fb\U0001d300-\U0001d356\U0001d360-\U0001d376"
    "\U0001f200\U0001f202\U0001f210-\U0001f219\U0001f21b-\U0001f22e\U0001f230\U0001f231"
    "\U0001f237\U0001f23b\U0001f240-\U0001f248\U0001f260-\U0001f265\U00020000-\U0003fffd"
)
# Selectors of a variant that is no emoji. They belong to the character before them.
_VARIANTS = "\ufe00-\ufe0e"
_VARIANT = re.compile(rf"[{_VARIANTS}]\Z")
# Includes quotation marks with a full-width variant, and selectors of ideographs.
_CJK_BEFORE = re.compile(rf"(?:[{CJK}][{_VARIANTS}]?|[‘’“”]\ufe01|[\U000e0100-\U000e01ef])\Z")
_CJK_AFTER = re.compile(f"[{CJK}]")

# Marks that end a sentence, or open or close a remark, in a text that puts no space before it. Marks that
# names have inside them, such as those of "ジョン・スミス", are none of these.
ADDRESS_ENDS = (
    "“”…‥\u2329\u232a、。〈-】〔-〛〝-〟\ufe10-\ufe19\ufe35-\ufe44\ufe47\ufe48\ufe50-\ufe52\ufe54-\ufe57"
    "\ufe59-\ufe5e！（），．：；？［］｛｝｟-､"
)
_ADDRESS_END = re.compile(rf"[{ADDRESS_ENDS}]|——|\*+(?=[{CJK}])")


class _State(StateInline):
    def scanDelims(self, start: int, canSplitWord: bool) -> Scanned:
        """A run of marks beside a CJK character opens and closes wherever no space forbids it."""
        scanned = super().scanDelims(start, canSplitWord)
        end = start + scanned.length
        before = self.src[max(start - 2, 0) : start]
        after = self.src[end] if end < self.posMax else ""
        if not before or not after or (before[-1] + after).isascii():
            return scanned
        if isWhiteSpace(ord(before[-1])) or isWhiteSpace(ord(after)):
            return scanned
        opens, closes = _is_punctuation(_VARIANT.sub("", before)[-1:]), _is_punctuation(after)
        if canSplitWord:
            is_cjk = bool(_CJK_BEFORE.search(before) or _CJK_AFTER.match(after))
            opens, closes = opens or is_cjk or not closes, closes or is_cjk or not opens
        return Scanned(opens, closes, scanned.length)


def _is_punctuation(character: str) -> bool:
    return bool(character) and (isMdAsciiPunct(ord(character)) or isPunctChar(character))


class _Inline(ParserInline):
    def parse(self, src: str, md: MarkdownIt, env: Any, tokens: list[Token]) -> list[Token]:
        state = _State(src, md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens


def with_cjk_emphasis(md: MarkdownIt) -> MarkdownIt:
    inline = _Inline()
    inline.ruler, inline.ruler2 = md.inline.ruler, md.inline.ruler2
    md.inline = inline
    return md


class Addresses(LinkifyIt):  # type: ignore[misc]
    """Finds addresses, which end at a mark that stands behind them without a space."""

    def test_schema_at(self, text: str, name: str, position: int) -> int:
        length: int = super().test_schema_at(text, name, position)
        end = _ADDRESS_END.search(text, position, position + length)
        if end is None:
            return length
        return int(super().test_schema_at(text[position : end.start()], name, 0))
