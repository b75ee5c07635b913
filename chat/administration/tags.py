"""Lists of the administration: cells that name their column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst

register = template.Library()


@register.filter
def labelled(
    cells: Iterable[SafeString], headers: Iterable[Mapping[str, object]]
) -> list[SafeString]:
    """The cells of a row as Django wrote them, with the name of the column in ``data-label``: on a
    phone it is shown before the value. The heading of the row and its box to tick need none."""
    return [
        SafeString(cell.replace("<td", format_html('<td data-label="{}"', capfirst(name)), 1))
        if cell.startswith('<td class="field-')
        else cell
        for cell, name in zip(cells, (str(each["text"]) for each in headers), strict=False)
    ]
