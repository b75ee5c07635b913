"""Reads text, code, CSV, JSON and Markdown: all of it, as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from chat.core.isolation.child import Refused
from chat.documents.readers import refusals
from chat.documents.readers.encodings import decode
from chat.documents.readers.form import Order, Page


def prime() -> None:
    """Nothing is loaded late."""


def read(file: BinaryIO, order: Order) -> Iterator[Page]:
    body = file.read()
    if body.startswith(b"{\\rtf"):
        raise Refused(refusals.OLD_FORMAT)
    yield Page(text=decode(body))
