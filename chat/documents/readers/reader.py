"""The reader of all kinds of documents: its frames are pages in JSON."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import BinaryIO, Protocol, cast

import msgspec

from chat.core.isolation.child import Refused
from chat.documents.readers import encodings, refusals
from chat.documents.readers.form import Order, Page

_order = msgspec.json.Decoder(Order)


class _KindReader(Protocol):
    def prime(self) -> None: ...

    def read(self, file: BinaryIO, order: Order) -> Iterator[Page]: ...


def read_document(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    """The pages of a document. Raises ``Refused`` with one of `refusals` if it can't be read, also after the first
    pages; whatever else is raised is the file's fault."""
    wanted = _order.decode(order)
    # Only the library that this kind needs is in the process.
    kind = cast(_KindReader, import_module(f"chat.documents.readers.{wanted.kind}"))
    # Archives and PDFs contain text in several encodings, too.
    encodings.prime()
    kind.prime()
    return _frames(kind, file, wanted)


def _frames(kind: _KindReader, file: BinaryIO, order: Order) -> Iterator[bytes]:
    if not file.read(1):
        raise Refused(refusals.EMPTY)
    file.seek(0)
    characters = 0
    for count, page in enumerate(kind.read(file, order), start=1):
        characters += len(page.text)
        if count > order.most_pages:
            raise Refused(refusals.TOO_MANY_PAGES)
        if characters > order.most_characters:
            raise Refused(refusals.TOO_LONG)
        yield msgspec.json.encode(Page(name=_storable(page.name), text=_storable(page.text)))


def _storable(text: str) -> str:
    """With line feeds only, without what no database accepts."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    return text.encode("utf-8", "replace").decode()
