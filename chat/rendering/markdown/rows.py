"""Rows of a table that grows, each rendered by itself."""

from functools import lru_cache

from markdown_it.common.utils import mdTrim
from markdown_it.rules_block.table import escapedSplit

from chat.rendering.markdown.inline import read_line
from chat.rendering.markdown.parser import References, Scope
from chat.rendering.markdown.renderer import render_cell, render_growing

BODY = "<tbody>\n"
CLOSING = "</table></div>"
CLOSING_OF_BODY = f"</tbody>\n{CLOSING}"


class Rows:
    """Renders the rows below a head, which is the first two lines of a table."""

    def __init__(self, head: str, scope: Scope) -> None:
        self._pieces = _row_pieces(head)
        self._scope = scope

    def render(self, line: str) -> str | None:
        """A row, or its beginning. None where the line may be something else, or loses a cell."""
        width = len(self._pieces) - 1
        cells = _cells(line) if line.startswith("|") else []
        if not cells or len(cells) > width or width < 1:
            return None
        rendered = [self._cell(mdTrim(cell)) for cell in cells] + [""] * (width - len(cells))
        first, *others = self._pieces
        html = [first]
        for cell, after in zip(rendered, others, strict=True):
            if cell is None:
                return None
            html.append(f">{cell}<{after}")
        return "".join(html)

    def _cell(self, text: str) -> str | None:
        line = read_line(text, has_references=self._scope.has_references)
        return line.html if line is not None else render_cell(text, self._scope)


def render_table(source: str, scope: Scope) -> str | None:
    """A table whose lines all begin with a bar, row by row; None for all else. A fifth of the cost."""
    first, second, *lines = [*source.rstrip().split("\n"), ""]
    lines = lines[:-1]
    if not lines or not (first.startswith("|") and second.startswith("|")):
        return None
    head = f"{first}\n{second}"
    rendered = render_growing(head, scope)
    if rendered is None or not rendered.html.endswith(f"</thead>\n{CLOSING}"):
        return None
    rows = Rows(head, scope)
    body = [rows.render(line) for line in lines]
    if None in body:
        return None
    return "".join(
        [rendered.html.removesuffix(CLOSING), BODY, *filter(None, body), CLOSING_OF_BODY]
    )


def _cells(line: str) -> list[str]:
    """The cells of a line, by the parser's rules."""
    cells = escapedSplit(mdTrim(line))
    return cells[1 if cells[0] == "" else 0 : -1 if cells[-1] == "" else None]


@lru_cache(maxsize=64)
def _row_pieces(head: str) -> list[str]:
    """A row without its cells, cut where they belong. Their tags say how the head aligns them."""
    width = len(_cells(head.partition("\n")[0]))
    sample = f"{head}\n|{'0|' * width}"
    rendered = render_growing(sample, References().scope())
    html = rendered.html if rendered is not None else ""
    row = html.rpartition(BODY)[2].removesuffix(CLOSING_OF_BODY)
    return row.split(">0<")
