"""Office documents, made with the libraries of their formats, and archives that only look like them."""

from __future__ import annotations

import datetime
import io
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import docx
import pptx
import xlsxwriter
from pptx.util import Inches

Cell = str | int | float | bool | datetime.datetime | None
MAIN = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def archive(members: Mapping[str, bytes | str], *, stored: Sequence[str] = ()) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            method = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            file.writestr(name, content, compress_type=method)
    return written.getvalue()


def changed(body: bytes, changes: Mapping[str, bytes | str | None]) -> bytes:
    """An archive with other members; ``None`` removes one."""
    with zipfile.ZipFile(io.BytesIO(body)) as file:
        members: dict[str, bytes | str | None] = {
            each.filename: file.read(each) for each in file.infolist()
        }
    members.update(changes)
    return archive({name: content for name, content in members.items() if content is not None})


# --- Word -----------------------------------------------------------------------------------------


def word(make: Callable[[Any], object]) -> bytes:
    document = docx.Document()
    make(document)
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


def word_with(body: str, *, doctype: str = "") -> bytes:
    """A document whose body is this XML."""
    document = f'<?xml version="1.0"?>{doctype}<w:document xmlns:w="{MAIN}"><w:body>{body}</w:body></w:document>'
    # The styles of the library's template take longer to read than all else.
    return changed(word(lambda _: None), {"word/document.xml": document, "word/styles.xml": None})


# --- PowerPoint -----------------------------------------------------------------------------------


def slides(*made: tuple[str, str, str]) -> bytes:
    """Slides with a title, text (levels as tabs) and notes."""
    presentation = pptx.Presentation()
    for title, text, notes in made:
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = title
        frame = slide.placeholders[1].text_frame
        for number, line in enumerate(text.splitlines()):
            paragraph = frame.paragraphs[0] if number == 0 else frame.add_paragraph()
            paragraph.text = line.lstrip("\t")
            paragraph.level = len(line) - len(line.lstrip("\t"))
        if notes:
            slide.notes_slide.notes_text_frame.text = notes
    return saved(presentation)


def slide_with_table_and_groups() -> bytes:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    table = slide.shapes.add_table(2, 2, Inches(1), Inches(1), Inches(3), Inches(1)).table
    for row, values in enumerate((("City", "People"), ("Bonn", "330,000"))):
        for column, value in enumerate(values):
            table.cell(row, column).text = value
    group = slide.shapes.add_group_shape()
    inner = group.shapes.add_group_shape()
    box = inner.shapes.add_textbox(Inches(1), Inches(3), Inches(3), Inches(1))
    box.text_frame.text = "In two groups"
    return saved(presentation)


def saved(presentation: Any) -> bytes:
    written = io.BytesIO()
    presentation.save(written)
    return written.getvalue()


# --- sheets ---------------------------------------------------------------------------------------


def workbook(sheets: Mapping[str, Sequence[Sequence[Cell]]]) -> bytes:
    written = io.BytesIO()
    book = xlsxwriter.Workbook(written, {"in_memory": True})
    day = book.add_format({"num_format": "yyyy-mm-dd hh:mm"})
    for name, rows in sheets.items():
        sheet = book.add_worksheet(name)
        for number, row in enumerate(rows):
            for column, value in enumerate(row):
                if isinstance(value, datetime.datetime):
                    sheet.write_datetime(number, column, value, day)
                elif isinstance(value, str) and value.startswith("="):
                    formula, _, result = value.partition(" -> ")
                    sheet.write_formula(number, column, formula, None, result)
                else:
                    sheet.write(number, column, value)
    book.close()
    return written.getvalue()


def open_sheets(sheets: Mapping[str, Sequence[Sequence[str | float]]]) -> bytes:
    """An OpenDocument spreadsheet."""
    office = "urn:oasis:names:tc:opendocument:xmlns:"
    tables = "".join(
        f'<table:table table:name="{name}">'
        + "".join(
            "<table:table-row>" + "".join(map(_open_cell, row)) + "</table:table-row>"
            for row in rows
        )
        + "</table:table>"
        for name, rows in sheets.items()
    )
    content = (
        f'<office:document-content xmlns:office="{office}office:1.0" xmlns:table="{office}table:1.0"'
        f' xmlns:text="{office}text:1.0"><office:body><office:spreadsheet>{tables}'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    manifest = (
        f'<m:manifest xmlns:m="{office}manifest:1.0"><m:file-entry m:full-path="/"'
        ' m:media-type="application/vnd.oasis.opendocument.spreadsheet"/></m:manifest>'
    )
    members = {
        "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
        "content.xml": content,
        "META-INF/manifest.xml": manifest,
    }
    return archive(members, stored=["mimetype"])


def _open_cell(value: str | float) -> str:
    if isinstance(value, str):
        return f'<table:table-cell office:value-type="string"><text:p>{value}</text:p></table:table-cell>'
    return (
        f'<table:table-cell office:value-type="float" office:value="{value}"><text:p>{value}</text:p>'
        "</table:table-cell>"
    )


# --- binary workbooks ([MS-XLSB]) -----------------------------------------------------------------

_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
_DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def binary_workbook(sheets: Mapping[str, Sequence[Sequence[str | float | bool]]]) -> bytes:
    """A workbook whose sheets are records, with texts in their cells."""
    links = [
        f'<Relationship Id="rId{number}" Type="{_DOCUMENT}/worksheet" Target="worksheets/sheet{number}.bin"/>'
        for number, _ in enumerate(sheets, start=1)
    ]
    bundles = b"".join(
        # BrtBundleSh: visible, with the number and the relation of the sheet, and its name.
        _binary_record(156, struct.pack("<II", 0, number) + _wide(f"rId{number}") + _wide(name))
        for number, name in enumerate(sheets, start=1)
    )
    # BrtBeginBook, BrtBeginBundleShs, BrtEndBundleShs, BrtEndBook.
    book = _binary_record(131) + _binary_record(143) + bundles
    book += _binary_record(144) + _binary_record(132)
    members: dict[str, bytes | str] = {
        "xl/workbook.bin": book,
        "xl/_rels/workbook.bin.rels": f'<Relationships xmlns="{_PACKAGE}">{"".join(links)}</Relationships>',
    }
    for number, rows in enumerate(sheets.values(), start=1):
        members[f"xl/worksheets/sheet{number}.bin"] = _binary_sheet(rows)
    return archive(members)


def _binary_sheet(rows: Sequence[Sequence[str | float | bool]]) -> bytes:
    widest = max(map(len, rows), default=1)
    bounds = struct.pack("<IIII", 0, max(0, len(rows) - 1), 0, max(0, widest - 1))
    # BrtBeginSheet, BrtWsDim, BrtBeginSheetData; BrtRowHdr before the cells of each row.
    sheet = _binary_record(129) + _binary_record(148, bounds) + _binary_record(145)
    for number, row in enumerate(rows):
        sheet += _binary_record(0, struct.pack("<I13x", number))
        sheet += b"".join(_binary_cell(column, value) for column, value in enumerate(row))
    # BrtEndSheetData, BrtEndSheet.
    return sheet + _binary_record(146) + _binary_record(130)


def _binary_cell(column: int, value: str | float | bool) -> bytes:
    place = struct.pack("<II", column, 0)
    if isinstance(value, bool):
        return _binary_record(4, place + struct.pack("<B", value))
    if isinstance(value, str):
        return _binary_record(6, place + _wide(value))
    return _binary_record(5, place + struct.pack("<d", value))


def _wide(text: str) -> bytes:
    encoded = text.encode("utf-16-le")
    return struct.pack("<I", len(encoded) // 2) + encoded


def _binary_record(kind: int, content: bytes = b"") -> bytes:
    """The kind and the length are written in seven bits a byte."""
    head = bytes([kind]) if kind < 128 else bytes([kind % 128 + 128, kind // 128])
    length, left = bytearray(), len(content)
    while left >= 128:
        length.append(left % 128 + 128)
        left //= 128
    return head + bytes([*length, left]) + content


# --- the container of Office before 2007 ([MS-CFB]) -----------------------------------------------

_FREE, _END, _TABLE, _SECTOR = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD, 512


def compound(name: str, stream: bytes) -> bytes:
    """A container with one stream."""
    stream = stream.ljust(max(4096, -(-len(stream) // _SECTOR) * _SECTOR), b"\0")
    sectors = len(stream) // _SECTOR
    # Sector 0 is the table, sector 1 the directory, the stream follows.
    chain = [*range(3, 2 + sectors), _END]
    table = [_TABLE, _END, *chain]
    table += [_FREE] * (_SECTOR // 4 - len(table))
    header = struct.pack(
        "<8s16x5H6x9I",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        *(0x3E, 3, 0xFFFE, 9, 6),
        *(0, 1, 1, 0, 4096, _END, 0, _END, 0),
    )
    header += struct.pack("<109I", 0, *[_FREE] * 108)
    directory = _entry("Root Entry", 5, _END, 0, child=1) + _entry(name, 2, 2, len(stream))
    directory = directory.ljust(_SECTOR, b"\0")
    return header + struct.pack(f"<{_SECTOR // 4}I", *table) + directory + stream


def _entry(name: str, kind: int, start: int, size: int, child: int = _FREE) -> bytes:
    encoded = name.encode("utf-16-le") + b"\0\0"
    return struct.pack(
        "<64sHBB3I36xIQ", encoded, len(encoded), kind, 1, _FREE, _FREE, child, start, size
    )


def old_workbook(name: str, rows: Sequence[Sequence[str | float]]) -> bytes:
    """A sheet in BIFF8 ([MS-XLS])."""
    globals_start = _record(0x809, struct.pack("<HHHHII", 0x600, 5, 0, 0, 0, 0))
    title = name.encode("cp1252")
    size = len(globals_start) + 4 + 8 + len(title) + 4
    sheet_record = _record(0x85, struct.pack("<IBBBB", size, 0, 0, len(title), 0) + title)
    cells = b"".join(
        _old_cell(row, column, value)
        for row, values in enumerate(rows)
        for column, value in enumerate(values)
    )
    bounds = struct.pack("<IIHHH", 0, len(rows), 0, max(map(len, rows)), 0)
    sheet = _record(0x809, struct.pack("<HHHHII", 0x600, 0x10, 0, 0, 0, 0))
    sheet += _record(0x200, bounds) + cells + _record(0x0A, b"")
    return compound("Workbook", globals_start + sheet_record + _record(0x0A, b"") + sheet)


def _old_cell(row: int, column: int, value: str | float) -> bytes:
    place = struct.pack("<HHH", row, column, 0)
    if isinstance(value, str):
        text = value.encode("cp1252")
        return _record(0x204, place + struct.pack("<HB", len(text), 0) + text)
    return _record(0x203, place + struct.pack("<d", value))


def _record(kind: int, content: bytes) -> bytes:
    return struct.pack("<HH", kind, len(content)) + content
