"""The state of a page as its browser sends it in a header, so that responses contain only what changed."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from django.http import HttpRequest

HEADER = "X-Room-Position"
# The header has the hexadecimal ids of a page of turns; longer ones are invalid.
LIMIT = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class PageState:
    """The first and last turn on the page, the ``number`` of the last one, and hashes of its other parts.

    ``open`` are the answers of which more may come, ``strip``, ``action``, ``tools`` and
    ``head`` the marks of the phase strip, the composer's button, its tools and the heading,
    ``writes`` whether there is a composer. ``is_behind``: a line below a turn says that somebody has made
    or continued another version. ``compares``: the last turn has the columns of a comparison. ``runs`` are the runs of the open answers and of the
    last one, each with the number of its questions on the page; ``asks`` the open questions with
    their marks.
    """

    first: str = ""
    tail: str = ""
    number: int = 0
    revision: int = 0
    open: frozenset[str] = frozenset()
    strip: str = ""
    action: str = ""
    tools: str = ""
    head: str = ""
    writes: bool = False
    is_behind: bool = False
    compares: bool = False
    runs: dict[str, int] = field(default_factory=dict)
    asks: dict[str, str] = field(default_factory=dict)
    # The lines of the list beside it.
    lines: int = 0

    @property
    def is_quiet(self) -> bool:
        """True if the page has a composer, no live or waiting answer, and no line that a message may remove."""
        is_settled = not (self.open or self.strip or self.action or self.asks or self.compares)
        return self.writes and is_settled and not self.is_behind


_decoder = msgspec.json.Decoder(PageState)


def page_state_of(request: HttpRequest) -> PageState | None:
    """``None`` without a valid header: then the whole page is sent."""
    header = request.headers.get(HEADER, "")
    if not header or len(header) > LIMIT:
        return None
    return read_page_state(header.encode())


def read_page_state(text: bytes) -> PageState | None:
    """``None`` for what is none, or is of another version."""
    try:
        return _decoder.decode(text)
    except msgspec.MsgspecError:
        return None
