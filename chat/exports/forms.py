"""The forms in which a conversation can be exported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from chat.exports.html_form import write_html
from chat.exports.json_form import write_json
from chat.exports.markdown_form import write_markdown
from chat.exports.reading import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportForm:
    write: Callable[[Source], Iterator[bytes]]
    suffix: str
    media_type: str


MARKDOWN = "text/markdown; charset=utf-8"
FORMS: dict[str, ExportForm] = {
    "markdown": ExportForm(write=write_markdown, suffix="md", media_type=MARKDOWN),
    "branches": ExportForm(
        write=partial(write_markdown, with_all_branches=True), suffix="md", media_type=MARKDOWN
    ),
    "json": ExportForm(write=write_json, suffix="json", media_type="application/json"),
    "html": ExportForm(write=write_html, suffix="html", media_type="text/html; charset=utf-8"),
}
