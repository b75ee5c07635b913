"""Reads Word documents: headings, lists, tables and notes, without pictures. Macros are never run."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import mammoth

from chat.core.isolation.child import Refused
from chat.documents.readers import html, refusals
from chat.documents.readers.archives import check_archive, is_old
from chat.documents.readers.form import Order, Page

_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MAIN = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
# The smallest document.
_SAMPLE = {
    "[Content_Types].xml": f'<Types xmlns="{_TYPES}"/>',
    "_rels/.rels": f'<Relationships xmlns="{_RELATIONS}"><Relationship Id="r" Target="word/document.xml"'
    f' Type="{_OFFICE}/officeDocument"/></Relationships>',
    "word/document.xml": f'<w:document xmlns:w="{_MAIN}"><w:body><w:p><w:r><w:t>x</w:t></w:r></w:p></w:body>'
    "</w:document>",
}


def prime() -> None:
    html.prime()
    sample = io.BytesIO()
    with zipfile.ZipFile(sample, "w") as archive:
        for name, content in _SAMPLE.items():
            archive.writestr(name, content)
    _markup(sample)


def read(file: BinaryIO, order: Order) -> Iterator[Page]:
    if is_old(file):
        raise Refused(refusals.OLD_FORMAT)
    check_archive(file, "word/", order.most_unpacked_bytes)
    yield Page(text=html.whole(_markup(file)))


def _markup(file: BinaryIO) -> str:
    converted = mammoth.convert_to_html(
        file,
        convert_image=_no_image,
        include_embedded_style_map=False,
        external_file_access=False,
    )
    return str(converted.value)


def _no_image(image: Any) -> Sequence[Any]:
    return []
