"""Reads PowerPoint presentations: the text, tables and notes of each slide. Macros are never run."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO

from pptx import Presentation
from pptx.package import Package
from pptx.util import Emu

from chat.core.isolation.child import Refused
from chat.documents.readers import refusals
from chat.documents.readers.archives import check_archive, is_old
from chat.documents.readers.form import Order, Page

_NAME_CHARACTERS = 200


def prime() -> None:
    presentation = Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[0])
    slide.shapes.add_table(1, 1, Emu(0), Emu(0), Emu(1), Emu(1))
    slide.notes_slide.notes_text_frame.text = "x"
    sample = io.BytesIO()
    presentation.save(sample)
    list(_pages(sample))


def read(file: BinaryIO, order: Order) -> Iterator[Page]:
    if is_old(file):
        raise Refused(refusals.OLD_FORMAT)
    check_archive(file, "ppt/", order.most_unpacked_bytes)
    yield from _pages(file)


def _pages(file: BinaryIO) -> Iterator[Page]:
    # `Presentation(file)` refuses slide shows and templates.
    presentation = Package.open(file).main_document_part.presentation
    for slide in presentation.slides:
        title = slide.shapes.title
        name = " ".join(title.text_frame.text.split()) if title is not None else ""
        parts = [text for shape in _shapes(slide.shapes) if (text := _text_of(shape).strip())]
        if slide.has_notes_slide:
            frame = slide.notes_slide.notes_text_frame
            notes = _paragraphs(frame).strip() if frame is not None else ""
            parts += [f"Notes:\n{notes}"] if notes else []
        yield Page(name=name[:_NAME_CHARACTERS], text="\n\n".join(parts))


def _shapes(shapes: Any) -> Iterator[Any]:
    """All shapes in their order, also those in groups, however deep."""
    waiting = [iter(shapes)]
    while waiting:
        shape = next(waiting[-1], None)
        if shape is None:
            waiting.pop()
        elif hasattr(shape, "shapes"):
            waiting.append(iter(shape.shapes))
        else:
            yield shape


def _text_of(shape: Any) -> str:
    if shape.has_text_frame:
        return _paragraphs(shape.text_frame)
    if getattr(shape, "has_table", False):
        rows = (
            " | ".join(" ".join(cell.text_frame.text.split()) for cell in row.cells)
            for row in shape.table.rows
        )
        return "\n".join(f"| {row} |" for row in rows)
    return ""


def _paragraphs(frame: Any) -> str:
    """The paragraphs, indented by their level. A line break within one is a vertical tab there."""
    lines = (f"{'  ' * each.level}{each.text}".rstrip() for each in frame.paragraphs)
    return "\n".join(lines).replace("\v", "\n")
