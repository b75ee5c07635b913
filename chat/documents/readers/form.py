"""The order to a reader, and the pages that it gives: values for the pipe between it and the job."""

from __future__ import annotations

from msgspec import Struct


class Order(Struct, frozen=True, kw_only=True):
    """The kind to read the file as, and the limits of what it may contain."""

    kind: str
    most_pages: int
    most_characters: int
    # The limit for the members of an archive together, as the archive says.
    most_unpacked_bytes: int


class Page(Struct, frozen=True, kw_only=True):
    """A page, slide or sheet, or all of a text without pages."""

    text: str
    # The name of the sheet or the title of the slide.
    name: str = ""
