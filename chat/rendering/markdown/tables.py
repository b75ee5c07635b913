"""Tables of the Markdown parser: rows with too many cells, and line breaks in cells."""

import re
from importlib import import_module

from markdown_it import MarkdownIt
from markdown_it.common.utils import mdTrim
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.table import getLine, table
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

# Set in the parser's environment while the text of a cell is read.
IN_CELL = "is_in_cell"

# The only tag that is one, and only in cells, which cannot have lines otherwise.
_TAG = re.compile(r"<br[ \t]*/?>[ \t]*", re.IGNORECASE)
BREAK = re.compile(rf"(?<![ \t])[ \t]*{_TAG.pattern}", re.IGNORECASE)

# Cells that a table may have although nobody wrote them: one that lacks more ends there. With the
# library's own limit a table of 1,000 characters becomes 65,000 cells, which takes over a second.
MOST_EMPTY_CELLS = 4096
import_module(table.__module__).MAX_AUTOCOMPLETED_CELLS = MOST_EMPTY_CELLS  # type: ignore[attr-defined]

# A bar behind a backslash is none, whatever stands before that.
_BAR = re.compile(r"(?<!\\)\|")


def cells_of(line: str) -> list[str]:
    """The cells, by the parser's rules."""
    cells = [cell.replace(r"\|", "|") for cell in _BAR.split(mdTrim(line))]
    return cells[1 if cells[0] == "" else 0 : -1 if cells[-1] == "" else None]


def fitted(cells: list[str], width: int) -> list[str]:
    """The cells of a row in a table of this width: the last one has all that is too much, as it was written."""
    if len(cells) <= width:
        return cells
    rest = cells[width - 1 :]
    while len(rest) > 1 and not rest[-1].strip():
        rest.pop()
    return [*cells[: width - 1], "|".join(rest)]


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    first = len(state.tokens)
    if not table(state, start, end, silent):
        return False
    if not silent:
        _fit_rows(state, state.tokens[first:])
    return True


def _fit_rows(state: StateBlock, tokens: list[Token]) -> None:
    """Gives the last cell of each row what the library leaves out."""
    width = sum(token.type == "th_open" for token in tokens)
    for at, token in enumerate(tokens):
        if token.type != "tr_open" or token.map is None:
            continue
        line = mdTrim(getLine(state, token.map[0]))
        if line.count("|") + 1 - line.startswith("|") - line.endswith("|") > width:
            # Each cell has three tokens.
            tokens[at + 3 * width - 1].content = mdTrim(fitted(cells_of(line), width)[-1])


def _break(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] != "<" or not state.env.get(IN_CELL):
        return False
    match = _TAG.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        state.pending = state.pending.rstrip(" \t")
        token = state.push("hardbreak", "br", 0)
        token.markup = match[0]
    state.pos = match.end()
    return True


def with_tables(md: MarkdownIt) -> MarkdownIt:
    md.enable("table")
    md.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    # In place of the rule for all tags, which is never used.
    md.inline.ruler.at("html_inline", _break)
    return md
