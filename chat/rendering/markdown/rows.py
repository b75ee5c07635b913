"""Rows of a table that grows, each rendered by itself."""

from functools import lru_cache

from markdown_it.common.utils import mdTrim

from chat.rendering.markdown.inline import read_line
from chat.rendering.markdown.parser import References, Scope
from chat.rendering.markdown.renderer import render_cell, render_growing
from chat.rendering.markdown.tables import BREAK, MOST_EMPTY_CELLS, cells_of, fitted

BODY = "<tbody>\n"
CLOSING = "</table></div>"
CLOSING_OF_BODY = f"</tbody>\n{CLOSING}"


class Rows:
    """Renders the rows below a head, which is the first two lines of a table."""

    def __init__(self, head: str, scope: Scope) -> None:
        self._pieces = _row_pieces(head)
        self._scope = scope
        self._empty_cells = 0

    def add(self, lines: list[str]) -> str | None:
        """Rows that are complete. None where a line may be something else, or is no part of the table."""
        html: list[str] = []
        for line in lines:
            cells = self._cells(line)
            row = self._row(cells)
            if row is None:
                return None
            html.append(row)
            self._empty_cells += self._width - len(cells)
        return "".join(html)

    def render(self, line: str) -> str | None:
        """The HTML as from `add`, for a row that may go on."""
        return self._row(self._cells(line))

    @property
    def _width(self) -> int:
        return len(self._pieces) - 1

    def _cells(self, line: str) -> list[str]:
        cells = cells_of(line) if self._width and line.startswith("|") else []
        is_too_empty = self._empty_cells + self._width - len(cells) > MOST_EMPTY_CELLS
        return [] if is_too_empty else cells

    def _row(self, cells: list[str]) -> str | None:
        if not cells:
            return None
        width = self._width
        cells = fitted(cells, width)
        rendered = [self._cell(mdTrim(cell)) for cell in cells] + [""] * (width - len(cells))
        first, *others = self._pieces
        html = [first]
        for cell, after in zip(rendered, others, strict=True):
            if cell is None:
                return None
            html.append(f">{cell}<{after}")
        return "".join(html)

    def _cell(self, text: str) -> str | None:
        lines: list[str] = []
        is_open = False
        for piece in BREAK.split(text):
            line = read_line(piece, has_references=self._scope.has_references)
            # An open element may end behind the break.
            if line is None or is_open:
                return render_cell(text, self._scope)
            lines.append(line.html)
            is_open = line.is_open
        return "<br>\n".join(lines)


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
    body = rows.add(lines)
    if body is None:
        return None
    return f"{rendered.html.removesuffix(CLOSING)}{BODY}{body}{CLOSING_OF_BODY}"


@lru_cache(maxsize=64)
def _row_pieces(head: str) -> list[str]:
    """A row without its cells, cut where they belong. Their tags say how the head aligns them."""
    width = len(cells_of(head.partition("\n")[0]))
    sample = f"{head}\n|{'0|' * width}"
    rendered = render_growing(sample, References().scope())
    html = rendered.html if rendered is not None else ""
    row = html.rpartition(BODY)[2].removesuffix(CLOSING_OF_BODY)
    return row.split(">0<")
