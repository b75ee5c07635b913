"""Reads PDF, page by page. Scripts in it are never run, and what it refers to is never opened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

import pypdfium2.raw as pdfium
from pypdfium2 import PdfDocument, PdfiumError

from chat.core.isolation.child import Refused
from chat.documents.readers import refusals
from chat.documents.readers.form import Order, Page

# Other bytes may stand before the header (PDF 32000-1, annex H, note 13).
_HEADER_BYTES = 1024
# A hyphen that divides a word at the end of a line.
_DIVIDING = re.compile("[\x02\ufffe](\r?\n)?")


def prime() -> None:
    """Nothing is loaded late."""


def read(file: BinaryIO, order: Order) -> Iterator[Page]:
    body = file.read()
    try:
        document = PdfDocument(body)
    except PdfiumError as error:
        raise Refused(_reason(error, body)) from None
    count = len(document)
    if not count:
        raise Refused(refusals.DAMAGED)
    if count > order.most_pages:
        # Said before the first page is read: a page tree may claim any number.
        raise Refused(refusals.TOO_MANY_PAGES)
    is_readable = False
    for index in range(count):
        text = _text(document, index)
        is_readable = is_readable or text is not None
        yield Page(text=text or "")
    if not is_readable:
        raise Refused(refusals.DAMAGED)


def _reason(error: PdfiumError, body: bytes) -> str:
    if error.err_code in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY):
        return refusals.PASSWORD
    return refusals.DAMAGED if b"%PDF-" in body[:_HEADER_BYTES] else refusals.WRONG_TYPE


def _text(document: PdfDocument, index: int) -> str | None:
    """The text of a page, empty if it has only pictures; ``None`` for a page that is damaged."""
    try:
        page = document[index]
        text = page.get_textpage()
    except PdfiumError:
        return None
    found = text.get_text_range()
    text.close()
    page.close()
    return _DIVIDING.sub("", found).strip()
