r"""Formulas in Markdown: ``$…$``, ``$$…$$``, ``\(…\)`` and ``\[…\]`` as elements of their source.

What is no formula stays text: amounts of money, escaped brackets, and whatever is not closed. A
displayed formula of several lines ends before the next blank line, as it must in TeX, so that text
which still grows is in doubt no longer than its block. The browser draws them; until then, and where
it cannot, the source is read with its marks.
"""

import re
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

# The first line of a displayed formula that the end of the text has left open, in the parser's
# environment: more text may make all that follows it one formula.
UNCLOSED = "unclosed_formula"

# Longer than any that a person reads. Text behind an opening that nothing closes waits no longer.
MAX_CHARACTERS = 4096

# Each stops at the next mark of its kind, so that many openings cost no more than their text.
_IN_LINE = {
    "$$": re.compile(r"\$\$((?:[^$\\]|\\.)+)\$\$(?!\$)", re.DOTALL),
    r"\(": re.compile(r"\\\(((?:[^\\]|\\[^()])+?)\\\)", re.DOTALL),
    r"\[": re.compile(r"\\\[((?:[^\\]|\\[^\[\]])+?)\\\](?!\()", re.DOTALL),
    # By the rules that tell it from money: tight inside, and no part of a word.
    "$": re.compile(r"(?<![\w$\\])\$(?![\s$])((?:[^$\\\n`]|\\.)+)(?<![\s\\])\$(?![\w$])"),
}
_CLOSINGS = {"$$": re.compile(r"(?<!\\)\$\$"), r"\[": re.compile(r"(?<!\\)\\\]")}
_TEX_SIGN = re.compile(r"[\\^_={}<>]")
_WORD_BETWEEN_SPACES = re.compile(r"(?:^|\s)[^\W\d_]{2,}(?:\s|$)")


def _is_formula(content: str, opening: str) -> bool:
    """Not "5 and 10" between two prices, nor brackets that somebody escaped."""
    if _TEX_SIGN.search(content):
        return True
    is_prose = _WORD_BETWEEN_SPACES.search(content.strip()) and " " in content.strip()
    return bool(content.strip()) and opening != r"\[" and not is_prose


def _in_line(state: StateInline, silent: bool) -> bool:
    source, pos = state.src, state.pos
    if source[pos] not in "$\\":
        return False
    opening = source[pos : pos + 2]
    if opening not in _IN_LINE:
        opening = source[pos]
    if opening not in _IN_LINE:
        return False
    match = _IN_LINE[opening].match(source, pos, state.posMax)
    if match is None or not _is_formula(match[1], opening):
        return False
    if not silent:
        token = state.push("formula", "span", 0)
        token.content = match[0]
        token.meta = {"is_displayed": opening in _CLOSINGS}
    state.pos = match.end()
    return True


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


def _last_line(state: StateBlock, start: int, end: int, opening: str) -> int | None:
    """The line that closes the formula which this one opens, if one does."""
    closing = _CLOSINGS[opening]
    for number in range(start, end):
        line = _line(state, number)
        is_outside = number > start and state.sCount[number] < state.blkIndent
        is_long = state.eMarks[number] - state.bMarks[start] > MAX_CHARACTERS
        if not line or is_outside or is_long:
            return None
        found = closing.search(line, 2 if number == start else 0)
        if found is not None:
            return None if line[found.end() :].strip() else number
        if number > start and line.startswith(opening):
            return None
    if end == len(state.bMarks) - 1:
        state.env[UNCLOSED] = min(start, state.env.get(UNCLOSED, start))
    return None


def _block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    opening = _line(state, start)[:2]
    if opening not in _CLOSINGS or state.is_code_block(start):
        return False
    last = _last_line(state, start, end, opening)
    if last is None:
        return False
    content = state.getLines(start, last + 1, state.blkIndent, False).strip()
    if not _is_formula(content[2:-2], opening):
        return False
    if not silent:
        token = state.push("formula_block", "p", 0)
        token.content = content
        token.map = [start, last + 1]
        token.meta = {"is_displayed": True}
        state.line = last + 1
    return True


def _span(token: Token) -> str:
    name = "math display" if token.meta["is_displayed"] else "math"
    return f'<span class="{name}">{escape(token.content, quote=False)}</span>'


def _render(
    renderer: RendererProtocol, tokens: list[Token], index: int, options: Any, env: Any
) -> str:
    return _span(tokens[index])


def _render_block(
    renderer: RendererProtocol, tokens: list[Token], index: int, options: Any, env: Any
) -> str:
    return f"<p>{_span(tokens[index])}</p>\n"


def open_formula(source: str) -> str:
    """A displayed formula that is still being written: to be read as it is."""
    content = escape(source.strip(), quote=False)
    return f'<p dir="auto"><span class="math display" dir="ltr">{content}</span></p>'


def with_formulas(md: MarkdownIt) -> MarkdownIt:
    ends = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    md.block.ruler.before("fence", "formula_block", _block, ends)
    md.inline.ruler.before("escape", "formula", _in_line)
    md.add_render_rule("formula", _render)
    md.add_render_rule("formula_block", _render_block)
    return md
