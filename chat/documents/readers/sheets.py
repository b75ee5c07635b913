"""Reads spreadsheets (.xlsx, .xls, .xlsb, .ods): the values of each sheet as CSV. Macros are never run."""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetTypeEnum

from chat.core.isolation.child import Refused
from chat.documents.readers import refusals
from chat.documents.readers.archives import check_archive, is_old
from chat.documents.readers.form import Order, Page

# Numbers in sheets are floats. Whole ones up to here are written without a fraction.
_EXACT = 2**53


def prime() -> None:
    """The library converts dates with classes that it looks up at the first use."""
    datetime.datetime.now(datetime.UTC)


def read(file: BinaryIO, order: Order) -> Iterator[Page]:
    if not is_old(file):
        is_open = _is_open_document(file)
        check_archive(file, "content.xml" if is_open else "xl/", order.most_unpacked_bytes)
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(file.read()))
        sheets = [each.name for each in book.sheets_metadata if each.typ == SheetTypeEnum.WorkSheet]
        if len(sheets) > order.most_pages:
            raise Refused(refusals.TOO_MANY_PAGES)
        for name in sheets:
            rows = book.get_sheet_by_name(name).iter_rows()
            yield Page(name=name, text=_table(rows, order.most_characters))
    except PasswordError:
        raise Refused(refusals.PASSWORD) from None
    except CalamineError:
        raise Refused(refusals.DAMAGED) from None


def _is_open_document(file: BinaryIO) -> bool:
    """The first member of such an archive is its media type, without compression (ODF 1.3, part 2, 3.3)."""
    found = file.read(200)
    file.seek(0)
    return b"mimetypeapplication/vnd.oasis.opendocument" in found


def _table(rows: Iterator[Sequence[object]], most_characters: int) -> str:
    """The rows without what is empty at their ends. Between two rows there is at most one empty one."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    is_apart = False
    for row in rows:
        values = [_in_words(value) for value in row]
        while values and not values[-1]:
            values.pop()
        if not values:
            is_apart = written.tell() > 0
            continue
        if is_apart:
            written.write("\n")
        is_apart = False
        writer.writerow(values)
        if written.tell() > most_characters:
            raise Refused(refusals.TOO_LONG)
    return written.getvalue().rstrip("\n")


def _in_words(value: object) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) <= _EXACT else repr(value)
    if isinstance(value, datetime.datetime | datetime.time):
        return value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()
    return str(value)
